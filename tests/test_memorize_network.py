"""attnlib.memorize: the network on the line, the deep one, the memorizer, its block,
and what they refuse.
"""

from __future__ import annotations

import importlib
import itertools
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from attnlib.memorize import (
    count_parameters,
    dense_block,
    fit_deep,
    fit_line,
    interpolate,
    memorize,
    memorizer,
    relu_layer,
)
from attnlib.memorize.deep import Deep

F64 = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def line_data(count, c=2, seed=0):
    g = generator(seed)
    return torch.rand(count, generator=g, dtype=F64).sort().values, torch.randint(
        10, (count, c), generator=g
    ).double()


def sets(count, n=4, tokens=12, d=6, seed=0, dtype=F64, device="cpu"):
    """Random sets of distinct tokens, and random labels, all pairs different."""
    g = generator(seed)
    vocabulary = torch.randn(tokens, d, generator=g, dtype=F64).to(dtype)
    chosen = {}
    while len(chosen) < count:
        chosen[tuple(sorted(torch.randperm(tokens, generator=g)[:n].tolist()))] = 1
    x = vocabulary[torch.tensor(list(chosen))]
    return x.to(device), torch.randint(10, (count, n), generator=g).to(device)


# --- the line


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_search_is_the_dense_network(count):
    t, y = line_data(count)
    points = torch.cat([t, torch.linspace(-1, 2, 301, dtype=F64)])
    off = (interpolate(points, t, y) - relu_layer(points, fit_line(t, y))).abs().max()
    assert off < 1e-8 and torch.equal(interpolate(t, t, y), y)
    assert torch.equal(
        interpolate(points.view(-1, 1), t, y).squeeze(1), interpolate(points, t, y)
    )


@pytest.mark.parametrize("shift", [-1000.0, 0.0, 1000.0])
def test_the_label_of_an_id_is_never_rounded(shift):
    """The line is walked from the nearer end: from the other one 0.1 + 0.2 comes in."""
    t, y = line_data(40)
    t, y = t + shift, y / 10
    assert torch.equal(interpolate(t, t, y), y)


def test_gradients_of_the_two_agree():
    t, y = line_data(12)
    points = torch.linspace(-0.5, 1.5, 57, dtype=F64).requires_grad_()
    line = fit_line(t, y)
    (fast,) = torch.autograd.grad(interpolate(points, t, y).sum(), points)
    (slow,) = torch.autograd.grad(relu_layer(points, line).sum(), points)
    assert (fast - slow).abs().max() < 1e-9 * float(line.slopes.abs().max())
    assert torch.autograd.gradcheck(
        lambda a, b: interpolate(points.detach(), a, b),
        (t.requires_grad_(), y.requires_grad_()),
    )


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t, y: fit_line(t.flip(0), y), "strictly increasing"),
        (
            lambda t, y: fit_line(torch.tensor([0, 1, 5, 5, 7]).to(t), y),
            "strictly increasing",
        ),
        (lambda t, y: count_parameters(2, 3, labels=4), "at most d"),
    ],
)
def test_the_line_refuses(call, words):
    with pytest.raises(ValueError, match=words):
        call(*line_data(5))


# --- the deep network


def test_deep_network_at_every_id():
    random.seed(1)
    for count, reach in ((1, 1), (2, 3), (7, 7), (100, 10**5), (400, 2**20)):
        ids = sorted(random.sample(range(reach), count))
        labels = [random.randrange(6) for _ in ids]
        net = fit_deep(ids, labels)
        assert [net(t) for t in ids] == labels
        assert net.parameters == sum(
            (b != 0) + len(w) for layer in net.layers for b, w in layer
        )


def test_the_longest_weight_of_a_deep_network():
    """-9 has four bits, and a network of zeros none."""
    hidden = [(-5, ((0, 7),)), (3, ((0, -9),))]
    assert Deep([hidden, [(2, ((0, 1), (1, 1)))]]).bits == 4
    assert Deep([[(0, ())]]).bits == 0


@pytest.mark.bad_input
def test_deep_asks_for_ids_that_increase():
    with pytest.raises(ValueError, match="increasing"):
        fit_deep([1, 1], [0, 0])


# --- the memorizer


