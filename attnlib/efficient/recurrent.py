"""Attention with a state of fixed size, token by token and in chunks.

    gated   S_t = g_t S_{t-1} + k_t v_t'                                y_t = S_t' q_t
    delta   S_t = g_t S_{t-1} + beta_t k_t (v_t - g_t S_{t-1}' k_t)'    y_t = S_t' q_t
    scan    H_t = a_t * H_{t-1} + x_t b_t'                              y_t = H_t c_t

A step is the formula. A pass reads n tokens in chunks: the tokens of a chunk meet
densely, and only its sum is handed on. There is no denominator and no mask: a token
with k = 0, or x = 0, and gate 1 changes nothing.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib import _require
from attnlib._require import matches, require, widened
from attnlib.efficient.features import (
    _begun,
    _blocks,
    _fits,
    _joined,
    _outer,
    _read,
    _shape,
)


def gated_linear_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    gate: Float[Tensor, "*batch"],
    state: Float[Tensor, "*batch d d_v"] | None = None,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v"]]:
    """One token of gated_linear_attention: (y, S), from S before it or None for zeros.

    Claim: efficient.state
    """
    _fits(q, k, v, gate=gate)
    state = _begun(state, q, v)
    state = gate[..., None, None] * state + _outer(k, v)
    return _read(state, q), state


def delta_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    beta: Float[Tensor, "*batch"],
    gate: Float[Tensor, "*batch"] | None = None,
    state: Float[Tensor, "*batch d d_v"] | None = None,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v"]]:
    """One token of delta_attention: (y, S), from S before it or None for zeros.

    Claim: efficient.state
    """
    _fits(q, k, v, beta=beta, gate=beta if gate is None else gate)
    state = _begun(state, q, v)
    if gate is not None:
        state = gate[..., None, None] * state
    off = v - _read(state, k)
    state = state + _outer(k, beta.unsqueeze(-1) * off)
    return _read(state, q), state


def selective_step(
    x: Float[Tensor, "*batch d"],
    a: Float[Tensor, "*batch d s"],
    b: Float[Tensor, "*batch s"],
    c: Float[Tensor, "*batch s"],
    state: Float[Tensor, "*batch d s"] | None = None,
) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d s"]]:
    """One token of selective_scan: (y, H), from H before it or None for zeros.

    Claim: efficient.state
    """
    _fits_scan(x, a, b, c)
    state = _begun(state, x, b, "x")
    state = a * state + _outer(x, b)
    return _read(state.mT, c), state


def gated_linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gate: Float[Tensor, "*batch n"],
    *,
    chunk: int = 64,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch d d_v"]]:
    """Linear attention that forgets: before each token its state is scaled by a gate.

        S_t = g_t S_{t-1} + k_t v_t',   y_t = S_t' q_t

    Args:
        gate: in [-1, 1]; any with chunk = 1.
        chunk: tokens that meet densely.
        check: look for NaN, infinity and gates whose products would drown what they
            multiply.

    Returns:
        (y, S_n), from which gated_linear_step goes on.

    Source: Yang et al. 2024 (gated linear attention) with one gate a token, as in Dao
        and Gu 2024 (Mamba-2: q = c, k = b, v = x), recalled.
    Claim: efficient.newer
    """
    _require.tokens(q, "q")
    _fits(q, k, v, check=check, gate=gate)
    _shrinks("gate", gate, chunk, check)
    return _in_chunks(q, k, v, None, gate, chunk)


def delta_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    beta: Float[Tensor, "*batch n"],
    gate: Float[Tensor, "*batch n"] | None = None,
    *,
    chunk: int = 64,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch d d_v"]]:
    """The delta rule: each token moves what the state says at its key toward its value.

        S_t = g_t S_{t-1} + beta_t k_t (v_t - g_t S_{t-1}' k_t)',   y_t = S_t' q_t

    With |k_t| = 1 and beta_t = 1 the state answers v_t at k_t exactly.

    Args:
        k: of length one if the state is not to grow.
        beta: the share that is moved.
        gate: None forgets nothing.
        chunk, check: as in gated_linear_attention.

    Source: Schlag et al. 2021; in chunks by Yang et al. 2024 (DeltaNet), with gates by
        Yang et al. 2025 (Gated DeltaNet), recalled; differs: one triangular solve a
        chunk in place of their inverse.
    Claim: efficient.newer
    """
    _require.tokens(q, "q")
    _fits(q, k, v, check=check, beta=beta, gate=beta if gate is None else gate)
    if gate is None:
        gate = torch.ones_like(beta)
    _shrinks("gate", gate, chunk, check)
    return _in_chunks(q, k, v, beta, gate, chunk)


def _in_chunks(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor | None, gate: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """The delta rule; without beta a token writes its value whole, gated attention."""
    *batch, n, d_v = v.shape
    state = v.new_zeros(*batch, k.shape[-1], d_v)
    chunk = min(chunk, n)
    q, k, v = (_blocks(t, chunk) for t in (q, k, v))
    gate = _blocks(gate.unsqueeze(-1), chunk, 1)
    from_start = gate.cumprod(-2)
    decay = _decay(gate)
    if beta is not None:
        # What token t writes is beta_t (v_t - g_t S' k_t), and S holds what the tokens
        # before it wrote: a triangular system in each chunk. Its right side is linear
        # in the state before the chunk, so all chunks are solved at once.
        beta = _blocks(beta.unsqueeze(-1), chunk)
        meets = beta * (k @ k.mT * decay)
        sides = beta * torch.cat([v, k * from_start], -1)
        # torch solves no triangular system in half precision.
        solved = torch.linalg.solve_triangular(
            widened(meets), widened(sides), upper=False, unitriangular=True
        )
        solved = solved.to(sides.dtype)
        v, keys = solved.tensor_split([d_v], -1)

    whole = from_start[..., -1:, :]
    last = (k * decay[..., -1:, :].mT).mT
    before = []
    written = []
    for c in range(q.shape[-3]):
        here = (..., c, slice(None), slice(None))
        write = v[here]
        if beta is not None:
            write = write - keys[here] @ state
        before.append(state)
        written.append(write)
        state = whole[here] * state + last[here] @ write
    meets = q @ k.mT * decay
    y = meets @ torch.stack(written, -3)
    y = y + (q * from_start) @ torch.stack(before, -3)
    return _joined(y, n), state


def selective_scan(
    x: Float[Tensor, "*batch n d"],
    a: Float[Tensor, "*batch n d s"],
    b: Float[Tensor, "*batch n s"],
    c: Float[Tensor, "*batch n s"],
    *,
    chunk: int = 64,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch d s"]]:
    """A diagonal state space whose gates depend on the token: s states a channel, each
    with a gate of its own.

        H_t = a_t * H_{t-1} + x_t b_t',   y_t = H_t c_t

    Args:
        x: channels; the step size, if any, is multiplied in.
        a: gates, such as exp(step size * A), in [-1, 1]; any with chunk = 1.
        b, c: what a token writes to, and what it reads.
        chunk: tokens read one after another, in all chunks at once.
        check: as in gated_linear_attention.

    Cost: O(n d s) memory: every state is kept.
    Source: Gu and Dao 2023 (Mamba), its recurrence, recalled; differs: two levels of
        chunks.
    Claim: efficient.newer
    """
    _require.tokens(x)
    _fits_scan(x, a, b, c, check)
    _shrinks("a", a, chunk, check)
    n, d, s = a.shape[-3:]
    chunk = min(chunk, n)
    inputs = _blocks(_outer(x, b).flatten(-2), chunk)
    a = _blocks(a.flatten(-2), chunk, 1)

    # Every chunk from an empty state, all of them at once ..
    h = torch.zeros_like(inputs[..., 0, :])
    inside = []
    for gate, new in zip(a.unbind(-2), inputs.unbind(-2)):
        h = gate * h + new
        inside.append(h)
    # .. then what came before each of them.
    from_start = a.cumprod(-2)
    state = torch.zeros_like(h[..., 0, :])
    whole = from_start[..., -1, :]
    before = []
    for gate, own in zip(whole.unbind(-2), h.unbind(-2)):
        before.append(state)
        state = gate * state + own
    carried = from_start * torch.stack(before, -2).unsqueeze(-2)
    h = torch.stack(inside, -2) + carried
    h = _joined(h, n).unflatten(-1, (d, s))
    state = state.unflatten(-1, (d, s))
    return _read(h.mT, c), state


def _decay(gate: Tensor) -> Tensor:
    """The product of the gates after token j, up to token i; zero for j > i."""
    place = torch.arange(gate.shape[-2], device=gate.device)
    after = place.unsqueeze(-1) > place
    factors = torch.where(after, gate, 1)
    return factors.cumprod(-2).tril()


def _fits_scan(x: Tensor, a: Tensor, b: Tensor, c: Tensor, check: bool = True) -> None:
    """What a scan reads, of one token or many."""
    *tokens, d = _shape("x", x)
    *_, s = _shape("b", b)
    matches("b", b, (*tokens, s), x)
    matches("c", c, (*tokens, s), x)
    matches("a", a, (*tokens, d, s), x)
    if check:
        _require.finite(x=x, a=a, b=b, c=c)


def _shrinks(name: str, gate: Tensor, chunk: int, check: bool) -> None:
    """Gates whose products over a chunk neither overflow nor drown the rest."""
    _require.sizes(1, chunk=chunk)
    if check and chunk > 1:
        most = float(gate.detach().abs().max())
        require(
            most <= 1,
            f"{name} must lie in [-1, 1] with chunk = {chunk}, got one of size "
            f"{most:g}: its products would drown what they multiply. chunk = 1 takes "
            "any gate",
        )
