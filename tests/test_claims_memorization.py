"""What attnbook.theorems.memorization cannot say: that a certified error holds for the
network of its floats in exact arithmetic, and that the theorems refuse what they are
not about.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from attnbook.theorems import memorization as claims
from attnlib.memorize import fit_groups
from attnlib.memorize.dense import Grouped, _errors, _hyperplanes

double = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def exact_network(net, point):
    """The network of these floats at a point of floats, in fractions."""
    total = Fraction(0)
    columns = zip(net.w_1.T.tolist(), net.b_1.tolist(), net.w_2.tolist())
    for into, bias, out in columns:
        argument = Fraction(bias)
        argument += sum(Fraction(w) * Fraction(c) for w, c in zip(into, point))
        total += max(argument, 0) * Fraction(out)
    return total


@pytest.mark.parametrize("seed", [0, 1])
def test_the_certified_error_holds_in_fractions(seed):
    """Also for the floats, and it is not idle: rounding alone makes it positive."""
    made = claims.ids_of_a_head(N=12, n=3, tokens=9, d=5, seed=seed)
    net = fit_groups(**made, generator=generator(seed))
    floats = net(made["points"]).tolist()
    for point, label, value in zip(made["points"].tolist(), made["labels"], floats):
        exact = exact_network(net, point)
        assert abs(exact - Fraction(float(label))) <= net.error
        assert abs(Fraction(value) - exact) <= net.error
    assert 0 < net.error < 1e-3


def test_the_error_by_hand():
    """One unit relu(h + 1) at h = 1 with label 2: the unit may be 3 u (1 + 1) off, the
    sum 2 u times 2; twice that is 20 u, u = eps / 2.
    """
    one = torch.ones(1, dtype=double)
    net = Grouped(one[:, None], one, one, torch.zeros(1, dtype=torch.long), 0.0)
    error = float(_errors(net, one[:, None], 2 * one))
    assert error == pytest.approx(10 * torch.finfo(double).eps, rel=1e-6, abs=0)


@pytest.mark.parametrize(("d", "units"), [(1 << 14, 1), (1, 1 << 14), (1000, 3000)])
def test_the_error_of_long_sums_in_float32_by_hand(d, units):
    """Each unit is relu(h_1 + ... + h_d + 1) = 2 at the first unit vector, of which it
    may miss a share gamma of d + 2 products, and the sum of all a share gamma of one
    more than the units; gamma of k is k u / (1 - k u), u = 2^-24.
    """
    point = torch.eye(1, d)
    group = torch.zeros(1, dtype=torch.long)
    net = Grouped(
        torch.ones(d, units), torch.ones(units), torch.ones(units), group, 0.0
    )
    error = float(_errors(net, point, torch.tensor([2.0 * units])))

    def gamma(k):
        return Fraction(k, 2**24) / (1 - Fraction(k, 2**24))

    each = 2 * gamma(d + 2)
    wanted = 2 * units * (each + gamma(units + 1) * (2 + each))
    assert error == pytest.approx(float(wanted), rel=1e-5)


def test_hyperplanes_have_normals_of_length_one():
    """So that of two the one that leaves more room is the better one."""
    points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 3, 4]], dtype=double)
    raised = torch.cat([points, torch.ones(3, 1, dtype=double)], 1)
    own = torch.tensor([[True], [True], [False]])
    reach = torch.ones(3, 1, dtype=double)
    members = torch.tensor([[0, 1]])
    plane, eta = _hyperplanes(raised, members, own, reach, generator())
    assert float(plane[0, :3].norm()) == pytest.approx(1, abs=1e-12)
    assert float(eta) == pytest.approx(float((plane @ raised[2]).abs()), abs=1e-12)


def test_groups_need_a_deal_by_tokens():
    """All points of one token on a line: one group each, and told to ignore that the
    library refuses.
    """
    line = torch.arange(6.0, dtype=double)[:, None] * torch.ones(3, dtype=double)
    labels = torch.tensor([0.0, 1, 0, 1, 0, 1], dtype=double)
    alone = torch.zeros(6, dtype=torch.long)
    net = fit_groups(line, labels, tokens=alone, generator=generator())
    assert len(net.b_1) == 24 and net.group.unique().tolist() == list(range(6))
    for scale, words in (
        (1, "no deal of 8 keeps points apart"),
        (1e-160, "where labels are 1 apart"),
    ):
        with pytest.raises(ValueError, match=words):
            fit_groups(scale * line, labels, generator=generator())


def test_more_groups_make_smaller_weights():
    """64 groups of 12 or 13 points, where 50 of 16 would do, hold in float32."""
    made = claims.ids_of_a_head(seed=1)
    made["labels"] -= 2
    few = fit_groups(**made, generator=generator())
    more = fit_groups(**made, generator=generator(), groups=64)
    assert (len(few.b_1), len(more.b_1)) == (200, 256)
    assert 3 * more.w_2.abs().median() < few.w_2.abs().median()
    assert 2 * more.error < few.error
    into, bias, out = more.w_1.float(), more.b_1.float(), more.w_2.float()
    found = torch.relu(made["points"].float() @ into + bias) @ out
    assert (found - made["labels"]).abs().max() < 0.25


def test_a_label_is_certified_up_to_half_of_the_distance_to_the_next():
    """What the network may miss the labels 1 and 1 + 1e-12 by, it may miss those as far
    apart as 2.5 times that by: less than a half of it, and more than a third.
    """
    points = torch.tensor([[1.0], [2.0]], dtype=double)
    near = torch.tensor([1.0, 1.0 + 1e-12], dtype=double)
    error = fit_groups(points, near, generator=generator()).error
    for times, ok in ((2.5, True), (1.7, False)):
        labels = torch.tensor([1.0, 1.0 + times * error], dtype=double)
        assert claims.grouped(points, labels, torch.arange(2)).ok is ok


def test_parameters_are_counted():
    made = claims.ids_of_a_head(N=12, n=3, tokens=9, d=5)
    net = fit_groups(**made, generator=generator())
    assert net.parameters == 4 * 8 * (5 + 2)  # ceil(36 / 5) groups


def test_labels_of_three_units_in_the_plane_have_ten_dimensions():
    """Nine weights, three biases and one more, less three scalings."""
    points = torch.randn(40, 2, generator=generator(), dtype=double)
    verdict = claims.dimension(points, [3])
    assert verdict.value == verdict.bound == 10


POINTS = torch.randn(6, 2, generator=generator(), dtype=double)
LABELS = torch.arange(6.0, dtype=double)
TOKENS = torch.arange(6)
SETS = claims.random_sets()
ONE_ZERO = SETS["sequences"].clone()
ONE_ZERO[1, 0] = 0
REFUSED = (
    (lambda: claims.exact_labels([1, 2], [0], [0, 1]), "as many"),
    (lambda: claims.exact_labels([2, 1], [0, 1], [1, 1]), "ids must increase"),
    (lambda: claims.exact_labels([1, 2], [0, 1], [0, 3]), "knots must lie between"),
    (lambda: claims.exact_labels([1, None], [0, 1], [0, 1]), r"ids\[1\]"),
    (lambda: claims.exact_labels([1, 10**400], [0, 1], [0, 1]), "which floats hold"),
    (lambda: claims.knots(LABELS, LABELS, 0.5), "theta must be above 1/2"),
    (lambda: claims.knots(LABELS.float(), LABELS, 1.0), "ids must be float64"),
    (lambda: claims.knots(LABELS, 0 * LABELS, 1.0), "not all be zero"),
    (lambda: claims.width([[(1, 2, 0)]]), "direction 1 or -1"),
    (lambda: claims.width([]), "layers must hold at least one"),
    (lambda: claims.block(SETS["sequences"].float(), SETS["labels"]), "float64"),
    (lambda: claims.block(SETS["sequences"], 1 - SETS["labels"][:3]), "labels must be"),
    (lambda: claims.block(0 * SETS["sequences"], SETS["labels"]), "no zero token"),
    (lambda: claims.block(ONE_ZERO, SETS["labels"]), "no zero token"),
    (lambda: claims.grouped(POINTS, LABELS[:3], TOKENS), "labels"),
    (lambda: claims.grouped(POINTS * torch.nan, LABELS, TOKENS), "points holds NaN"),
    (lambda: claims.grouped(POINTS, LABELS, LABELS), "tokens must be"),
    (lambda: claims.grouped(POINTS.float(), LABELS.float(), TOKENS), "float64"),
    (lambda: claims.grouped(0 * POINTS, LABELS, TOKENS), "points must differ"),
    (lambda: claims.dimension(POINTS, []), "hidden must hold at least one"),
    (lambda: claims.dimension(POINTS[0], [3]), "points must be"),
    (lambda: claims.deep([0, 1, 2], [0, 0, 0], r=1), "top r = 1 bits"),
    (lambda: claims.bits(max, 30, 2, [1]), "at most 2\\^20"),
    (lambda: claims.least_units(0, 3), "D must be an integer"),
)


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_theorems_refuse(call, words):
    with pytest.raises(ValueError, match=words):
        call()