def test_permuted_batched_and_repeated():
    x, y = sets(60)
    net = memorize(
        torch.cat([x, x[:9].flip(1)]),
        torch.cat([y, y[:9].flip(1)]),
        generator=generator(),
    )
    assert net.report.ids == 240 and net.report.pairs == 276
    assert torch.equal(net(x), y) and torch.equal(net(x[7]), y[7])
    for way in itertools.permutations(range(4)):
        assert torch.equal(net(x[:, list(way)]), y[:, list(way)])
    raw = replace(net, labels=net.values)
    assert torch.equal(torch.cat([raw(a) for a in x.split(7)]), raw(x))


def test_the_block_is_the_memorizer_everywhere():
    x, y = sets(20)
    net = memorize(x, y, generator=generator())
    block = dense_block(net)
    raw = replace(net, labels=net.values.squeeze(1))
    assert (block(x)[..., 0] - y).abs().max() < 1e-8
    assert block(x)[..., 1:].abs().max() < 1e-8
    other = torch.randn(9, 4, 6, generator=generator(3), dtype=F64)
    wanted = raw(other)
    off = (block(other)[..., 0] - wanted) / (1 + wanted.abs())
    assert off.abs().max() < 1e-8
    assert block.parameters == count_parameters(80, 6)


def exact_network(net):
    """The network of a Memorizer in Fractions, as a function of (token, context)."""

    def line(z, f):
        return Fraction(z) + Fraction(net.report.w) * Fraction(f)

    t = [line(*p) for p in zip(net.token.tolist(), net.context.tolist())]
    y = [Fraction(v) for v in net.labels.tolist()]
    before = [t[0] - Fraction(net.lead), *t[:-1]]
    slopes = [(b - a) / (u - v) for a, b, u, v in zip([Fraction(0), *y], y, t, before)]
    jumps = [b - a for a, b in zip([Fraction(0), *slopes], slopes)]
    return lambda z, f: sum(
        (a * max(line(z, f) - b, 0) for a, b in zip(jumps, before)), Fraction(0)
    )


def test_the_search_is_the_network_in_fractions():
    x, y = sets(15)
    net = memorize(x, y, generator=generator())
    f = exact_network(net)
    assert all(
        f(*p) == int(v)
        for p, v in zip(
            zip(net.token.tolist(), net.context.tolist()), net.labels.tolist()
        )
    )
    z, c = torch.randn(2, 40, generator=generator(1), dtype=F64)
    got = memorizer._evaluate(z, c, net)[:, 0]
    wanted = torch.tensor(
        [float(f(*p)) for p in zip(z.tolist(), c.tolist())], dtype=F64
    )
    assert ((got - wanted) / (1 + wanted.abs())).abs().max() < 1e-9


def test_vectors_as_labels_and_masks():
    x, y = sets(30)
    mask = torch.rand(30, 4, generator=generator(5)) < 0.8
    mask[:, 0] = True
    labels = torch.randn(12, 3, generator=generator(), dtype=F64)[
        torch.randint(12, (30, 4), generator=generator())
    ]
    lonely = mask.sum(1) == 4  # all of one size: proportional multisets have equal ids
    net = memorize(
        x[lonely], labels[lonely], token_mask=mask[lonely], generator=generator()
    )
    assert torch.equal(net(x[lonely], mask[lonely]), labels[lonely])
    three = mask.clone()
    three[:, :3], three[:, 3] = True, False
    kept, where = torch.unique(x[:, :3].sum((1, 2)), return_inverse=True)
    first = torch.stack([(where == i).nonzero()[0, 0] for i in range(len(kept))])
    net = memorize(x[first], y[first], token_mask=three[first], generator=generator())
    got = net(x[first], three[first])
    assert torch.equal(got[:, :3], y[first][:, :3]) and not got[:, 3].any()


def test_repeated_tokens_count():
    a, b, c = torch.randn(3, 5, generator=generator(), dtype=F64)
    x = torch.stack(
        [torch.stack(row) for row in ((a, a, b), (a, b, b), (a, b, c), (a, a, a))]
    )
    y = torch.tensor([[1, 1, 2], [3, 4, 4], [5, 6, 7], [8, 8, 8]])
    net = memorize(x, y, generator=generator())
    assert torch.equal(net(x), y) and net.report.ids == 8


