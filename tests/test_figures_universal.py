"""What the figures of the page The universality proof, executed draw."""

from __future__ import annotations

import torch

from attnbook.figures import universal as draw
from attnlib import patterns
from attnlib.universal import approximate


def sweep():
    network = approximate(lambda x: x.flip(-2), 3, 1, 2, patterns.star(3))
    point = torch.tensor([[[0.6], [0.7], [0.1]]], dtype=torch.float64)
    return draw.sweep_frames(network, point)


def test_a_frame_for_each_layer_that_strikes():
    """Two layers for token 1 and one for token 2; besides the input, the rounded ids,
    those that share and the output.
    """
    frames, names = sweep()
    titles = [frame.axes[0].get_title() for frame in frames]
    assert names[0] == "input" and names[-1] == "output"
    assert sum("looks for" in title for title in titles) == 3
    share = patterns.hops(patterns.star(3))
    assert sum("largest" in title for title in titles) == share
    assert len(frames) == len(names) == 6 + share


def test_two_heads_send_a_token_as_far_as_they_say():
    fig = draw.two_heads([1, 5, 8, 10], value=5, size=2)
    words = [text.get_text() for text in fig.axes[0].texts]
    assert "23" in words  # 5 + 2 (10 - 1)
