"""The figures of notebooks/sparse_universality/patterns_and_conditions: small,
described, and readable without colour.
"""

from __future__ import annotations

import pytest
from test_figures import described, doubled

from attnlib import patterns
from attnlib.figures import patterns as draw


def test_growth_is_described_and_doubled():
    values = {name: [(n, 2 * n) for n in (4, 8)] for name in ("a", "b", "c")}
    fig = draw.growth((4, 8), values, values)
    described(fig)
    for ax in fig.axes:
        doubled(ax, 3)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_masks_show_the_first_step_that_reads(count):
    fig = draw.masks({str(i): patterns.strided(9) for i in range(count)})
    assert sum(ax.axison for ax in fig.axes) == count
    image = fig.axes[0].images[0].get_array()
    assert (image == 1).sum() == patterns.strided(9).degrees(0).sum() and set(
        image.flatten().tolist()
    ) == {0, 1, 2}
