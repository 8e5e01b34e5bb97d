"""Figures of the pages, a module a page. Of what pages import, the only room that needs
matplotlib.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations

import matplotlib

matplotlib.use("agg")

from IPython.display import HTML  # noqa: E402
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.legend import Legend  # noqa: E402
from matplotlib.text import Text  # noqa: E402

# Okabe and Ito's palette: told apart by readers with any colour vision; always doubled
# by marker or dash.
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#8A8A8A"

# Inches. On a phone six are shrunk to less than four, and letters with them; so there a
# figure is drawn again, as narrow as it may be without words that meet.
PHONE = (4.0, 5.0)

STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "attnlib",
    "mathtext.fontset": "cm",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}


def new(
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (6.0, 3.4),
    **subplots,
):
    """A figure in the style of the book, and its axes."""
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=size, layout="constrained")
        return fig, fig.subplots(rows, columns, **subplots)


def show(fig: Figure, *, alt: str) -> HTML:
    """The figure as an image with a text for those who do not see it."""
    width = _phone_width([fig])
    return HTML(f'<figure class="attn-figure">{_img(fig, alt, width)}</figure>')


SLIDER = """\
<figure class="attn-figure attn-slider" id="{ident}" data-labels="{labels}">{images}\
<label hidden>Move the slider: \
<input type="range" min="0" max="{last}" value="{start}" \
style="width:min(14rem,50%);vertical-align:middle"> \
<output style="display:inline-block;min-width:{room}ch;text-align:left">\
{label}</output></label></figure><script>{script}</script>"""
# Shows the frame of the slider's place, and its label; without scripts nothing is lost
# but the other frames.
SLIDER_SCRIPT = """\
(() => {
  const figure = document.getElementById('IDENT');
  if (!figure) return;
  const labels = figure.dataset.labels.split('|');
  const input = figure.querySelector('input');
  figure.querySelector('label').hidden = false;
  input.addEventListener('input', () => {
    figure.querySelector('output').textContent = labels[input.value];
    figure.querySelectorAll('img').forEach((image, k) => {
      image.hidden = k != input.value;
    });
  });
})();"""


def slider(
    frames: Sequence[Figure],
    labels: Sequence[str],
    *,
    alt: str,
    start: int | None = None,
) -> HTML:
    """Precomputed frames under a slider, by mouse and keyboard; without scripts the
    frame `start` stands alone, the middle one by default.
    """
    if len(frames) < 2 or len(frames) != len(labels):
        raise ValueError(
            "a slider needs two or more frames and a label for each, "
            f"got {len(frames)}, {len(labels)}"
        )
    if start is None:
        start = len(frames) // 2
    images = ""
    width = _phone_width(frames)
    for k, (frame, label) in enumerate(zip(frames, labels)):
        images += _img(frame, f"{alt} Shown: {label}.", width, hidden=k != start)
    ident = "slider-" + hashlib.sha256(images.encode()).hexdigest()[:10]
    filled = SLIDER.format(
        ident=ident,
        labels=html.escape("|".join(labels)),
        images=images,
        last=len(frames) - 1,
        start=start,
        room=max(map(len, labels)),  # the handle stays where it is
        label=html.escape(labels[start]),
        script=SLIDER_SCRIPT.replace("IDENT", ident),
    )
    return HTML(filled)


def _img(fig: Figure, alt: str, width: float | None, *, hidden: bool = False) -> str:
    """The figure as an <img>, in a <picture> with the one of this width for phones."""
    if len(alt) < 40:
        raise ValueError("alt must say what the figure shows, in a sentence")
    _readable(fig)
    style = 'style="max-width:100%;background:white"' + (" hidden" if hidden else "")
    image = f'<img alt="{html.escape(alt)}" {style} src="{_data(fig)}">'
    if width is None:
        return image
    with _as_wide_as(width, fig), warnings.catch_warnings():
        # an SVG has another resolution, and may have less room
        warnings.simplefilter("error", UserWarning)
        try:
            source = f'<source media="(max-width: 30rem)" srcset="{_data(fig)}">'
        except UserWarning:
            return image
    return f"<picture>{source}{image}</picture>"


def _data(fig: Figure) -> str:
    """The address of the figure, drawn as lines, or as pixels if it has many marks."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):  # savefig would draw it twice, with one result
        if _marks(fig) > 2000:
            mime = "image/png"
            fig.set_dpi(200)
            FigureCanvasAgg(fig).print_png(buffer)
        else:
            mime = "image/svg+xml"
            FigureCanvasSVG(fig).print_svg(buffer, metadata={"Date": None})
    return f"data:{mime};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _phone_width(figs: Sequence[Figure]) -> float | None:
    """The least width at which no more words of a figure meet, or leave it, than at its
    own.
    """
    usual = [_clashes(fig) for fig in figs]
    for width in PHONE:
        if all(_fits(width, fig, count) for fig, count in zip(figs, usual)):
            return width
    return None


