"""The room efficient: every kernel against its literal twin, gradients too, and bad
input. Claims: test_claims_complexity_table.py.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sparse import instance, same
from torch.nn import functional as F

from attnlib.efficient import (
    delta_attention,
    delta_step,
    flops,
    gated_linear_attention,
    gated_linear_step,
    linear_attention,
    linear_step,
    lsh_attention,
    lsh_buckets,
    lsh_sets,
    performer_attention,
    positive_features,
    selective_scan,
    selective_step,
)

SEED = 5


def seeded():
    return torch.Generator().manual_seed(SEED)


def dense_lsh(
    qk, v, buckets, *, rounds, chunk, causal, attend_self, correct, token_mask=None
):
    """The formula: logits over the union, ln N_ij taken off or not; padding in a bucket
    of its own, the last.
    """
    ids = lsh_buckets(qk.detach(), buckets, rounds=rounds, generator=seeded())
    if token_mask is not None:
        ids = torch.where(token_mask, ids, ids.max() + 1)
    N = lsh_sets(ids, chunk, causal=causal, attend_self=attend_self).sum(0)
    a = qk @ F.normalize(qk, dim=-1).mT / math.sqrt(qk.shape[-1])
    y = (
        torch.softmax(
            a
            + (torch.where(N > 0, 0.0, -math.inf) if correct else N.to(a.dtype).log()),
            -1,
        )
        @ v
    )
    return y if token_mask is None else y * token_mask.unsqueeze(-1)


SWITCHES = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 4),
        "chunk": st.integers(1, 12),
        "causal": st.booleans(),
        "attend_self": st.booleans(),
        "correct": st.booleans(),
    }
)


@given(
    st.integers(1, 40),
    st.sampled_from([2, 6, (2, 4), (2, 2, 2)]),
    st.sampled_from([(), (3,), (2, 2)]),
    SWITCHES,
    st.booleans(),
)
def test_lsh_is_its_dense_form(n, buckets, batch, how, padded):
    how["chunk"] = min(how["chunk"], n)
    qk, _, v = instance(n, batch, seed=n)
    token_mask = None
    if padded:
        token_mask = torch.rand(*batch, n, generator=seeded()) < 0.7
        token_mask[..., 0] = True
    fast = {key: value for key, value in how.items() if key != "correct"} | {
        "correct_duplicates": how["correct"]
    }
    y = lsh_attention(
        qk, v, buckets=buckets, token_mask=token_mask, generator=seeded(), **fast
    )
    same(y, dense_lsh(qk, v, buckets, token_mask=token_mask, **how), (qk, v))


def test_one_mask_of_tokens_serves_all_heads_of_lsh():
    qk, _, v = (t.detach() for t in instance(9, (2, 3)))
    alike = torch.ones(2, 1, 9, dtype=torch.bool)
    alike[0, :, 5:] = False
    how = {"buckets": 2, "rounds": 2, "chunk": 3}
    y = lsh_attention(qk, v, token_mask=alike, generator=seeded(), **how)
    each = alike.expand(2, 3, 9)
    wanted = lsh_attention(qk, v, token_mask=each, generator=seeded(), **how)
    assert torch.equal(y, wanted)
    assert not y[0, :, 5:].any() and y[1].any(-1).all()


def test_a_key_may_be_found_in_256_rounds():
    """As oneself is in every round."""
    qk, _, v = instance(6)
    how = {"rounds": 256, "chunk": 3, "causal": False, "attend_self": True}
    y = lsh_attention(qk, v, buckets=4, generator=seeded(), **how)
    wanted = dense_lsh(qk, v, 4, correct=True, **how)
    assert (y - wanted).abs().max() < 1e-12


def test_buckets_are_the_argmax_of_both_directions():
    x = torch.randn(30, 5, dtype=torch.float64, generator=seeded())
    g = torch.Generator().manual_seed(1)
    found = lsh_buckets(x, (4, 6), rounds=3, generator=g)
    g = torch.Generator().manual_seed(1)
    first, second = (
        torch.randn(3, 5, b // 2, generator=g, dtype=torch.float64) for b in (4, 6)
    )
    h = [torch.cat([x @ R, -(x @ R)], -1).argmax(-1) for R in (first, second)]
    assert torch.equal(found, h[0] + 4 * h[1])


def test_one_bucket_pair_and_one_chunk_is_dense_within_buckets():
    """With 2 buckets, attend_self and a chunk of n the kernel is masked dense
    attention.
    """
    qk, _, v = instance(20)
    ids = lsh_buckets(qk.detach(), 2, generator=seeded())[0]
    mask = ids[:, None] == ids
    a = (qk @ F.normalize(qk, dim=-1).mT / 2).masked_fill(~mask, -math.inf)
    y = lsh_attention(qk, v, buckets=2, chunk=20, attend_self=True, generator=seeded())
    assert (y - torch.softmax(a, -1) @ v).abs().max() < 1e-12


def test_unchecked_lsh_may_hold_anything():
    """NaN in one sequence of a batch is refused, or stays there."""
    qk, _, v = instance(20)
    both, values = qk.detach().expand(2, -1, -1).clone(), v.detach().expand(2, -1, -1)
    how = {"buckets": 4, "chunk": 5}
    wanted = lsh_attention(both, values, generator=seeded(), **how)
    both[1, 3] = math.nan
    with pytest.raises(ValueError, match="qk holds NaN"):
        lsh_attention(both, values, generator=seeded(), **how)
    got = lsh_attention(both, values, generator=seeded(), check=False, **how)
    assert torch.equal(got[0], wanted[0]) and got[1].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lone_tokens_in_low_precision(dtype):
    """-1e5 would overflow float16: a token that is always alone returns its own
    value.
    """
    qk, v = 8 * torch.eye(4).to(dtype), torch.randn(4, 3).to(dtype)
    y = lsh_attention(qk, v, buckets=(2,) * 12, rounds=2, chunk=1, generator=seeded())
    assert torch.isfinite(y).all()
    torch.testing.assert_close(y, v)


def test_large_negative_logits_are_not_oneself():
    """Two tokens with the logits -5e5 in one bucket: each still looks at the other, not
    at itself.
    """
    qk, v = torch.tensor([[1e6, 0.0], [-1e6, 1.1e6]]), torch.tensor([[1.0], [2.0]])

    def draws(seed):
        return torch.Generator().manual_seed(seed)

    seed = next(
        s
        for s in range(50)
        if len(set(lsh_buckets(qk, 2, generator=draws(s))[0].tolist())) == 1
    )
    y = lsh_attention(qk, v, buckets=2, chunk=2, generator=draws(seed))
    assert y.flatten().tolist() == [2, 1]


@pytest.mark.parametrize("causal", [False, True])
def test_many_more_buckets_than_tokens(causal):
    """2^30 buckets take no memory of their own; nearly every token is alone and returns
    its value.
    """
    qk, _, v = (t.detach() for t in instance(20))
    y = lsh_attention(
        qk, v, buckets=(2,) * 30, chunk=4, causal=causal, generator=seeded()
    )
    assert torch.equal(y, v)


@given(
    st.integers(1, 70),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from([(), (2, 2)]),
    st.booleans(),
)
def test_linear_and_performer_are_their_dense_form(n, chunk, causal, batch, padded):
    q, k, v = instance(n, batch, seed=n)
    real = torch.ones(*batch, n, dtype=torch.bool)
    if padded:
        real = torch.rand(*batch, n, generator=seeded()) < 0.7
        real[..., 0] = True
    how = {"causal": causal, "chunk": chunk, "token_mask": real if padded else None}
    w = torch.randn(9, 4, generator=seeded(), dtype=torch.float64)
    root = 4**0.25

    def dense(f, g):
        a = (f @ g.mT) * real.unsqueeze(-2)
        a = a.tril() if causal else a
        return a @ v / a.sum(-1, keepdim=True) * real.unsqueeze(-1)

    same(linear_attention(q, k, v, **how), dense(F.elu(q) + 1, F.elu(k) + 1), (q, k, v))
    y = performer_attention(q, k, v, features=9, generator=seeded(), **how)
    same(
        y,
        dense(positive_features(q / root, w), positive_features(k / root, w)),
        (q, k, v),
    )


def test_performer_nears_softmax():
    q, k, v = (t.detach() / 2 for t in instance(30))
    wanted = torch.softmax(q @ k.T / 2, -1) @ v
    y = performer_attention(q, k, v, features=100_000, generator=seeded())
    assert (y - wanted).abs().max() < 0.01


def test_features_in_float32_keep_small_weights():
    """Log features of keys are near -32 here; e^-88 and less would be rounded."""
    q, k, v = torch.randn(3, 12, 64, generator=seeded())
    root = 64**0.25  # takes the scale off again
    y = performer_attention(root * q, root * k, v, features=32, generator=seeded())
    w = torch.randn(32, 64, generator=seeded()).double()
    weights = positive_features(q.double(), w) @ positive_features(k.double(), w).T
    wanted = weights @ v.double() / weights.sum(-1, keepdim=True)
    assert (y - wanted).abs().max() < 1e-4


def test_a_performer_of_equal_tokens_is_the_mean_of_the_values():
    """All features of all tokens are alike then."""
    _, _, v = (t.detach() for t in instance(30))
    q = torch.zeros(30, 4, dtype=torch.float64)
    how = {"features": 8}
    y = performer_attention(q, q, v, generator=seeded(), **how)
    assert (y - v.mean(0)).abs().max() < 1e-12
    y = performer_attention(q, q, v, causal=True, generator=seeded(), **how)
    so_far = v.cumsum(0) / torch.arange(1, 31)[:, None]
    assert (y - so_far).abs().max() < 1e-12


def test_one_feature_by_hand():
    """w'x = 5 and |x|^2 / 2 = 5/2."""
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert float(positive_features(x, x)) == pytest.approx(math.exp(5 / 2))


