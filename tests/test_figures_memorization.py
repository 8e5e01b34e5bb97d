"""What the figures of memorization and of the reviewers' questions draw."""

from __future__ import annotations

from functools import cache

from attnbook.figures import memorization, reviewers

RUNS = {
    "no attention": [0.3, 0.31],
    "one head": [0.6, 0.7],
    "one head, tied": [0.5, 0.6],
    "frozen, one head": [0.4, 0.5],
    "frozen, one head, beta 3": [0.4, 0.41],
}
GAPS = {name: [[1e-3, 0.1], [1e-2, 0.2]] for name in RUNS}


@cache
def every_figure():
    sizes = (64, 256, 1024)
    widths = {
        f"{kind}, N = {n}": [[0.1 * k + 0.3, 0.1 * k + 0.4] for k in range(3)]
        for kind in ("frozen", "trained")
        for n in (50, 100)
    }
    return {
        "accuracies": reviewers.accuracies(
            {
                "no attention": [0.3, 0.31],
                "frozen random": [0.5, 0.4],
                "trained, rank 1": [0.6, 0.7],
            }
        ),
        "widths": reviewers.widths(sizes, widths, {"400 ids": 400, "800 ids": 800}),
    }


def test_every_run_is_a_mark_in_the_row_of_its_model():
    ax = every_figure()["accuracies"].axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    marks = [line for line in ax.lines if line.get_marker() != "None"]
    rows = {names[int(line.get_ydata()[0])]: list(line.get_xdata()) for line in marks}
    assert rows == {
        "no attention": [0.3, 0.31],
        "frozen random": [0.5, 0.4],
        "trained, rank 1": [0.6, 0.7],
    }


def test_the_ids_stand_at_their_width():
    upright = [
        line
        for line in every_figure()["widths"].axes[0].lines
        if line.get_label().endswith("ids")
    ]
    assert [line.get_xdata()[0] for line in upright] == [400, 800]


def test_the_line_meets_the_labels_of_its_units():
    """Frame j goes through the first j labels, and is flat before any."""
    frames, names = memorization.bends([1, 2, 3.5], [2, 1, 4])
    assert names == ["0 units", "1 unit", "2 units", "3 units"]
    for j, fig in enumerate(frames):
        line = fig.axes[0].lines[0]
        met = list(zip(line.get_xdata(), line.get_ydata()))
        assert met[2 : 2 + j] == [(1, 2), (2, 1), (3.5, 4)][:j]


def test_the_strip_holds_its_two_ids_alone():
    """In the drawing as in the theorem: grey ids lie outside of the coloured strip."""
    ax = memorization.strip().axes[0]
    path = ax.patches[0].get_path()
    inside = []
    for line in ax.lines:
        if line.get_marker() in "os":
            spot = (line.get_xdata()[0], line.get_ydata()[0])
            inside.append((line.get_marker(), path.contains_point(spot)))
    squares = [held for mark, held in inside if mark == "s"]
    assert squares == [True, True]
    # each square stands on the circle of an id
    assert sum(held for mark, held in inside if mark == "o") == 2


def test_runs_without_a_gap_are_left_out():
    """Without attention, and where the theory's beta leaves none."""
    fig = memorization.against_gaps(RUNS, GAPS)
    drawn = sum(len(line.get_xdata()) for line in fig.axes[0].lines)
    assert drawn == 8
