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
from attnlib._require import matches, require
from attnlib.efficient.features import _begun, _blocks, _one_token, _outer, _read


def gated_linear_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    gate: Float[Tensor, "*batch"],
    state: Float[Tensor, "*batch d d_v"] | None = None,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v"]]:
    """One token of gated_linear_attention: (y, S), from S before it or None for zeros.

    Source: as gated_linear_attention.
    Claim: efficient.state
    """
    state = _begun(q, k, v, state, gate=gate)
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

    Source: as delta_attention.
    Claim: efficient.state
    """
    numbers = {"beta": beta} if gate is None else {"beta": beta, "gate": gate}
    state = _begun(q, k, v, state, **numbers)
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

    Source: as selective_scan.
    Claim: efficient.state
    """
    *batch, _ = _one_token("x", x)
    state = _begun_scan(x, a, b, c, state, batch)
    state = a * state + _outer(x, b)
    return _read(state.mT, c), state


def gated_linear_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    gate: Float[Tensor, "*batch n"],
    *,
    chunk: int = 64,
    state: Float[Tensor, "*batch d d_v"] | None = None,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch d d_v"]]:
    """Linear attention that forgets: before each token its state is scaled by a gate.

        S_t = g_t S_{t-1} + k_t v_t',   y_t = S_t' q_t

    Args:
        gate: in [-1, 1]; any with chunk = 1.
        chunk: tokens that meet densely.
        state: S_0, or None for zeros.
        check: look for NaN, infinity and gates whose products would drown what they
            multiply.

    Returns:
        (y, S_n).

    Source: Yang et al. 2024 (gated linear attention) with one gate a token, as in Dao
        and Gu 2024 (Mamba-2: q = c, k = b, v = x), recalled.
    Claim: efficient.newer
    """
    state = _begun_pass(q, k, v, state, chunk, check, gate=gate)
    return _in_chunks(q, k, v, None, gate, chunk, state)


def delta_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    beta: Float[Tensor, "*batch n"],
    gate: Float[Tensor, "*batch n"] | None = None,
    *,
    chunk: int = 64,
    state: Float[Tensor, "*batch d d_v"] | None = None,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch d d_v"]]:
    """The delta rule: each token moves what the state says at its key toward its value.

        S_t = g_t S_{t-1} + beta_t k_t (v_t - g_t S_{t-1}' k_t)',   y_t = S_t' q_t

    With |k_t| = 1 and beta_t = 1 the state answers v_t at k_t exactly.

    Args:
        k: of length one if the state is not to grow.
        beta: the share that is moved.
        gate: None forgets nothing.
        chunk, state, check: as in gated_linear_attention.

    Returns:
        (y, S_n).

    Source: Schlag et al. 2021; in chunks by Yang et al. 2024 (DeltaNet), with gates by
        Yang et al. 2025 (Gated DeltaNet), recalled; differs: one triangular solve a
        chunk in place of their inverse.
    Claim: efficient.newer
    """
    numbers = {"beta": beta} if gate is None else {"beta": beta, "gate": gate}
    state = _begun_pass(q, k, v, state, chunk, check, **numbers)
    if gate is None:
        gate = torch.ones_like(beta)
    return _in_chunks(q, k, v, beta, gate, chunk, state)


def _in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor | None,
    gate: Tensor,
    chunk: int,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """The delta rule; without beta a token writes its value whole, gated attention."""
    n, d_v = v.shape[-2:]
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
        wide = torch.promote_types(sides.dtype, torch.float32)
        solved = torch.linalg.solve_triangular(
            meets.to(wide), sides.to(wide), upper=False, unitriangular=True
        )
        v, keys = solved.to(sides.dtype).tensor_split([d_v], -1)

    whole = from_start[..., -1:, :]
    last = (k * decay[..., -1:, :].mT).mT
    before = []
    written = []
    for c in range(q.shape[-3]):
        here = (..., c, slice(None), slice(None))
        write = v[here] if beta is None else v[here] - keys[here] @ state
        before.append(state)
        written.append(write)
        state = whole[here] * state + last[here] @ write
    own = (q @ k.mT * decay) @ torch.stack(written, -3)
    y = own + (q * from_start) @ torch.stack(before, -3)
    return y.flatten(-3, -2)[..., :n, :], state


