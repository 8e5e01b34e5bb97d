"""The room lowrank: kernels against their literal twins, gradients, devices, and bad
input. Claims: test_claims_spectra_and_linformer.py.
"""

from __future__ import annotations

import math
from itertools import product
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.audit.tiny import attention_heads, load_tiny_model
from attnlib.lowrank import (
    effective_rank,
    linformer_attention,
    nystrom_attention,
    sampled_product,
    svd_surrogate,
)

SIZES = st.tuples(
    st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.integers(1, 9)
)


def drawn(*sizes, seed=0, dtype=torch.float64, device="cpu"):
    g = torch.Generator().manual_seed(seed)
    return [
        torch.randn(size, generator=g, dtype=torch.float64).to(device, dtype)
        for size in sizes
    ]


def instance(n=8, d=3, d_v=2, r=4, batch=(), seed=0, **how):
    return drawn(
        (*batch, n, d),
        (*batch, n, d),
        (*batch, n, d_v),
        (r, n),
        (r, n),
        seed=seed,
        **how,
    )


def dense(q, k, v, scale=None):
    return (
        torch.softmax(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale), -1)
        @ v
    )


def literal_linformer(q, k, v, e, f, scale):
    """One query, one mixture, one token at a time."""
    rows = []
    for i in range(len(q)):
        weights = []
        for a in range(len(e)):
            key = sum(e[a, j] * k[j] for j in range(len(k)))
            weights.append((scale * q[i] @ key).exp())
        values = [sum(f[a, j] * v[j] for j in range(len(v))) for a in range(len(f))]
        rows.append(sum(w * value for w, value in zip(weights, values)) / sum(weights))
    return torch.stack(rows)


def literal_nystrom(q, k, v, m, scale):
    """Landmarks by a loop over segments."""
    size = len(q) // m
    q_m = torch.stack([q[a * size : (a + 1) * size].sum(0) / size for a in range(m)])
    k_m = torch.stack([k[a * size : (a + 1) * size].sum(0) / size for a in range(m)])

    def rows(x, y):
        return torch.stack(
            [(scale * row @ y.T).exp() / (scale * row @ y.T).exp().sum() for row in x]
        )

    core = rows(q_m, k_m)
    return rows(q, k_m) @ torch.linalg.inv(core) @ rows(q_m, k) @ v