def test_features_do_not_overflow():
    x = torch.randn(20, 256, generator=seeded())
    y = performer_attention(x, 16 * x, x, features=64, generator=seeded(), check=False)
    assert not torch.isinf(y).any()


# --- states of fixed size: a pass in chunks is a loop over steps


def loop(step, sequences, numbers, state):
    """The literal recurrence: (y, state) of a step for each token."""
    found = []
    for t in range(sequences[0].shape[-2]):
        rows = [s[..., t, :] for s in sequences]
        ones = [s[..., t] for s in numbers]
        y, state = step(*rows, *ones, state=state)
        found.append(y)
    return torch.stack(found, -2), state


def both(pair):
    """Answers and state side by side, so that gradients of both are compared."""
    return torch.cat([t.flatten() for t in pair])


LENGTHS = st.integers(1, 20)
CHUNKS = st.integers(1, 25)
BATCHES = st.sampled_from([(), (3,), (2, 2)])


def gates(n, batch, seed, zeros):
    """Numbers from 0 to 1, some of them 0 where that is asked for."""
    g = torch.Generator().manual_seed(seed)
    gate = torch.rand(*batch, n, generator=g, dtype=torch.float64)
    if zeros:
        gate = gate * (gate > 0.3)
    return gate.requires_grad_()


