"""The ids of the room memorize: kernels against literal twins, gradients, devices, bad
input. Claims: test_claims_contextual_mapping.py.
"""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from attnlib import memorize
from attnlib.attention import NORMALIZERS, forward


def rand(*shape, seed=0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def literal_ids(x, v, beta, normalizer="softmax"):
    """One sequence, by the formula."""
    z = [sum(a * b for a, b in zip(row, v)) for row in x]

    def weights(c):
        return NORMALIZERS[normalizer](torch.stack([beta * c * a for a in z]))

    return torch.stack(z), torch.stack(
        [sum(p * a for p, a in zip(weights(c), z)) for c in z]
    )


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_ids_and_their_gradients(normalizer):
    x, v = rand(3, 5, 4).requires_grad_(), rand(4, seed=1).requires_grad_()
    fast = memorize.context_ids(x, v, 0.7, normalizer=normalizer)
    slow = [
        torch.stack(t)
        for t in zip(*(literal_ids(row, v, 0.7, normalizer) for row in x))
    ]
    mix = rand(3, 5, seed=2)
    for a, b in zip(fast, slow):
        assert torch.allclose(a, b, atol=1e-13)
        for p, q in zip(
            torch.autograd.grad((a * mix).sum(), (x, v), retain_graph=True),
            torch.autograd.grad((b * mix).sum(), (x, v), retain_graph=True),
        ):
            assert torch.allclose(p, q, atol=1e-12)


@pytest.mark.parametrize("beta", [-0.8, 0.0, 0.3, 40.0])
def test_the_head_is_an_attention_layer(beta):
    x, v = rand(6, 7, 3), rand(3, seed=1)
    ids = memorize.context_ids(x, v, beta)
    h = forward(x, [memorize.rank_one_layer(v, beta, 0.25)], skip=True)
    assert torch.allclose(x + 0.25 * ids.context.unsqueeze(-1) * v, h, atol=1e-13)


def test_tiles_and_single_sequences(monkeypatch):
    x, v = rand(40, 6, 3), rand(3, seed=1)
    whole = memorize.context_ids(x, v, 0.5)
    monkeypatch.setattr("attnlib.memorize.ids.TILE", 36 * 7)
    for a, b in zip(whole, memorize.context_ids(x, v, 0.5)):
        assert torch.equal(a, b)
    for a, b in zip(whole, memorize.context_ids(x[3], v, 0.5)):
        assert torch.allclose(a[3], b, atol=1e-14)


def test_permuted_sequences_get_the_same_bits():
    x, v, g = rand(200, 16, 5), rand(5, seed=1), torch.Generator().manual_seed(3)
    order = torch.rand(200, 16, generator=g).argsort(1)
    ids = memorize.context_ids(x, v, 0.3).context
    again = memorize.context_ids(x.take_along_dim(order[..., None], 1), v, 0.3).context
    assert torch.equal(ids.gather(1, order), again)


def test_a_mask_is_a_shorter_sequence():
    x, v = rand(4, 6, 3), rand(3, seed=1)
    mask = torch.tensor(
        [[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    ).bool()
    x = x.masked_fill(~mask[..., None], math.nan).requires_grad_()
    v.requires_grad_()
    ids = memorize.context_ids(x, v, 0.9, token_mask=mask)
    for row, keep, token, context in zip(x, mask, *ids):
        short = memorize.context_ids(row[keep], v, 0.9)
        assert torch.allclose(token[keep], short.token) and torch.allclose(
            context[keep], short.context
        )
        assert not token[~keep].any() and not context[~keep].any()
    assert all(
        torch.isfinite(t).all() for t in torch.autograd.grad(ids.context.sum(), (x, v))
    )


def test_projection_is_verified_on_all_pairs():
    g = torch.Generator().manual_seed(0)
    vocabulary = rand(12, 4)
    found = memorize.choose_projection(vocabulary, generator=g)
    points = torch.cat([vocabulary, torch.zeros(1, 4, dtype=torch.float64)])
    ratios = [
        float((found.v @ (a - b)).abs() / (a - b).norm())
        for a, b in combinations(points, 2)
    ]
    assert min(ratios) >= memorize.threshold(
        12, 4
    ) and found.min_ratio == pytest.approx(min(ratios), rel=1e-9)
    assert found.min_ratio <= min(ratios) and float(found.v.norm()) == pytest.approx(1)
    best = memorize.choose_projection(vocabulary, generator=g, best_of=30)
    assert best.draws == 30 and best.min_ratio > found.min_ratio


def test_projection_tiles(monkeypatch):
    def make():
        return memorize.choose_projection(
            rand(50, 3), generator=torch.Generator().manual_seed(1)
        )

    whole = make()
    monkeypatch.setattr("attnlib.memorize.direction.TILE", 7 * 51)
    assert make().min_ratio == whole.min_ratio


def test_projection_draws_as_often_as_best_of_says():
    found = choose(rand(6, 3), best_of=200)
    assert (
        found.draws == 200
        and found.min_ratio > choose(rand(6, 3), best_of=20).min_ratio
    )


@pytest.mark.bad_input
@pytest.mark.parametrize(("best_of", "draws"), [(1, 64), (65, 65)])
def test_projection_gives_up(best_of, draws):
    """No direction tells these two tokens apart: every draw is made in vain."""
    near = torch.tensor([[1.0, 1], [1, 1 + 1e-15]], dtype=torch.float64)
    with pytest.raises(ValueError, match=f"no draw of {draws} keeps the tokens"):
        choose(near, best_of=best_of)


@pytest.mark.parametrize("exponent", [-1000, -565, 510, 1018])
def test_the_ratio_does_not_depend_on_the_size_of_tokens(exponent):
    """Squares of distances would underflow to zero, or overflow."""
    points = rand(6, 3)
    found = choose(points * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2))
    assert (
        torch.equal(found.v, choose(points).v)
        and found.min_ratio == choose(points).min_ratio < 1
    )


@pytest.mark.parametrize("d", [1, 2, 16])
def test_projection_of_one_token(d):
    assert (
        memorize.choose_projection(
            rand(1, d), generator=torch.Generator().manual_seed(0)
        ).draws
        >= 1
    )


def literal_gap(ids):
    steps = [abs(a - b) for a, b in combinations(ids, 2) if a != b]
    return memorize.Gap(len(ids), len(set(ids)), min(steps, default=math.inf))


@pytest.mark.parametrize("seed", range(4))
def test_smallest_gap(seed, monkeypatch):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 90, (7, 11), generator=g).double() / 7
    groups = torch.randint(0, 3, (7, 11), generator=g)
    for tile in (1, 5, 76, 77, 1 << 18):
        monkeypatch.setattr("attnlib.memorize.ids.TILE", tile)
        assert memorize.smallest_gap(ids) == literal_gap(ids.flatten().tolist())
    each = [literal_gap(ids[groups == c].tolist()) for c in range(3)]
    distinct = sum(one.distinct for one in each)
    smallest = min(one.smallest for one in each)
    assert memorize.smallest_gap(ids, groups) == memorize.Gap(77, distinct, smallest)


def test_smallest_gap_of_few():
    for ids, gap in (
        (torch.tensor([2.0]), (1, 1, math.inf)),
        (torch.tensor([0.0, -0.0]), (2, 1, math.inf)),
        (torch.tensor([1.0, 1.5], dtype=torch.bfloat16), (2, 2, 0.5)),
        (torch.tensor([3.0, 1.0, 1.0]), (3, 2, 2.0)),
    ):
        assert memorize.smallest_gap(ids) == memorize.Gap(*gap)


def test_separate_counts_tokens_in_company():
    v = torch.tensor([1.0], dtype=torch.float64)
    x = torch.tensor(
        [[1.0, 2, 3], [3, 2, 1], [1, 2, 4], [1, 1, 2]], dtype=torch.float64
    )[..., None]
    assert memorize.separate(x, v, 0.5).distinct == 3 + 3 + 2
    tiny = memorize.separate(x * 1e-20, v, 0.5e40)  # no two of them are one number
    assert tiny.distinct == 3 + 3 + 2


def test_devices_and_dtypes(device):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = rand(5, 4, 3).to(device, dtype)
        p = memorize.choose_projection(
            x.flatten(0, 1), generator=torch.Generator().manual_seed(0)
        )
        ids = memorize.context_ids(x, p.v, 0.5)
        assert (
            p.v.dtype == ids.token.dtype == ids.context.dtype == dtype
            and ids.context.device.type == device.type
        )
        assert memorize.smallest_gap(ids.context).count == 20
        assert memorize.separate(x.double(), p.v.double(), 0.5).distinct == 20


def test_threshold_by_hand():
    assert memorize.threshold(4, 2) == pytest.approx(2 / math.sqrt(math.pi) / 25)
    assert memorize.threshold(1, 8) == pytest.approx(1 / math.sqrt(math.pi) / 4)


def test_scales_by_hand():
    paper = memorize.paper_scale(4, 3, 1, r_min=1.0, r_max=2.0, eps=1 / 3)
    assert (
        paper.beta == pytest.approx(3826.76, rel=1e-5)
        and paper.log10_gap == pytest.approx(-13300.75, abs=0.05)
        and paper.w == 1 / 24
    )
    wide = memorize.paper_scale(2, 2, 1, r_min=1.0, r_max=3.0, eps=10.0)
    assert wide.beta == pytest.approx(13.952199518, rel=1e-9)  # 81 pi (2 ln 2 + 3) / 80
    assert wide.log10_gap == pytest.approx(-111.087832957, rel=1e-9)
    assert wide.w == 10 / 12
    z = torch.tensor([1, 4 / 3, 5 / 3, 2], dtype=torch.float64)
    assert memorize.data_scale(z, 3).beta == pytest.approx(
        15.59, rel=1e-3
    ) and memorize.data_scale(z, 3).log10_gap == pytest.approx(-9.25, abs=0.01)
    assert (
        memorize.data_scale(z, 3, multisets=True).beta > memorize.data_scale(z, 3).beta
    )


BAD = {
    "a zero token": (
        lambda: choose(torch.tensor([[1.0, 2], [0, 0]])),
        "no zero token, got 2 rows of which 1 are such",
    ),
    "equal tokens": (lambda: choose(torch.ones(3, 2)), "3 rows of which 1 are such"),
    "tokens of unlike size": (
        lambda: choose(
            torch.tensor(
                [[1.0, 1], [1e-170, 1e-170], [2e-170, 1e-170]], dtype=torch.float64
            )
        ),
        "keeps the tokens",
    ),
    "a token orthogonal to v": (
        lambda: memorize.context_ids(torch.eye(2), torch.tensor([1.0, 0]), 1.0),
        "1 tokens have v.x = 0",
    ),
    "beyond every float": (
        lambda: memorize.context_ids(rand(2, 3) * 1e300, rand(3), 1.0),
        "lower beta, or scale",
    ),
    "beta beyond the dtype": (
        lambda: memorize.context_ids(torch.full((2, 1), 1e-20), torch.ones(1), 1e40),
        "lower beta, or scale",
    ),
    "tokens too small for a scale": (
        lambda: memorize.data_scale(rand(3) * 1e-200, 2),
        "must be a float",
    ),
    "sizes too small for a scale": (
        lambda: memorize.paper_scale(3, 2, 1, r_min=1e-200, r_max=1.0, eps=1e-200),
        "other units",
    ),
    "overflow": (
        lambda: memorize.context_ids(torch.full((2, 1), 1e30), torch.ones(1), 1.0),
        "lower beta",
    ),
    "bf16 does not hold them": (
        lambda: memorize.separate(many().bfloat16(), torch.ones(1).bfloat16(), 0.3),
        "torch.float32 would hold all",
    ),
    "hardmax does not": (
        lambda: memorize.separate(many(), torch.ones(1), 0.3, normalizer="hardmax"),
        "no wider dtype",
    ),
    "n = 1": (
        lambda: memorize.data_scale(rand(3), 1),
        "n must be an integer of at least 2",
    ),
    "equal along v": (
        lambda: memorize.data_scale(torch.ones(3), 2),
        "z must hold different numbers, none 0",
    ),
    "radii": (
        lambda: memorize.paper_scale(3, 2, 1, r_min=2.0, r_max=1.0, eps=1.0),
        "r_min <= r_max",
    ),
    "one token": (
        lambda: memorize.paper_scale(1, 2, 1, r_min=1.0, r_max=1.0, eps=1.0),
        "count must be an integer of at least 2",
    ),
}


def choose(vocabulary, **words):
    return memorize.choose_projection(
        vocabulary, generator=torch.Generator().manual_seed(0), **words
    )


def ids(**words):
    return memorize.context_ids(rand(2, 2, 3), rand(3), 1.0, **words)


def many():
    return torch.tensor(list(combinations([1.0, 1.5, 2.25, 3.0, 4.0, 4.5], 3)))[
        ..., None
    ]


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()