def gradients(run, tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    out = run(*leaves)
    weights = torch.arange(out.numel(), dtype=out.dtype).view_as(out).cos()
    return out, torch.autograd.grad((out * weights).sum(), leaves)


def compare(run, twin, tensors, tolerance=1e-10):
    (got, slopes), (wanted, true) = gradients(run, tensors), gradients(twin, tensors)
    assert (got - wanted).abs().max() < tolerance
    for a, b in zip(slopes, true):
        assert (a - b).abs().max() <= tolerance * max(1, float(b.abs().max()))


@given(SIZES, st.integers(0, 10**6))
def test_linformer_is_its_formula(sizes, seed):
    n, d, d_v, r = sizes
    tensors = instance(n, d, d_v, min(r, n), seed=seed)
    compare(linformer_attention, lambda *t: literal_linformer(*t, d**-0.5), tensors)
    compare(
        lambda *t: linformer_attention(*t, scale=0.3),
        lambda *t: literal_linformer(*t, 0.3),
        tensors,
    )


def test_linformer_is_dense_for_the_identity():
    q, k, v, *_ = instance(batch=(2, 3))
    eye = torch.eye(8, dtype=torch.float64)
    compare(lambda q, k, v: linformer_attention(q, k, v, eye, eye), dense, [q, k, v])


def test_nystrom_is_its_formula():
    q, k, v, *_ = instance()
    compare(
        lambda q, k, v: nystrom_attention(q, k, v, 4),
        lambda q, k, v: literal_nystrom(q, k, v, 4, 3**-0.5),
        [q, k, v],
        1e-8,
    )
    assert (nystrom_attention(q, k, v, 8) - dense(q, k, v)).abs().max() < 1e-8
    assert torch.allclose(
        nystrom_attention(q, k, v, 1), dense(q.mean(0, keepdim=True), k, v).expand(8, 2)
    )


def newton(core, steps):
    """The published steps toward the pseudo-inverse, one product at a time."""
    m = len(core)
    one = torch.eye(m, dtype=core.dtype)
    largest_column = max(float(core[:, j].abs().sum()) for j in range(m))
    largest_row = max(float(core[i].abs().sum()) for i in range(m))
    z = core.T / (largest_column * largest_row)
    for _ in range(steps):
        x = core @ z
        inner = 7 * one - x
        middle = 15 * one - x @ inner
        z = z @ (13 * one - x @ middle) / 4
    return z


def test_the_published_inverse():
    """It is the published iteration; many steps reach the exact one."""
    q, k, v, *_ = instance()
    size = len(q) // 4
    q_m, k_m = (t.unflatten(0, (4, size)).mean(1) for t in (q, k))
    left, core, right = (
        torch.softmax(a @ b.T * 3**-0.5, -1)
        for a, b in ((q, k_m), (q_m, k_m), (q_m, k))
    )
    for steps in (1, 6):
        y = nystrom_attention(q, k, v, 4, iterations=steps)
        assert (y - left @ newton(core, steps) @ right @ v).abs().max() < 1e-12
    exact = nystrom_attention(q, k, v, 4)
    one = nystrom_attention(q, k, v, 4, iterations=1)
    many = nystrom_attention(q, k, v, 4, iterations=60)
    assert (many - exact).abs().max() < 1e-6 < (one - exact).abs().max()


def test_the_published_inverse_on_a_trained_model():
    """Medians over heads: the exact inverse divides by small singular values, six steps
    do not.
    """
    model = load_tiny_model()
    text = next(text for text in model.sample if len(text) >= 256)[:256]
    q, k, v = (t.flatten(0, 1).double() for t in attention_heads(model, text))
    wanted = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

    def median_error(iterations):
        y = nystrom_attention(q, k, v, 128, iterations=iterations)
        off = (y - wanted).flatten(1).norm(dim=1)
        return float((off / wanted.flatten(1).norm(dim=1)).median())

    assert median_error(6) < 0.6 < 2 < median_error(None)


def test_batches_lead():
    q, k, v, e, f = instance(batch=(2, 3))
    for run in (
        lambda *t: linformer_attention(*t, e, f),
        lambda *t: nystrom_attention(*t, 4),
    ):
        whole = run(q, k, v)
        assert whole.shape == (2, 3, 8, 2)
        assert all(
            (whole[i, j] - run(q[i, j], k[i, j], v[i, j])).abs().max() < 1e-12
            for i in range(2)
            for j in range(3)
        )
    p = torch.softmax(q @ k.mT, -1)
    assert torch.allclose(svd_surrogate(p, 3)[1, 2], svd_surrogate(p[1, 2], 3))


def test_queries_may_be_more_or_fewer():
    q, k, v, e, f = instance()
    assert torch.allclose(
        linformer_attention(q[:3], k, v, e, f), linformer_attention(q, k, v, e, f)[:3]
    )


def test_a_shorter_sequence_uses_the_first_columns_and_padding_counts_as_absent():
    q, k, v, e, f = instance()
    short = linformer_attention(q[:5], k[:5], v[:5], e, f)
    assert torch.allclose(
        short, linformer_attention(q[:5], k[:5], v[:5], e[:, :5], f[:, :5])
    )
    real = torch.arange(8) < 5
    k[5:], v[5:] = 1e6, -1e6
    assert torch.allclose(
        linformer_attention(q, k, v, e, f, token_mask=real)[:5], short
    )
    assert not torch.allclose(linformer_attention(q, k, v, e, f)[:5], short)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))
def test_the_truncated_svd(m, n, seed):
    (p,) = drawn((m, n), seed=seed)
    k = 1 + seed % min(m, n)
    u, s, vh = torch.linalg.svd(p, full_matrices=False)
    literal = sum(s[i] * torch.outer(u[:, i], vh[i]) for i in range(k))
    assert (svd_surrogate(p, k) - literal).abs().max() < 1e-10


def test_the_gradient_of_the_surrogate():
    (p,) = drawn((4, 3))
    assert torch.autograd.gradcheck(lambda x: svd_surrogate(x, 2), [p.requires_grad_()])


@pytest.mark.again
def test_sampled_products_are_right_on_average():
    p, v = drawn((3, 5), (5, 2))
    g = torch.Generator().manual_seed(0)
    many = torch.stack([sampled_product(p, v, 2, generator=g) for _ in range(4000)])
    assert (many.mean(0) - p @ v).abs().max() < 5 * float(
        many.std(0).max()
    ) / math.sqrt(4000)
    v[1] = 0
    assert torch.isfinite(sampled_product(p, v, 50, generator=g)).all()


def test_gradients_of_sampled_products_are_right_on_average(monkeypatch):
    """All 16 ways to draw two of four tokens, each with its chance: the mean gradient
    is that of P V.
    """
    p, v = (t.requires_grad_() for t in drawn((3, 4), (4, 2)))
    weights = torch.arange(6, dtype=p.dtype).view(3, 2).cos()
    c = (p.norm(dim=0) * v.norm(dim=1)).detach()
    mean = [torch.zeros_like(p), torch.zeros_like(v)]
    for choice in product(range(4), repeat=2):
        drawn_now = Mock(return_value=torch.tensor(choice))
        monkeypatch.setattr(torch, "multinomial", drawn_now)
        out = sampled_product(p, v, 2, generator=torch.Generator())
        chance = math.prod(float(c[j] / c.sum()) for j in choice)
        mean = [
            m + chance * slope
            for m, slope in zip(
                mean, torch.autograd.grad((out * weights).sum(), [p, v])
            )
        ]
    for got, wanted in zip(mean, torch.autograd.grad((p @ v * weights).sum(), [p, v])):
        assert (got - wanted).abs().max() < 1e-12