@settings(max_examples=25)
@given(LENGTHS, CHUNKS, BATCHES, st.booleans())
def test_gated_chunks_are_a_loop_over_steps(n, chunk, batch, zeros):
    q, k, v = instance(n, batch, seed=n)
    gate = gates(n, batch, n, zeros)
    fast = gated_linear_attention(q, k, v, gate, chunk=chunk)
    literal = loop(gated_linear_step, (q, k, v), (gate,), None)
    same(both(fast), both(literal), [q, k, v, gate])


@settings(max_examples=25)
@given(LENGTHS, CHUNKS, BATCHES, st.booleans())
def test_delta_chunks_are_a_loop_over_steps(n, chunk, batch, gated):
    q, k, v = instance(n, batch, seed=n)
    k = F.normalize(k, dim=-1)
    beta = gates(n, batch, n, zeros=False)
    more = (gates(n, batch, n + 1, zeros=True),) if gated else ()
    fast = delta_attention(q, k, v, beta, *more, chunk=chunk)
    literal = loop(delta_step, (q, k, v), (beta, *more), None)
    same(both(fast), both(literal), [q, k, v, beta, *more])


@settings(max_examples=25)
@given(LENGTHS, CHUNKS, BATCHES, st.booleans())
def test_scans_in_chunks_are_a_loop_over_steps(n, chunk, batch, zeros):
    b, c, x = instance(n, batch, seed=n)
    a = gates(n * 12, batch, n, zeros).unflatten(-1, (n, 3, 4))
    fast = selective_scan(x, a, b, c, chunk=chunk)
    found = []
    h = None
    for t in range(n):
        y, h = selective_step(
            x[..., t, :], a[..., t, :, :], b[..., t, :], c[..., t, :], h
        )
        found.append(y)
    literal = (torch.stack(found, -2), h)
    same(both(fast), both(literal), [x, a, b, c])


