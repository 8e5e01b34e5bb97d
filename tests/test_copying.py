"""The room copying: fields and bounds against their literal twins, the networks, and
bad input. Claims: test_claims_copying_task.py.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch.nn import functional as F

from attnbook.data.mixers import (
    Attend,
    Convolve,
    MixingNetwork,
    Project,
    evaluate,
    plan,
    reads,
    train_network,
)
from attnlib import copying, patterns
from attnlib.copying import IGNORED, causal_pattern, copy_targets
from attnlib.sparse import masked_attention


def literal_fields(masks):
    """Definition 15.1 by sets."""
    n = masks[0].shape[-1]
    merged = [mask if mask.dim() == 2 else mask.any(0) for mask in masks]
    sets = [{k} for k in range(n)]
    out = [sets]
    for mask in merged:
        sets = [
            sets[k].union(*(sets[j] for j in mask[k].nonzero().flatten().tolist()))
            for k in range(n)
        ]
        out.append(sets)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_fields_by_sets(seed):
    g = torch.Generator().manual_seed(seed)
    n = 3 + 2 * seed
    masks = [torch.rand(*((2,) * (l % 2)), n, n, generator=g) < 0.2 for l in range(3)]
    got = copying.receptive_fields(masks)
    assert got.shape == (4, n, n) and got.dtype == torch.bool
    for field, sets in zip(got, literal_fields(masks), strict=True):
        assert [set(row.nonzero().flatten().tolist()) for row in field] == sets


def test_fields_of_many_tokens_lose_nothing():
    """Sums in single precision stay exact zeros or positive: one path among 600 tokens
    is seen.
    """
    n = 600
    masks = [torch.zeros(n, n, dtype=torch.bool) for _ in range(3)]
    for l, mask in enumerate(masks):
        mask[n - 2 - l if l < 2 else n - 1, :] = l == 0
    masks[1][n - 5, n - 2] = masks[2][n - 9, n - 5] = True
    assert copying.receptive_fields(masks)[-1][n - 9].all()


def test_the_steps_of_the_heads():
    pattern = patterns.fixed(8, 2)

    def steps(*sizes):
        return [layer.steps for layer in plan(pattern, *sizes)]

    assert steps(2, 3, "multihead") == [(0, 1, 0)] * 2
    assert steps(3, 2, "sequential") == [(0, 0), (1, 1), (0, 0)]
    union = plan(pattern, 3, 4, "union")
    assert len(union) == 3
    assert union[0].steps == (0,) * 4
    assert torch.equal(reads(union[0])[0], pattern.mask(0) | pattern.mask(1))


def test_sequences_repeat_themselves():
    x = copying.sequences(5, 4, 400, generator=torch.Generator().manual_seed(0))
    assert (
        x.shape == (400, 12) and torch.equal(x[:, :6], x[:, 6:]) and not x[:, 0].any()
    )
    assert set(x[:, 1:6].flatten().tolist()) == {1, 2, 3, 4}
    targets = copy_targets(x)
    assert (
        torch.equal(targets[:, 6:11], x[:, 1:6])
        and (targets == IGNORED).sum() == 400 * 7
    )
    queries, sources = copying._places(torch.eye(12, dtype=torch.bool))
    assert torch.equal(x[:, sources], targets[:, queries])


def test_reached_counts_both_places():
    field = torch.zeros(8, 8, dtype=torch.bool)
    field[4, 1] = field[5, 6] = field[6, 2] = True
    assert copying.reached(field).tolist() == [True, True, False]
    assert copying.bound(copying.reached(field), 4) == Fraction(2, 3) + Fraction(1, 12)


def test_small_integers_have_targets_too():
    x = copying.sequences(3, 4, 2, generator=torch.Generator().manual_seed(0))
    targets = copy_targets(x.to(torch.uint8))
    assert targets.dtype == torch.int64
    assert torch.equal(targets, copy_targets(x))


def test_a_ceiling_by_hand():
    """One sequence, V = 2: kl(u | 1/2) = ln 2 - H(u) is ln 2 / 2 at u = 0.8899721."""
    hit = torch.zeros(3, dtype=torch.bool)
    found = copying.ceiling(hit, 2, samples=1, failure=2**-0.5)
    assert found == pytest.approx(0.8899721, abs=1e-6)


def test_the_divergence():
    assert copying._divergence(0.3, 0.3) == pytest.approx(0, abs=1e-15)
    assert copying._divergence(1.0, 0.25) == pytest.approx(
        torch.tensor(4.0).log().item()
    )
    assert copying._divergence(0.0, 0.25) == pytest.approx(
        -torch.tensor(0.75).log().item()
    )


def mixings(n=8):
    p = patterns.causal(patterns.strided(n, 3, reach=1))
    return [
        *plan(p, 1, 2, "multihead"),
        Project(n),
        Convolve(n, 3),
        Convolve(n, 3, causal=False),
    ]


def test_the_mask_of_each_kind():
    attend, project, before, around = (reads(x) for x in mixings())
    assert attend.shape == (2, 8, 8) and torch.equal(
        attend[0] | attend[1], attend.any(0)
    )
    assert torch.equal(project, torch.ones(8, 8).tril().bool())
    assert before.sum() == 8 + 7 + 6 and around.sum() == 8 + 7 + 7
    assert reads(Project(4, causal=False)).all()


def test_mixers_by_their_formulas():
    """W_P X, and sum_t filter_t x_{k - t}: the literal twins, gradients included;
    tolerance 100 eps.
    """
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 8, 6, dtype=torch.float64, generator=g, requires_grad=True)
    net = MixingNetwork(5, mixings(), width=6, seed=1).double()
    attend, project, before, around = net.layers
    assert not any("mask" in name for name in net.state_dict())  # it is no weight
    wanted = (project.between * torch.ones(8, 8).tril()) @ x
    assert torch.allclose(project.mix(x), wanted, atol=1e-13)
    for block, left in ((before, 2), (around, 1)):
        own = torch.zeros_like(x)
        for k in range(8):
            for t in range(3):
                if 0 <= k - left + t < 8:
                    own = (
                        own
                        + F.one_hot(torch.tensor(k), 8)[None, :, None]
                        * x[:, k - left + t, None]
                        * block.filter[:, 0, t]
                    )
        assert torch.allclose(block.mix(x), own, atol=1e-13)
        grads = [
            torch.autograd.grad(y.square().sum(), [x, block.filter])
            for y in (block.mix(x), own)
        ]
        assert all(
            torch.allclose(one, two, atol=1e-12)
            for one, two in zip(*grads, strict=True)
        )
    q, k, v = attend.qkv(x).view(2, 8, 3, 2, 3).permute(2, 0, 3, 1, 4)
    heads = [
        masked_attention(q[:, h], k[:, h], v[:, h], reads(attend.mixing)[h])
        for h in range(2)
    ]
    assert torch.allclose(attend.mix(x), torch.cat(heads, -1), atol=1e-13)


def test_the_sparse_kernel_and_the_masks_give_the_same_network():
    n, x = 18, torch.randint(0, 5, (3, 18), generator=torch.Generator().manual_seed(0))
    for scheme in ("union", "multihead", "sequential"):
        for made in (patterns.strided(n, 4, reach=3), patterns.fixed(n, 4)):
            p, results = patterns.causal(made), []
            for sparse in (False, True):
                net = MixingNetwork(
                    5, plan(p, 2, 4, scheme, sparse=sparse), width=16, seed=2
                ).double()
                y = net(x)
                y.square().sum().backward()
                results.append(
                    (y.detach(), net.embed.weight.grad, net.layers[0].qkv.weight.grad)
                )
            for a, b in zip(*results, strict=True):
                assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)


def test_causal_patterns_by_their_definition():
    n, w = 13, 4
    g = torch.Generator().manual_seed(0)
    wanted = {
        "dense": lambda k, j: True,
        "window": lambda k, j: k - j < w,
        "star": lambda k, j: j in (0, k - 1, k),
        "strided": lambda k, j: k - j < w or (k - j) % w == 0,
        "half strided": lambda k, j: k - j <= w // 2 or (k - j) % w == 0,
        "fixed": lambda k, j: k // w == j // w or j % w == w - 1,
    }
    for name, rule in wanted.items():
        sets = [{j for j in range(k + 1) if rule(k, j)} for k in range(n)]
        mask = patterns.one_step(causal_pattern(name, n, w)).mask()
        assert [set(row.nonzero().flatten().tolist()) for row in mask] == sets, name
    mask = causal_pattern("random", n, w, generator=g).mask()
    assert not mask.triu(1).any() and mask.diagonal().all()
    assert ((mask.sum(1) - torch.arange(1, n + 1).clamp_max(w)) <= 1).all() and mask[
        :4
    ].sum() == 10


def batches(seed=0, m=3, symbols=4):
    g = torch.Generator().manual_seed(seed)

    def draw(size=8):
        x = copying.sequences(m, symbols, size, generator=g)
        return x, copy_targets(x)

    return draw


def small(seed=0):
    return MixingNetwork(
        5, plan(patterns.causal(patterns.dense(8)), 1, 2, "union"), width=16, seed=seed
    )


def test_a_seed_gives_the_same_run_again():
    runs = []
    for seed in (0, 0, 1):
        net = small(seed)
        curve = train_network(net, batches(seed), steps=40)
        weights = torch.cat([p.detach().flatten() for p in net.parameters()]).tolist()
        runs.append((curve, weights))
    assert runs[0] == runs[1] and runs[0] != runs[2] and len(runs[0][0]) == 2
    state = torch.get_rng_state()
    small(3)
    assert torch.equal(state, torch.get_rng_state())


def test_the_curve_holds_the_mean_loss_of_so_many_steps():
    """At a rate of 1e-30 no weight moves, so each step has the loss of its batch."""
    net, draw = small(), batches()
    given = [draw() for _ in range(40)]
    losses = [evaluate(net, *batch)[1] for batch in given]
    curve = train_network(net, iter(given).__next__, steps=40, rate=1e-30)
    means = [sum(losses[:20]) / 20, sum(losses[20:]) / 20]
    assert curve == pytest.approx(means, abs=1e-4)
    assert abs(means[0] - means[1]) > 1e-3


def test_training_learns_and_evaluation_counts():
    net, draw = small(), batches()
    before = evaluate(net, *draw(200))
    curve = train_network(net, draw, steps=200)
    after = evaluate(net, *draw(200))
    assert (
        before[0] < 0.5 < 0.95 < after[0]
        and after[1] < before[1]
        and curve[-1] < curve[0]
    )
    x, targets = draw(4)
    logits = net(x)[:, 4:7]
    assert evaluate(net, x, targets)[0] == pytest.approx(
        float((logits.argmax(-1) == x[:, 5:]).double().mean())
    )
    loss = F.cross_entropy(logits.flatten(0, 1), x[:, 5:].flatten())
    assert evaluate(net, x, targets)[1] == pytest.approx(loss.item(), rel=1e-5)


def test_evaluation_by_parts_is_that_of_the_whole():
    x, targets = batches()(50)
    net = small()
    whole = evaluate(net, x, targets, size=50)
    for size in (1, 7, 256):
        part = evaluate(net, x, targets, size=size)
        assert part[0] == whole[0] and part[1] == pytest.approx(whole[1], rel=1e-6)


def test_devices_agree(device):
    masks = [reads(x).to(device) for x in mixings()]
    field = copying.receptive_fields(masks)[-1]
    assert field.device.type == device.type
    assert torch.equal(copying.reached(field).cpu(), copying.reached(field.cpu()))
    x = copying.sequences(
        3, 4, 6, generator=torch.Generator(device=device).manual_seed(0)
    )
    net = MixingNetwork(5, mixings(), width=8).to(device)
    assert torch.allclose(
        net(x).cpu(), MixingNetwork(5, mixings(), width=8)(x.cpu()), atol=1e-4
    )


# --- bad input


@pytest.mark.bad_input
def test_bad_fields_are_refused():
    eye = torch.eye(6, dtype=torch.bool)
    for call, message in [
        (lambda: copying.receptive_fields([eye, eye[:4, :4]]), "mask 1 must be"),
        (lambda: copying.reached(torch.eye(5, dtype=torch.bool)), "even length"),
        (lambda: copying.ceiling(eye[0], 3, samples=5, failure=1.0), "failure must"),
        (lambda: copying.best_accuracy(eye, 3, weights=[1, 1, 1]), "sum one"),
        (lambda: copying.best_accuracy(eye, 2, weights=["1", 0]), r"weights\[0\] must"),
        (lambda: copying.best_accuracy(eye, 2, weights=0.5), "weights must be a list"),
        (lambda: copying.best_accuracy(eye, 1001), "more than 1,000,000"),
        (lambda: copy_targets(torch.ones(2, 5).long()), r"x must be \(batch, 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.bad_input
def test_bad_networks_are_refused():
    p = patterns.causal(patterns.dense(8))
    for call, message in [
        (lambda: MixingNetwork(5, [Project(8), Project(6)]), "same tokens"),
        (lambda: MixingNetwork(5, [Attend(p, (0,) * 3)], width=8), "heads must divide"),
        (lambda: MixingNetwork(5, [Convolve(8, 4, causal=False)]), "odd unless causal"),
        (
            lambda: MixingNetwork(5, [Convolve(8, 0)]),
            "width must be an integer of at least 1, got 0",
        ),
        (
            lambda: small()(torch.zeros(2, 1, dtype=torch.long)),
            r"tokens must be \(batch, 8\), got \(2, 1\)",
        ),
        (lambda: MixingNetwork(5, [Project(2.5)]), "n must be an integer"),
        (
            lambda: train_network(small(), batches(), steps=30),
            "multiple of 20",
        ),
        (
            lambda: evaluate(
                small(),
                torch.zeros(1, 8, dtype=torch.long),
                torch.full((1, 8), IGNORED),
            ),
            "no target counts",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.bad_input
def test_a_width_and_a_generator_are_asked_for():
    with pytest.raises(ValueError, match="w must be in 1..n"):
        causal_pattern("window", 8, 9)
    with pytest.raises(ValueError, match="torch.Generator"):
        causal_pattern("random", 8, 2)