def selective_scan(
    x: Float[Tensor, "*batch n d"],
    a: Float[Tensor, "*batch n d s"],
    b: Float[Tensor, "*batch n s"],
    c: Float[Tensor, "*batch n s"],
    *,
    chunk: int = 64,
    state: Float[Tensor, "*batch d s"] | None = None,
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
        state, check: as in gated_linear_attention.

    Returns:
        (y, H_n).

    Cost: O(n d s) memory: every state is kept.
    Source: Gu and Dao 2023 (Mamba), its recurrence, recalled; differs: two levels of
        chunks.
    Claim: efficient.newer
    """
    _require.tokens(x)
    *batch, n, d = x.shape
    state = _begun_scan(x, a, b, c, state, batch, check)
    _shrinks("a", a, chunk, check)
    chunk = min(chunk, n)
    s = b.shape[-1]
    inputs = _blocks(_outer(x, b).flatten(-2), chunk)
    a = _blocks(a.flatten(-2), chunk, 1)

    # Every chunk from an empty state, all of them at once ..
    h = torch.zeros_like(inputs[..., 0, :])
    inside = []
    for t in range(chunk):
        h = a[..., t, :] * h + inputs[..., t, :]
        inside.append(h)
    # .. then what came before each of them.
    from_start = a.cumprod(-2)
    state = state.flatten(-2)
    before = []
    for i in range(h.shape[-2]):
        before.append(state)
        state = from_start[..., i, -1, :] * state + h[..., i, :]
    carried = from_start * torch.stack(before, -2).unsqueeze(-2)
    h = torch.stack(inside, -2) + carried
    h = h.flatten(-3, -2)[..., :n, :].unflatten(-1, (d, s))
    return _read(h.mT, c), state.unflatten(-1, (d, s))


def _decay(gate: Tensor) -> Tensor:
    """The product of the gates after token j, up to token i; zero for j > i."""
    place = torch.arange(gate.shape[-2], device=gate.device)
    after = place.unsqueeze(-1) > place
    factors = torch.where(after, gate, 1)
    return factors.cumprod(-2).tril()


def _begun_pass(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None,
    chunk: int,
    check: bool,
    **numbers: Tensor,
) -> Tensor:
    """The state before a pass whose parts fit each other."""
    _require.heads(q, k, v, one_length=True, check=check)
    *batch, n, d = q.shape
    for name, t in numbers.items():
        matches(name, t, (*batch, n), q, "q")
    size = (*batch, d, v.shape[-1])
    if state is None:
        state = q.new_zeros(size)
    matches("state", state, size, q, "q")
    if check:
        _require.finite(state=state, **numbers)
    _shrinks("gate", numbers.get("gate"), chunk, check)
    return state


def _begun_scan(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor | None,
    batch: list[int],
    check: bool = True,
) -> Tensor:
    """The state before a scan whose parts fit each other."""
    *tokens, d = x.shape
    *_, s = _one_token("b", b)
    matches("b", b, (*tokens, s), x)
    matches("c", c, (*tokens, s), x)
    matches("a", a, (*tokens, d, s), x)
    size = (*batch, d, s)
    if state is None:
        state = x.new_zeros(size)
    matches("state", state, size, x)
    if check:
        _require.finite(x=x, a=a, b=b, c=c, state=state)
    return state


def _shrinks(name: str, gate: Tensor | None, chunk: int, check: bool) -> None:
    """Gates whose products over a chunk neither overflow nor drown the rest."""
    _require.sizes(1, chunk=chunk)
    if check and chunk > 1 and gate is not None:
        most = float(gate.detach().abs().max())
        require(
            most <= 1,
            f"{name} must lie in [-1, 1] with chunk = {chunk}, got one of size "
            f"{most:g}: its products would drown what they multiply. chunk = 1 takes "
            "any gate",
        )