ONE = torch.ones(1)
WHOLE = torch.ones(1, 1)


@pytest.mark.parametrize(
    ("run", "rest"),
    [
        (gated_linear_attention, (WHOLE, WHOLE, ONE)),
        (delta_attention, (WHOLE, WHOLE, ONE)),
        (selective_scan, (torch.ones(1, 1, 1), WHOLE, WHOLE)),
    ],
)
def test_nan_is_looked_for_unless_told_otherwise(run, rest):
    y, _ = run(torch.full((1, 1), math.nan), *rest, check=False)
    assert y.isnan().all()


@settings(max_examples=15)
@given(LENGTHS, BATCHES)
def test_linear_attention_is_a_loop_over_steps(n, batch):
    q, k, v = instance(n, batch, seed=n)
    y, _ = loop(linear_step, (q, k, v), (), None)
    same(linear_attention(q, k, v, causal=True), y, (q, k, v))


def test_states_are_handed_on():
    """A prefix at once, then the rest token by token from its state: the whole."""
    q, k, v = (t.detach() for t in instance(30))
    beta = gates(30, (), 0, zeros=False).detach()
    whole, end = delta_attention(q, k, v, beta, chunk=7)
    first, state = delta_attention(q[:11], k[:11], v[:11], beta[:11], chunk=4)
    then, last = loop(delta_step, (q[11:], k[11:], v[11:]), (beta[11:],), state)
    assert (torch.cat([first, then]) - whole).abs().max() < 1e-9
    assert (last - end).abs().max() < 1e-9


def test_recurrences_by_hand():
    """d = 1. Gates 1, 1/2 and k = 1, v = 1, 2: S = 1, 5/2, read by q = 1, 2 as 1, 5.
    The delta rule with beta = 1 forgets what k said before: S = 1, 2. A scan with gates
    1, 1/2, inputs 3, 4, b = 1, c = 1, 2: h = 3, 11/2, read as 3, 11.
    """
    column = torch.tensor([[1.0], [2.0]])
    ones = torch.ones(2, 1)
    half = torch.tensor([1.0, 0.5])
    y, state = gated_linear_attention(column, ones, column, half)
    assert y.flatten().tolist() == [1, 5] and state.item() == 2.5
    y, state = delta_attention(column, ones, column, torch.ones(2), half)
    assert y.flatten().tolist() == [1, 4] and state.item() == 2
    x = torch.tensor([[3.0], [4.0]])
    y, state = selective_scan(x, half.view(2, 1, 1), ones, column)
    assert y.flatten().tolist() == [3, 11] and state.item() == 5.5


def test_the_delta_rule_writes_over_and_a_sum_cannot():
    """Keys of length one that come again: with beta = 1 the state answers the last
    value at every key that is orthogonal to those after it; a sum answers both.
    """
    k = torch.eye(4, dtype=torch.float64)[[0, 1, 2, 0, 1]]
    v = torch.randn(5, 3, generator=seeded(), dtype=torch.float64)
    one = torch.ones(5, dtype=torch.float64)
    _, delta = delta_attention(k, k, v, one)
    _, summed = gated_linear_attention(k, k, v, one)
    assert (delta[:3] - v[[3, 4, 2]]).abs().max() < 1e-12
    assert (summed[0] - v[0] - v[3]).abs().max() < 1e-12


def test_one_gate_for_all_is_a_scan_with_equal_gates():
    """q = c, k = b, v = x: the state of gated linear attention is that of the scan."""
    q, k, v = (t.detach() for t in instance(20, (2,)))
    gate = gates(20, (2,), 3, zeros=False).detach()
    a = gate[..., None, None].expand(2, 20, 3, 4)
    y, state = gated_linear_attention(q, k, v, gate, chunk=8)
    z, other = selective_scan(v, a, k, q, chunk=8)
    assert (y - z).abs().max() < 1e-12
    assert (state - other.mT).abs().max() < 1e-12


