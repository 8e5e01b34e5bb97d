"""Page sparse_universality/from_integers_to_softmax: what was worked out by hand."""

import math

import pytest
import torch

from attnbook.theorems import from_integers_to_softmax as claims
from attnlib.attention import feed_forward
from attnlib.universal import ramp_mlp, run_standard, standard

double = torch.float64
ONE = torch.ones(1, dtype=double)


def test_one_leader():
    """Four others at a distance of 10: they get b / (1 + b) with b = 4 e^-10."""
    leaked = claims._share_of_others(**claims.scores_with_a_lead(5, scale=20.0))
    assert leaked == pytest.approx(0.00018156674658, abs=1e-14)


@pytest.mark.parametrize(
    ("beta", "by_hand"), [(math.log(9), 3.2), (math.log(99), 3.92)]
)
def test_the_smallest_example_moves(beta, by_hand):
    """To 4 tanh(beta / 2)."""
    network = claims.network_of("dense", 2, 1, 2)["network"]
    parts = [s for s in standard(network) if s.kind in ("quantise", "attention")]
    first = [part.kind for part in parts].index("attention")
    x = torch.tensor([[0.25], [0.25]], dtype=double)  # ids 2 and 0
    z = run_standard(x, parts[: first + 1], network.mapping, scale=beta)
    assert 2 * float(z[1, 0]) == pytest.approx(by_hand, abs=1e-9)


def test_a_window():
    """Of the id 0, with ramps of 1/4, at six points."""
    x = torch.tensor([[-0.75], [-0.625], [-0.5], [0.25], [0.375], [0.5]], dtype=double)
    y = feed_forward(x, ramp_mlp(ONE, ONE, (-0.5, 0.5), 0.0, 1.0, 0.25)).flatten()
    assert y.tolist() == [0, 0.5, 1, 1, 0.5, 0]


def test_clamps_cut_at_the_bound():
    """On a ramp of its quantiser the network throws out a raw id of thousands of cells;
    clamps at 1.3 cut it to 1.3, and not to more.
    """
    network = claims.network_of("dense")["network"]
    x = torch.tensor([[[0.2475], [0.3], [0.6]]], dtype=double)  # 0.99 of a cell

    def largest(clamp):
        layers = standard(network, ramp=0.05, clamp=clamp)
        return float(run_standard(x, layers, network.mapping, scale=100.0).abs().max())

    assert largest(None) > 100
    assert largest(1.3) == pytest.approx(1.3, abs=1e-6)


def test_a_token_that_waits():
    """Layers for the ids 5, 9, 2 in this order: at the token of id 9 the first layer
    has a hidden unit of 9 - 5 + 3/4.
    """
    mlp = ramp_mlp(ONE, ONE, (4.5, 5.5), 0.0, 1.0, 0.25)
    hidden = torch.relu(torch.tensor([[9.0]], dtype=double) @ mlp.w_1 + mlp.b_1)
    assert float(hidden.max()) == 4.75


ENTRIES = 8
H = 1 / ENTRIES


def test_nothing_does_better():
    """The distance to the nearest place and its negative have the same table, all
    zeros; so whatever reads it misses one of them by h / 2.
    """
    places = claims.places_of(ENTRIES)
    x = torch.linspace(0, 1, 8 * ENTRIES + 1, dtype=double)
    roof = (x[:, None] - places).abs().amin(1)
    blind = claims.read_table(x, places, torch.zeros_like(places), 4 / H**2)
    miss = torch.maximum((blind - roof).abs(), (blind + roof).abs()).max()
    assert float(miss) / H == pytest.approx(0.5, abs=1e-8)


def test_a_cone_over_a_midpoint():
    """At beta h^2 = 4 it is missed by 0.50033535 h, the sum of (k + 1/2) e^(-4k(k+1))
    over that of e^(-4k(k+1)).
    """
    places = claims.places_of(ENTRIES)
    middle = torch.tensor([0.5], dtype=double)  # between the fourth and the fifth
    cone = claims.read_table(middle, places, (places - 0.5).abs(), 4 / H**2)
    assert float(cone) / H == pytest.approx(0.50033535, abs=1e-8)
