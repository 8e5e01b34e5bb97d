"""The numbers of an audit as pictures: each head a mark above its layer.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from attnlib.audit.measures import Row

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
PANELS = {
    "tau": "what the heads keep",
    "pairs": "where 90% of the mass lies",
    "floor": "how far from low rank",
    "states": "how much the tokens differ",
}


def draw(rows: list[Row]):
    """Four panels over the layers: tau beside what the logits allow, the pairs that
    hold the mass, the floor of rank n/4, and the tokens.

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
    tau, pairs = axes[0]
    floor, states = axes[1]
    if _points(rows, "largest tau")[0]:
        _draw(tau, rows, "largest tau", "_", GREY, "allowed by R")
    _draw(tau, rows, "tau", "o", BLUE, "tau")
    tau.set(title=PANELS["tau"], ylabel="tau", ylim=(-0.03, 1.05))
    tau.legend(fontsize=8, frameon=False)

    _draw(pairs, rows, "connections, 99%", "_", GREY, "99%")
    _draw(pairs, rows, "connections, 90%", "o", GREEN, "90%")
    pairs.set(title=PANELS["pairs"], ylabel="share of pairs", ylim=(-0.03, 1.05))
    pairs.legend(fontsize=8, frameon=False)

    _draw(floor, rows, "floor, rank n/4", "o", ORANGE, "every matrix of rank n/4")
    floor.axhline(1, color=GREY, ls=":", label="the zero matrix")
    floor.legend(fontsize=8, frameon=False)
    floor.set(title=PANELS["floor"], ylabel="distance in row sums", ylim=(-0.03, 1.05))

    if _points(rows, "relative residual after")[0]:
        _draw(states, rows, "relative residual after", "s-", VERMILLION, "residual")
        states.set(title=PANELS["states"], ylabel="relative residual", ylim=(0, 1.05))
    else:
        _draw(states, rows, "pairs heard, 90%", "s-", VERMILLION, "heard")
        title = "who has heard of whom"
        states.set(title=title, ylabel="share of pairs", ylim=(0, 1.05))
    for ax in (tau, pairs, floor, states):
        ax.set_xlabel("layer")
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
    said.append(_range(rows, "tau", "Tau"))
    said.append(_range(rows, "connections, 90%", "The share of pairs with 90% of mass"))
    said.append(_range(rows, "floor, rank n/4", "The floor of rank n/4"))
    if _points(rows, "relative residual after")[0]:
        said.append(_range(rows, "relative residual after", "The relative residual"))
    else:
        said.append(_range(rows, "pairs heard, 90%", "The share of pairs heard"))
    return " ".join(sentence for sentence in said if sentence)


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


def _draw(ax, rows, quantity: str, style: str, color: str, label: str) -> None:
    places, values = _points(rows, quantity)
    alpha = 1.0 if "-" in style else 0.7  # marks may lie on each other
    ax.plot(places, values, style, color=color, ms=4, alpha=alpha, label=label)


def _range(rows: list[Row], quantity: str, name: str) -> str:
    """From where to where a quantity goes, in a sentence."""
    _, values = _points(rows, quantity)
    if not values:
        return ""
    return f"{name} goes from {min(values):.2g} to {max(values):.2g}."
