"""Figures of the pages, a module a chapter. The only room that imports matplotlib; only
pages import it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
from collections.abc import Sequence

import matplotlib

matplotlib.use("agg")

from IPython.display import HTML  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

# Okabe and Ito's palette: told apart by readers with any colour vision; always doubled
# by marker or dash.
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#8A8A8A"

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
    return HTML(f'<figure class="attn-figure">{_img(fig, alt)}</figure>')


def slider(frames: Sequence[Figure], labels: Sequence[str], *, alt: str) -> HTML:
    """Precomputed frames under a slider, by mouse and keyboard; without scripts the
    middle frame stands alone.
    """
    if len(frames) < 2 or len(frames) != len(labels):
        raise ValueError(
            f"a slider needs two or more frames and a label for each, got {len(frames)}, {len(labels)}"
        )
    last, start = len(frames) - 1, len(frames) // 2
    images = [
        _img(f, f"{alt} Shown: {label}.", hidden=i != start)
        for i, (f, label) in enumerate(zip(frames, labels))
    ]
    ident = "slider-" + hashlib.sha256("".join(images).encode()).hexdigest()[:10]
    words, wide = (
        html.escape("|".join(labels)),
        max(map(len, labels)),
    )  # room for the longest: the handle stays where it is
    return HTML(
        f'<figure class="attn-figure attn-slider" id="{ident}" data-labels="{words}">{"".join(images)}'
        f'<label hidden>Move the slider: <input type="range" min="0" max="{last}" value="{start}" '
        f'style="width:min(14rem,50%);vertical-align:middle"> '
        f'<output style="display:inline-block;min-width:{wide}ch;text-align:left">{html.escape(labels[start])}</output></label></figure>'
        f"<script>(() => {{const f = document.getElementById('{ident}'); if (!f) return;"
        "const l = f.dataset.labels.split('|'), i = f.querySelector('input');"
        "f.querySelector('label').hidden = false;"
        "i.addEventListener('input', () => {f.querySelector('output').textContent = l[i.value];"
        "f.querySelectorAll('img').forEach((g, k) => {g.hidden = k != i.value;});});})();</script>"
    )


def _img(fig: Figure, alt: str, *, hidden: bool = False) -> str:
    if len(alt) < 40:
        raise ValueError("alt must say what the figure shows, in a sentence")
    marks = sum(len(line.get_xdata()) for ax in fig.axes for line in ax.lines) + sum(
        c.get_offsets().shape[0] for ax in fig.axes for c in ax.collections
    )
    kind, dpi, mime = (
        ("png", 200, "image/png") if marks > 2000 else ("svg", 100, "image/svg+xml")
    )
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        fig.savefig(
            buffer,
            format=kind,
            dpi=dpi,
            metadata={"Date": None} if kind == "svg" else None,
        )
    data = base64.b64encode(buffer.getvalue()).decode()
    style = 'style="max-width:100%;background:white"' + (" hidden" if hidden else "")
    return f'<img alt="{html.escape(alt)}" {style} src="data:{mime};base64,{data}">'
