"""The numbers of an audit as pictures: each head a mark above its layer.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import io
import re

from attnlib.audit.measures import UNIT, Row

# As on the pages of the book, whose figures stand in attnbook.
BLUE, GREEN, GREY = "#0072B2", "#009E73", "#8A8A8A"
ORANGE, VERMILLION = "#E69F00", "#D55E00"
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "lines.linewidth": 1.6,
}
SUFFIXES = (".png", ".svg", ".pdf")
# Title, label of the axis, and the quantities: how they are drawn, and their legend.
PANELS = [
    ("what the heads keep", "tau", {"tau": ("o", BLUE, "")}),
    (
        "the leading token of a mean row",
        "share of weight",
        {"top key": ("o", ORANGE, "")},
    ),
    (
        "where 90% of the mass lies",
        "share of pairs",
        {"connections, 90%": ("o", GREEN, "")},
    ),
    (
        "how much the tokens differ",
        "relative residual",
        {
            f"relative residual after{UNIT}": ("s-", VERMILLION, "at unit length"),
            "relative residual after": ("_", GREY, "as they are"),
        },
    ),
]
HEARD = (
    "who has heard of whom",
    "share of pairs",
    {"pairs heard, 90%": ("s-", VERMILLION, "")},
)


def draw(rows: list[Row]):
    """Four panels over the layers: tau, the leading token, the pairs that hold the
    mass, and the tokens.

    Args:
        rows: of a report.

    Returns:
        matplotlib.figure.Figure, in the style of the book.

    Raises:
        RuntimeError: with a sentence, if matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise RuntimeError(
            "pictures need matplotlib, which is not installed: pip install matplotlib"
        ) from None
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(7.0, 4.6), layout="constrained")
        axes = fig.subplots(2, 2)
    for ax, (title, label, quantities) in zip(axes.flat, _panels(rows)):
        for quantity, (style, color, legend) in quantities.items():
            places, values = _points(rows, quantity)
            alpha = 1.0 if "-" in style else 0.7  # marks may lie on each other
            about = {"color": color, "ms": 4, "alpha": alpha}
            ax.plot(places, values, style, label=legend, **about)
        if any(legend for _, _, legend in quantities.values()):
            ax.legend(fontsize=8, frameon=False)
        ax.set(title=title, ylabel=label, xlabel="layer", ylim=(-0.03, 1.05))
        ax.xaxis.get_major_locator().set_params(integer=True)
    return fig


def alt(rows: list[Row]) -> str:
    """The figure in words.

    Args:
        rows: of a report.

    Returns:
        one sentence a panel.
    """
    layers = sorted({row["layer"] for row in rows if row["layer"] is not None})
    heads = {(row["layer"], row["head"]) for row in rows if row["head"] is not None}
    said = [
        f"Four panels over layers {layers[0]} to {layers[-1]}, a mark for each of "
        f"{len(heads)} heads."
    ]
    for title, label, quantities in _panels(rows):
        _, values = _points(rows, next(iter(quantities)))
        if values:
            span = f"from {min(values):.2g} to {max(values):.2g}"
            said.append(f"{title.capitalize()}: {label} {span}.")
    return " ".join(said)


def svg(rows: list[Row]) -> str:
    """The figure as SVG that stands in a page.

    Args:
        rows: of a report.

    Returns:
        an svg element.
    """
    buffer = io.StringIO()
    draw(rows).savefig(buffer, format="svg", metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)


def _panels(rows: list[Row]) -> list[tuple]:
    known = bool(_points(rows, "relative residual after")[0])
    return [*PANELS[:3], PANELS[3] if known else HEARD]


def _points(rows: list[Row], quantity: str) -> tuple[list[float], list[float]]:
    """Places over the layers and values of a quantity; heads stand side by side."""
    found = []
    for row in rows:
        if row["quantity"] == quantity and row["value"] is not None:
            found.append(row)
    heads = 1 + max((row["head"] or 0 for row in found), default=0)
    places = []
    for row in found:
        aside = 0 if row["head"] is None else (row["head"] + 0.5) / heads - 0.5
        places.append(row["layer"] + 0.6 * aside)
    return places, [row["value"] for row in found]