def test_effective_ranks():
    s = torch.tensor([[4.0, 2.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert effective_rank(s, 0.75, power=1).tolist() == [2, 3] and effective_rank(
        s, 0.75
    ).tolist() == [2, 3]
    assert effective_rank(s, 1.0).tolist() == [4, 4] and effective_rank(
        s, 1e-9
    ).tolist() == [1, 1]
    assert effective_rank(torch.tensor([1e-30, 1e-30])).tolist() == 2


def test_one_singular_value_that_is_not_zero_holds_everything():
    s = torch.tensor([[3.0, 0.0, 0.0], [3.0, 3.0, 0.0]])
    assert effective_rank(s, 1.0).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_effective_ranks_in_low_precision(dtype):
    """300 equal values: 90% need 270. A tolerance in eps of bfloat16 would exceed one
    and return rank 1.
    """
    assert effective_rank(torch.ones(300, dtype=dtype)).tolist() == 270
    s = torch.linspace(1, 0, 300).to(dtype)
    assert effective_rank(s).tolist() == effective_rank(s.double()).tolist() > 100


def test_devices_and_dtypes_agree(device):
    wanted, many = (
        linformer_attention(*instance()),
        nystrom_attention(*instance()[:3], 4),
    )
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        q, k, v, e, f = instance(dtype=dtype, device=device)
        got = linformer_attention(q, k, v, e, f)
        assert got.dtype == dtype and got.device.type == device.type
        assert (got.cpu().double() - wanted).abs().max() < tolerance
        assert (
            nystrom_attention(q, k, v, 4).cpu().double() - many
        ).abs().max() < 100 * tolerance
        p = torch.softmax(q @ k.mT, -1)
        assert svd_surrogate(p, 2).device.type == device.type
        g = torch.Generator().manual_seed(0)
        assert svd_surrogate(p, 2).dtype == dtype
        assert sampled_product(p, v, 3, generator=g).device.type == device.type


def test_half_precision():
    q, k, v, e, f = instance(dtype=torch.bfloat16)
    assert (
        linformer_attention(q, k, v, e, f).double() - linformer_attention(*instance())
    ).abs().max() < 0.1


def test_each_head_may_have_its_own_mixtures():
    g = torch.Generator().manual_seed(5)

    def draw(*size):
        return torch.randn(*size, generator=g, dtype=torch.float64)

    q, k, v = draw(2, 3, 8, 4), draw(2, 3, 8, 4), draw(2, 3, 8, 5)
    e, f = draw(3, 4, 8), draw(3, 4, 8)
    got = linformer_attention(q, k, v, e, f)
    for h in range(3):
        alone = linformer_attention(q[:, h], k[:, h], v[:, h], e[h], f[h])
        assert torch.allclose(got[:, h], alone)
    shared = linformer_attention(q, k, v, e[0], f[0])
    assert torch.allclose(shared[:, 0], got[:, 0])
    assert not torch.allclose(shared[:, 1], got[:, 1])


def test_no_mask_of_pairs_can_be_given():
    with pytest.raises(TypeError, match="mask"):
        linformer_attention(*instance(), mask=torch.ones(8, 8, dtype=torch.bool))


# --- bad input


@pytest.mark.bad_input
def test_linformer_reads_no_more_rows_than_tokens():
    good = dict(zip("qkvef", instance()))
    good["e"] = torch.ones(9, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match="r <= n <= w for n = 8 tokens, got .9, 8."):
        linformer_attention(**good)


def test_nystrom_looks_for_nan_unless_told_not_to():
    q, k, v, *_ = instance()
    v[3] = math.nan
    assert nystrom_attention(q, k, v, 2, check=False).isnan().all()


@pytest.mark.bad_input
def test_the_others_refuse():
    q, k, v, *_ = instance()
    (p,) = drawn((4, 6))
    w = p.T.contiguous()
    g = torch.Generator().manual_seed(0)
    for run, message in (
        (lambda: nystrom_attention(q, k, v, 3), "landmarks must divide n"),
        (lambda: nystrom_attention(q, k, v, 9), "landmarks must divide n"),
        (lambda: svd_surrogate(p, 5), "k must lie between 1 and"),
        (lambda: sampled_product(p, 0 * w, 2, generator=g), "nothing to draw"),
        (
            lambda: sampled_product(p.expand(2, 4, 6), w, 2, generator=g),
            "p must be one matrix",
        ),
        (lambda: effective_rank(torch.tensor([1.0, 2.0])), "decreasing order"),
        (lambda: effective_rank(torch.tensor([1.0, -2.0])), "nonnegative"),
        (lambda: effective_rank(torch.tensor([0.0, 0.0])), "all zero"),
    ):
        with pytest.raises(ValueError, match=message):
            run()