def test_ids_may_coincide_where_labels_agree():
    """{a, b} and {a, a, b, b} have equal ids; with equal labels that is no
    contradiction, as {a, a, a, b} shows.
    """
    a, b = torch.randn(2, 5, generator=generator(), dtype=F64)
    x = torch.stack(
        [
            torch.stack([a, b, a, b]),
            torch.stack([a, b, a, a]),
            torch.stack([a, b, a, a]),
        ]
    )
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True] * 4])
    y = torch.tensor([[1, 2, 1, 2], [1, 2, 0, 0], [3, 4, 3, 3]])
    net = memorize(x, y, token_mask=mask, generator=generator())
    assert (
        torch.equal(net(x, mask), y)
        and net.report.ids == 6
        and net.report.gap < float("inf")
    )


def test_labels_near_the_limits_of_the_dtype():
    """A slope, label over gap, overflows; a share of a label does not."""
    x = torch.randn(6, 3, 5, generator=generator())
    for y in (
        torch.randn(6, 3, generator=generator(1)) * 1e34,
        torch.full((6, 3), 3e38),
    ):
        net = memorize(x, y, generator=generator())
        assert torch.equal(net(x), y)
    for seed in (0, 1, 2, 3, 4, 6, 8, 9, 10):  # no two tokens agree along a direction
        x, y = (
            torch.randn(4, 2, 5, generator=generator(seed)).half(),
            torch.randint(900, (4, 2), generator=generator(seed)),
        )
        assert torch.equal(memorize(x, y, generator=generator(2))(x), y)


def test_hidden_tokens_may_hold_anything():
    x, y = sets(5)
    net = memorize(x, y, generator=generator())
    padded = torch.cat([x, x * float("nan")], 1)
    seen = torch.tensor([True] * 4 + [False] * 4).expand(5, 8)
    assert torch.equal(net(padded, seen)[:, :4], y)


def test_one_token_and_one_sequence():
    x = torch.ones(1, 1, 1, dtype=F64)
    net = memorize(x, torch.tensor([[3]]), generator=generator())
    assert net(x).tolist() == [[3]] and net.report.ids == 1


def test_tokens_of_a_large_vocabulary():
    x = torch.randn(
        400, 12, 8, generator=generator(), dtype=F64
    )  # 4800 tokens, each seen once
    y = torch.randint(5, (400, 12), generator=generator())
    net = memorize(x, y, generator=generator())
    assert torch.equal(net(x), y) and net.report.vocabulary == 4800


def test_rounding_of_the_input_is_forgiven():
    """Another order of summation, as on another device, moves v.x by a few ulps."""
    x, y = sets(60)
    net = memorize(x, y, generator=generator())
    assert torch.equal(
        net(
            x
            * (
                1
                + 2e-16 * torch.randn(x.shape, generator=generator(), dtype=F64).sign()
            )
        ),
        y,
    )


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("kind", ["integers", "floats", "vectors"])
def test_a_network_is_saved_and_loaded(tmp_path, dtype, kind):
    x, y = sets(20, dtype=dtype)
    if kind != "integers":
        y = y.to(dtype) / 4
    if kind == "vectors":
        y = torch.stack([y, -y], -1)
    net = memorize(x, y, generator=generator())
    torch.save(net, tmp_path / "net.pt")
    again = torch.load(tmp_path / "net.pt", weights_only=False)
    assert torch.equal(again(x), y) and again(x).dtype == y.dtype
    assert again.report == net.report
    other = torch.randn(7, 4, 6, generator=generator(3), dtype=F64).to(dtype)
    assert torch.equal(again(other), net(other))


def test_a_network_moves(device):
    x, y = sets(20)
    there = memorize(x, y, generator=generator()).to(device)
    assert there.labels.device.type == device.type
    assert torch.equal(there(x.to(device)).cpu(), y)


def test_bits_of_the_report_by_hand():
    """The smallest gap of two ids of one token, counted in its own way."""
    x, y = sets(60)
    net = memorize(x, y, generator=generator())
    token, context = net.token.tolist(), net.context.tolist()
    gap = float("inf")
    for i, j in itertools.combinations(range(len(token)), 2):
        if token[i] == token[j] and net.labels[i] != net.labels[j]:
            gap = min(gap, abs(context[i] - context[j]))
    bits = 0
    while gap * 2**bits < max(map(abs, context)):
        bits += 1
    assert net.report.gap == gap and net.report.bits == bits + 1
    assert net.report.dtype_bits == 52


