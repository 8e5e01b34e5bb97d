"""What the figures of the page Benchmarks draw."""

from __future__ import annotations

import pytest

from bench import figures as draw
from bench import scaling


def records():
    """As the job makes them, with times and bytes that follow the predictions."""
    for kernel in scaling.KERNELS:
        for name, axis in kernel.axes.items():
            at = axis.sizes(False)
            seconds = [[1e-3 * (v / at[0]) ** axis.time for v in at]] * 3
            bytes_ = [int(4096 * (v / at[0]) ** axis.memory) for v in at]
            measured = {"seconds": {"ours": seconds}, "peak bytes": bytes_}
            yield {
                "job": "scaling",
                "kernel": kernel.name,
                "axis": name,
                "at": at,
                **measured,
            }


def test_every_look_is_a_kernel_of_the_table():
    assert set(draw.LOOKS) <= {kernel.name for kernel in scaling.KERNELS}


def test_lines_start_at_one_and_end_where_the_record_does():
    ax = draw.scaling(list(records())).axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    assert all(
        line.get_xdata()[0] == line.get_ydata()[0] == 1 for line in lines.values()
    )
    assert abs(lines["attention matrix"].get_ydata()[-1] - 64) < 1e-9
    assert abs(lines["window"].get_ydata()[-1] - 8) < 1e-9
    assert list(lines["_slope 2"].get_ydata()) == [
        1,
        lines["_slope 2"].get_xdata()[1] ** 2,
    ]


def test_an_axis_without_a_record_is_refused():
    with pytest.raises(ValueError, match="no kernel of the figure"):
        draw.scaling([r for r in records() if r["axis"] != "L"])