def test_strong_gates_neither_overflow_nor_leak():
    """Gates of 1e-30 for 100 tokens in one chunk: each token sees itself alone."""
    q, k, v = (t.detach().float() for t in instance(100))
    gate = torch.full((100,), 1e-30)
    y, _ = gated_linear_attention(q, k, v, gate, chunk=100)
    alone = (q * k).sum(-1, keepdim=True) * v
    torch.testing.assert_close(y, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_recurrences_follow_their_inputs(dtype):
    q, k, v = (t.detach() for t in instance(20))
    k = F.normalize(k, dim=-1)
    gate = gates(20, (), 0, zeros=False).detach()
    within = 40 * torch.finfo(dtype).eps
    for run in (
        lambda q, k, v, g: gated_linear_attention(q, k, v, g, chunk=8),
        lambda q, k, v, g: delta_attention(q, k, v, g, g, chunk=8),
        lambda q, k, v, g: selective_scan(v, g[:, None, None].expand(20, 3, 4), k, q),
    ):
        y, state = run(*(t.to(dtype) for t in (q, k, v, gate)))
        wanted, _ = run(*(t.to(dtype).double() for t in (q, k, v, gate)))
        assert y.dtype == state.dtype == dtype
        assert (y.double() - wanted).abs().max() < within * wanted.abs().max()


@pytest.mark.bad_input
@pytest.mark.parametrize("size", [1.01, -1.01, 1e200])
def test_gates_that_grow_are_read_token_by_token(size):
    """With one token a chunk the pass is the loop; wider chunks refuse such gates."""
    q, k, v = (t.detach() for t in instance(6))
    k = F.normalize(k, dim=-1)
    half = torch.full((6,), 0.5, dtype=torch.float64)
    gate = torch.tensor([0.5, size, 0.0, 1.0, 0.0, 0.5], dtype=torch.float64)
    a = gate[:, None, None].expand(6, 3, 4)
    runs = {
        gated_linear_attention: (q, k, v, gate),
        delta_attention: (q, k, v, half, gate),
        selective_scan: (v, a, k, q),
    }
    for run, tensors in runs.items():
        for wider in ({}, {"chunk": 2}):
            with pytest.raises(ValueError, match=r"(gate|a) must lie in \[-1, 1\]"):
                run(*tensors, **wider)
        assert torch.isfinite(both(run(*tensors, chunk=1))).all()
    y, _ = delta_attention(q, k, v, half, gate, chunk=1)
    literal, _ = loop(delta_step, (q, k, v), (half, gate), None)
    torch.testing.assert_close(y, literal)


@pytest.mark.cuda
def test_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    q, k, v = instance(50, (2,))
    there = [t.detach().cuda() for t in (q, k, v)]
    torch.testing.assert_close(
        linear_attention(*there, causal=True).cpu(),
        linear_attention(q, k, v, causal=True).detach(),
    )
    g = torch.Generator("cuda").manual_seed(0)
    assert torch.isfinite(
        lsh_attention(
            there[0], there[2], buckets=4, rounds=3, chunk=8, causal=True, generator=g
        )
    ).all()


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"buckets": 3}, "buckets must be even and at least 2"),
        ({"buckets": (4, 3)}, r"each factor too.*got \(4, 3\)"),
        ({"buckets": ()}, "empty tuple"),
        ({"buckets": (2,) * 34, "causal": True}, r"at most 2\^32 in all"),
        ({"chunk": 9}, "chunk must be at most n = 8, got 9"),
    ],
)
def test_bad_input_of_lsh(change, words):
    q, _, v = (t.detach() for t in instance(8))
    how = {
        "qk": q,
        "v": v,
        "buckets": 4,
        "rounds": 2,
        "chunk": 4,
        "generator": seeded(),
    } | change
    with pytest.raises(ValueError, match=words):
        lsh_attention(how.pop("qk"), how.pop("v"), **how)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda q, k, v: linear_attention(q - 1e4, k, v), "underflow to zero"),
        (
            lambda q, k, v: performer_attention(
                q, 1e3 * k, v, features=2, generator=seeded()
            ),
            "underflow to zero",
        ),
        (lambda q, k, v: flops("linformer", 4, 4, K=2), "sizes of linformer must be k"),
        (lambda q, k, v: flops("linformer", 4, 4), "sizes of linformer must be k"),
        (
            lambda q, k, v: linear_step(q[0] - 1e4, k[0], v[0]),
            "underflow to zero",
        ),
    ],
)
def test_bad_input(call, words):
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        call(*instance(8))


# --- the script of the table on a GPU, with one that is made up