@pytest.mark.parametrize("offset", [1e5, 1e7])
def test_tokens_far_from_zero(offset):
    x, y = sets(60, tokens=9)
    net = memorize(x + offset, y, generator=generator())
    assert torch.equal(net(x + offset), y)


@pytest.mark.bad_input
@pytest.mark.parametrize("device", [torch.float32, "foo", 99, torch.ones(3)])
def test_a_network_moves_to_devices_only(device):
    net = memorize(*sets(5), generator=generator())
    with pytest.raises(ValueError, match="device must be"):
        net.to(device)


@pytest.mark.cuda
def test_cuda_gives_the_same_labels():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, y = sets(300, n=8, tokens=32, d=16, device="cuda")
    net = memorize(x, y, generator=generator())
    assert torch.equal(net(x), y)
    assert torch.equal(net.to("cpu")(x.cpu()), y.cpu())
    again = net.to("cpu").to("cuda")
    assert torch.equal(again(x), y)


# --- what it refuses


def refused(x, y, words, **more):
    with pytest.raises(ValueError, match=words):
        memorize(x, y, **({"generator": generator()} | more))


@pytest.mark.bad_input
def test_contradictions_name_both_places():
    x, y = sets(5)
    twice, labels = torch.cat([x, x[1:2].flip(1)]), torch.cat([y, y[1:2].flip(1)])
    labels[5, 0] = 99
    refused(twice, labels, r"\(1, 3\) and \(5, 0\) hold the same token")


@pytest.mark.bad_input
def test_numbers_too_large_too_small_or_too_fine_are_refused():
    x, y = sets(5)
    refused(x * 1e-200, y, "no beta that suits them")
    refused(x * 1e300, y, "no beta that suits them")
    refused(x * 1e300, y, "lower beta", beta=1.0)
    refused(x.where(x != x[2, 1], 0 * x), y, "sequences hold zero tokens")
    refused(x, y + 2**60 + 1, "numbers that")
    refused(
        x.float(), y.double() / 3, "numbers that"
    )  # float64 labels would be rounded
    refused(x.float(), y.double() + 1e300, "numbers that")


@pytest.mark.bad_input
def test_what_the_dtype_cannot_hold():
    x, y = sets(400, n=6, tokens=16, d=8, dtype=torch.bfloat16)
    refused(x, y, "torch.bfloat16 cannot hold .* torch.float64 would")
    a, b = torch.randn(2, 5, generator=generator(), dtype=F64)
    pair = torch.stack([torch.stack([a, b, a, b]), torch.stack([a, b, a, a])])
    refused(
        pair,
        torch.tensor([[1, 2, 1, 2], [3, 4, 0, 0]]),
        r"\(0, 0\) and \(1, 0\) are no further apart in their company",
        token_mask=torch.tensor([[True] * 4, [True, True, False, False]]),
    )
    x, y = sets(60)
    refused(x, y, r"beta was 1e\+06", beta=1e6)
    a = torch.tensor(
        [[1.0, 1.0], [1.0078125, 1.0]]
    ).bfloat16()  # one step of the dtype apart
    refused(
        a[None],
        torch.tensor([[0, 1]]),
        r"tokens at .* \(0, 0\) and \(0, 1\) are no further",
    )


@pytest.mark.bad_input
def test_a_network_that_misses_a_label_is_refused(monkeypatch):
    """The last check reads the data as a user would; NaN counts as a miss."""
    true = memorizer._evaluate
    for wrong in (lambda *a: true(*a) + 1, lambda *a: true(*a) * float("nan")):
        monkeypatch.setattr(memorizer, "_evaluate", wrong)
        refused(*sets(5), "misses a label")