def _fits(width: float, fig: Figure, most: int) -> bool:
    if fig.get_figwidth() <= width:
        return False
    with _as_wide_as(width, fig):
        return _clashes(fig) <= most


@contextmanager
def _as_wide_as(width: float, fig: Figure) -> Iterator[None]:
    """The figure, for a while, at another width and nearly its height."""
    size = fig.get_size_inches()
    fig.set_size_inches(width, 0.9 * size[1])
    try:
        yield
    finally:
        fig.set_size_inches(size)


def _clashes(fig: Figure) -> int:
    """How many words and legends meet, or nearly; what leaves the figure counts, too,
    and where no room is left for the axes, all does.
    """
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            fig.draw_without_rendering()
        except UserWarning:
            return sys.maxsize
    off = [axis for ax in fig.axes if not ax.axison for axis in (ax.xaxis, ax.yaxis)]
    undrawn = {words for axis in off for words in axis.findobj(Text)}
    boxes = [
        words.get_window_extent()
        for words in fig.findobj(Text)
        if words.get_visible() and words.get_text().strip() and words not in undrawn
    ]
    boxes += [legend.get_window_extent() for legend in fig.findobj(Legend)]
    room = fig.bbox.padded(2).contains
    inside = sum(room(*box.min) and room(*box.max) for box in boxes)
    wider = [box.padded(2, 0) for box in boxes]
    meet = sum(one.overlaps(two) for one, two in combinations(wider, 2))
    return int(len(boxes) - inside + meet)


def _readable(fig: Figure) -> None:
    """Refuse a figure that does not say what its axes are, or whose curves differ by
    colour alone.
    """
    drawn = [ax for ax in fig.axes if ax.axison]
    titled = any(ax.get_title() for ax in drawn)
    for side in ("x", "y"):  # in a row of axes, one may speak for all
        axes = [getattr(ax, f"{side}axis") for ax in drawn]
        marked = [axis for axis in axes if len(axis.get_ticklocs())]
        said = titled or any(axis.get_label_text() for axis in marked)
        if marked and not said:
            raise ValueError(f"the {side} axis of the figure must say what is on it")
    for ax in fig.axes:
        looks = {}
        for line in ax.lines:
            if line.get_label().startswith("_"):
                continue  # it is not in the legend
            hollow = line.get_markerfacecolor() in ("none", "white", "w")
            dashes = str(getattr(line, "_unscaled_dash_pattern", line.get_linestyle()))
            look = line.get_marker(), hollow, dashes
            other = looks.setdefault(look, line.get_label())
            if other != line.get_label():
                raise ValueError(
                    f"{other!r} and {line.get_label()!r} must differ by mark or dash"
                )


def _marks(fig: Figure) -> int:
    """How many points its lines and collections have."""
    count = 0
    for ax in fig.axes:
        count += sum(len(line.get_xdata()) for line in ax.lines)
        count += sum(len(marks.get_offsets()) for marks in ax.collections)
    return count