@pytest.mark.bad_input
def test_the_caller_and_the_block_refuse():
    x, y = sets(5)
    net = memorize(x, y, generator=generator())
    for wrong, words in (
        (x.float(), "one dtype: x is torch.float32"),
        (x[..., :3], "x must have shape"),
        (x[0, 0], "x must be"),
        (x[:0], "a batch that is not empty"),
        (x * float("nan"), "NaN"),
        (torch.cat([x, 0 * x], 1), "hide padding"),
    ):
        with pytest.raises(ValueError, match=words):
            net(wrong)
    with pytest.raises(ValueError, match="token_mask must be boolean"):
        net(x, torch.ones(5, 4))
    with pytest.raises(ValueError, match="label features, got 7"):
        dense_block(replace(net, labels=torch.ones(20, 7, dtype=F64)))


# --- training


@pytest.fixture
def experiment(monkeypatch):
    folder = Path(__file__).resolve().parents[1] / "book" / "_experiments"
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module("memorization")


def test_a_small_block_trains(experiment):
    x, y = sets(6)
    g = generator()
    block = experiment.TrainedBlock(6, 64, 10, generator=g)
    before = [p.clone() for p in block.maps]
    assert experiment.train_block(block, x.float(), y, steps=200, rate=1e-2) > 0.8
    assert all(not torch.equal(a, b) for a, b in zip(before, block.maps))
    frozen = experiment.TrainedBlock(6, 64, 10, kind="random", generator=g)
    before = [p.clone() for p in frozen.maps]
    experiment.train_block(frozen, x.float(), y, steps=5)
    assert all(torch.equal(a, b) for a, b in zip(before, frozen.maps))


def test_masked_tokens_do_not_reach_the_block(experiment):
    x = torch.randn(3, 5, 6, generator=generator())
    block = experiment.TrainedBlock(6, 8, 4, heads=2, rank=3, generator=generator())
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[:, 4] = False
    assert torch.allclose(block(x, mask)[:, :4], block(x[:, :4]), atol=1e-6)


def test_layers_follow_each_other(experiment):
    """Two layers of one head, by the formula; tied, one matrix is queries, keys and
    values.
    """
    x = torch.randn(2, 5, 6, generator=generator(), dtype=F64)
    for tied in (False, True):
        how = {"layers": 2, "tied": tied, "generator": generator()}
        block = experiment.TrainedBlock(6, 8, 4, **how).double()
        h = x
        for q, k, v, o in (list(block.maps[:4]), list(block.maps[4:])):
            assert (q is k and q is v) == tied
            p = torch.softmax((h @ q[0]) @ (h @ k[0]).mT, -1)
            h = h + p @ (h @ v[0]) @ o[0].mT
        torch.testing.assert_close(block.attend(x), h)
    assert sum(p.numel() for p in block.parameters()) == 4 * 6 + 7 * 8 + 9 * 4


def test_a_frozen_head_of_beta_zero_adds_the_mean(experiment):
    """Along a direction of length 2: its mean place, times the unit vector."""
    x = torch.randn(2, 5, 3, generator=generator(), dtype=F64)
    v = torch.tensor([[2.0, 0, 0]], dtype=F64)
    how = {"kind": "frozen", "directions": v, "generator": generator()}
    block = experiment.TrainedBlock(3, 2, 2, beta=0.0, **how).double()
    wanted = x.clone()
    wanted[..., 0] += 2 * x[..., 0].mean(1, keepdim=True)
    torch.testing.assert_close(block.attend(x), wanted)


# --- the memorizer's parts, by hand


def test_the_slack_by_hand():
    """4 d eps times the length of the longest token, (3, 4)."""
    eps = torch.finfo(F64).eps
    vocabulary = torch.tensor([[3.0, 4.0], [1.0, 0.0]], dtype=F64)
    assert memorizer._slack(vocabulary) == 4 * 2 * eps * 5


def test_only_what_is_near_a_token_is_moved_to_it():
    z = torch.tensor([0.99, 1.01, 2.01, 2.1, 3.0, 4.01], dtype=F64)
    tokens = torch.tensor([1.0, 2.0, 4.0], dtype=F64)
    found = memorizer._snap(z, tokens, 0.05)
    assert found.tolist() == [1.0, 1.0, 2.0, 2.1, 3.0, 4.0]


def test_one_knot_with_a_shorter_step():
    """One id and label 3 at theta 1/2: from 1.5 on it rises by 6, to 3 at 2."""
    line = fit_line(torch.tensor([2.0]), torch.tensor([[3.0]]), theta=0.5)
    assert (line.knots.tolist(), line.slopes.tolist()) == ([1.5], [[6.0]])
