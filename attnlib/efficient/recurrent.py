"""Attention with a state of fixed size: gated linear attention, the delta rule, and a
selective state space, token by token and in chunks.

Each comes twice. A step reads one token and hands its state on. The whole pass reads n
tokens in chunks: the tokens of a chunk meet densely, and only its sum is handed on. A
loop over steps is the literal twin of the pass.

Page: notebooks/jl_low_rank/complexity_table
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlib import _require
from attnlib._require import matches, require, sizes
from attnlib.efficient.features import _blocks


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
        q, k: (*batch, n, d), not scaled.
        v: (*batch, n, d_v).
        gate: (*batch, n), one number a token, in [-1, 1]; any with chunk = 1.
        chunk: tokens that meet densely.
        state: S_0, or None for zeros.
        check: look for NaN, infinity and gates that are too large.

    Returns:
        (y, S_n): (*batch, n, d_v) and (*batch, d, d_v), for any n. There is no
        denominator, and no mask: a token with k = 0 and gate 1 changes nothing.

    Raises:
        ValueError: for chunk below 1, shapes that do not fit, NaN or infinity, a gate
            outside [-1, 1]: its products would drown what they multiply.

    Cost: 4 n d (chunk + d) FLOPs for d_v = d; n / chunk steps one after another;
        O(n (chunk + d)) memory.
    Source: Yang et al. 2024 (gated linear attention) with one gate a token, as in Dao
        and Gu 2024 (Mamba-2: q = c, k = b, v = x), recalled.
    Claim: efficient.newer
    """
    _check_pass(q, k, v, state, check, gate=gate)
    sizes(1, chunk=chunk)
    _shrinks("gate", gate, chunk, check)
    n = q.shape[-2]
    chunk = min(chunk, n)
    q = _blocks(q, chunk)
    k = _blocks(k, chunk)
    v = _blocks(v, chunk)
    gate = _rows(gate, chunk, fill=1)

    from_start = gate.cumprod(-1).unsqueeze(-1)
    decay = _decay(gate)
    to_end = decay[..., -1, :].unsqueeze(-1)
    own = (q @ k.mT * decay) @ v
    added = (k * to_end).mT @ v
    whole = from_start[..., -1:, :]
    before, state = _carry(whole, added, state)
    y = own + (q * from_start) @ before
    return y.flatten(-3, -2)[..., :n, :], state


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
        q, k: (*batch, n, d), not scaled; keys of length one if the state is not to
            grow.
        v: (*batch, n, d_v).
        beta: (*batch, n), the share that is moved.
        gate: (*batch, n), as in gated_linear_attention; None forgets nothing.
        chunk: tokens that meet densely.
        state: S_0, or None for zeros.
        check: look for NaN, infinity and gates that are too large.

    Returns:
        (y, S_n): (*batch, n, d_v) and (*batch, d, d_v), for any n. There is no mask: a
        token with beta = 0 and gate 1 changes nothing.

    Raises:
        ValueError: as gated_linear_attention.

    Cost: 8 n chunk d + 6 n d^2 FLOPs for d_v = d, a triangular solve of chunk^2 a
        column among them; n / chunk steps one after another; O(n (chunk + d)) memory.
    Source: Schlag et al. 2021; in chunks by Yang et al. 2024 (DeltaNet), with gates by
        Yang et al. 2025 (Gated DeltaNet), recalled; differs: one triangular solve a
        chunk in place of their inverse.
    Claim: efficient.newer
    """
    given = {"beta": beta} if gate is None else {"beta": beta, "gate": gate}
    _check_pass(q, k, v, state, check, **given)
    if gate is None:
        gate = torch.ones_like(beta)
    sizes(1, chunk=chunk)
    _shrinks("gate", gate, chunk, check)
    n, d_v = v.shape[-2:]
    chunk = min(chunk, n)
    q = _blocks(q, chunk)
    k = _blocks(k, chunk)
    v = _blocks(v, chunk)
    beta = _rows(beta, chunk, fill=0).unsqueeze(-1)
    gate = _rows(gate, chunk, fill=1)

    # What token t writes is beta_t (v_t - g_t S' k_t), and S holds what the tokens
    # before it wrote: a triangular system in each chunk. Its right side is linear in
    # the state before the chunk, so all chunks are solved at once.
    from_start = gate.cumprod(-1).unsqueeze(-1)
    decay = _decay(gate)
    to_end = decay[..., -1, :].unsqueeze(-1)
    meets = beta * (k @ k.mT * decay)
    sides = beta * torch.cat([v, k * from_start], -1)
    solved = _solve(meets, sides)
    values = solved[..., :d_v]
    keys = solved[..., d_v:]

    whole = from_start[..., -1:, :]
    last = (k * to_end).mT
    if state is None:
        state = q.new_zeros(*q.shape[:-3], q.shape[-1], d_v)
    before = []
    written = []
    for c in range(q.shape[-3]):
        here = (..., c, slice(None), slice(None))
        write = values[here] - keys[here] @ state
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
        x: (*batch, n, d), channels; the step size, if any, is multiplied in.
        a: (*batch, n, d, s), gates, such as exp(step size * A), in [-1, 1]; any with
            chunk = 1.
        b: (*batch, n, s), what a token writes to.
        c: (*batch, n, s), what it reads.
        chunk: tokens read one after another, in all chunks at once.
        state: H_0, or None for zeros.
        check: look for NaN, infinity and gates that are too large.

    Returns:
        (y, H_n): (*batch, n, d) and (*batch, d, s), for any n. There is no mask: a
        token with x = 0 and gates a = 1 changes nothing.

    Raises:
        ValueError: as gated_linear_attention, of a.

    Cost: 4 n d s FLOPs of products, and 5 n d s multiplications and additions of gates,
        which are none; chunk + n / chunk steps one after another; O(n d s) memory.
    Source: Gu and Dao 2023 (Mamba), its recurrence, recalled; differs: two levels of
        chunks, and every state is kept in memory.
    Claim: efficient.newer
    """
    _check_scan(x, a, b, c, state, check)
    sizes(1, chunk=chunk)
    _shrinks("a", a, chunk, check)
    n = x.shape[-2]
    chunk = min(chunk, n)
    inputs = x.unsqueeze(-1) @ b.unsqueeze(-2)
    rest = (0, 0, 0, 0, 0, -n % chunk)
    inputs = F.pad(inputs, rest).unflatten(-3, (-1, chunk))
    a = F.pad(a, rest, value=1).unflatten(-3, (-1, chunk))

    # Every chunk from an empty state, all of them at once ..
    h = torch.zeros_like(inputs[..., 0, :, :])
    inside = []
    for t in range(chunk):
        h = a[..., t, :, :] * h + inputs[..., t, :, :]
        inside.append(h)
    # .. then what came before each of them.
    from_start = a.cumprod(-3)
    before, state = _carry(from_start[..., -1, :, :], h, state)
    h = torch.stack(inside, -3) + from_start * before.unsqueeze(-3)
    h = h.flatten(-4, -3)[..., :n, :, :]
    y = h @ c.unsqueeze(-1)
    return y.squeeze(-1), state


def gated_linear_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    gate: Float[Tensor, "*batch"],
    state: Float[Tensor, "*batch d d_v"] | None = None,
    *,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v"]]:
    """One token of gated_linear_attention.

        S = g S + k v',   y = S' q

    Args:
        q, k: (*batch, d).
        v: (*batch, d_v).
        gate: (*batch).
        state: S before the token, or None for zeros.
        check: look for NaN and infinity.

    Returns:
        (y, S): (*batch, d_v) and (*batch, d, d_v).

    Raises:
        ValueError: for shapes that do not fit, NaN or infinity.

    Cost: 4 d d_v FLOPs, whatever came before.
    Source: as gated_linear_attention.
    Claim: efficient.state
    """
    _check_step(q, k, v, state, check, gate=gate)
    written = k.unsqueeze(-1) @ v.unsqueeze(-2)
    if state is None:
        state = torch.zeros_like(written)
    state = gate[..., None, None] * state + written
    return _read(state, q), state


def delta_step(
    q: Float[Tensor, "*batch d"],
    k: Float[Tensor, "*batch d"],
    v: Float[Tensor, "*batch d_v"],
    beta: Float[Tensor, "*batch"],
    gate: Float[Tensor, "*batch"] | None = None,
    state: Float[Tensor, "*batch d d_v"] | None = None,
    *,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch d d_v"]]:
    """One token of delta_attention.

        S = g S,   S = S + beta k (v - S' k)',   y = S' q

    Args:
        q, k: (*batch, d).
        v: (*batch, d_v).
        beta: (*batch), the share that is moved.
        gate: (*batch), or None.
        state: S before the token, or None for zeros.
        check: look for NaN and infinity.

    Returns:
        (y, S): (*batch, d_v) and (*batch, d, d_v).

    Raises:
        ValueError: for shapes that do not fit, NaN or infinity.

    Cost: 6 d d_v FLOPs, whatever came before.
    Source: as delta_attention.
    Claim: efficient.state
    """
    given = {"beta": beta} if gate is None else {"beta": beta, "gate": gate}
    _check_step(q, k, v, state, check, **given)
    if gate is None:
        gate = torch.ones_like(beta)
    if state is None:
        state = q.new_zeros(*q.shape, v.shape[-1])
    state = gate[..., None, None] * state
    off = v - _read(state, k)
    write = beta.unsqueeze(-1) * off
    state = state + k.unsqueeze(-1) @ write.unsqueeze(-2)
    return _read(state, q), state


def selective_step(
    x: Float[Tensor, "*batch d"],
    a: Float[Tensor, "*batch d s"],
    b: Float[Tensor, "*batch s"],
    c: Float[Tensor, "*batch s"],
    state: Float[Tensor, "*batch d s"] | None = None,
    *,
    check: bool = True,
) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d s"]]:
    """One token of selective_scan.

        H = a * H + x b',   y = H c

    Args:
        x: (*batch, d).
        a: (*batch, d, s).
        b, c: (*batch, s).
        state: H before the token, or None for zeros.
        check: look for NaN and infinity.

    Returns:
        (y, H): (*batch, d) and (*batch, d, s).

    Raises:
        ValueError: for shapes that do not fit, NaN or infinity.

    Cost: 4 d s FLOPs of products, whatever came before.
    Source: as selective_scan.
    Claim: efficient.state
    """
    _require.is_floating("x", x)
    require(x.dim() >= 1, "x must be (*batch, d), got a single number")
    _require.is_tensor("b", b)
    require(b.dim() >= 1, "b must be (*batch, s), got a single number")
    *batch, d = x.shape
    s = b.shape[-1]
    _fit(x, "x", check, b=(b, (*batch, s)), c=(c, (*batch, s)), a=(a, (*batch, d, s)))
    _begins(state, (*batch, d, s), x, "x", check)
    if state is None:
        state = torch.zeros_like(a)
    state = a * state + x.unsqueeze(-1) @ b.unsqueeze(-2)
    y = state @ c.unsqueeze(-1)
    return y.squeeze(-1), state


def _check_pass(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None, check: bool, **given: Tensor
) -> None:
    """Queries, keys and values of one length, one number a token each, and a state."""
    _require.heads(q, k, v, one_length=True, check=check)
    *batch, n, d = q.shape
    wanted = {name: (t, (*batch, n)) for name, t in given.items()}
    _fit(q, "q", check, **wanted)
    _begins(state, (*batch, d, v.shape[-1]), q, "q", check)


def _check_step(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None, check: bool, **given: Tensor
) -> None:
    """The same for one token."""
    _require.is_floating("q", q)
    _require.is_tensor("v", v)
    require(q.dim() >= 1, "q must be (*batch, d), got a single number")
    require(v.dim() >= 1, "v must be (*batch, d_v), got a single number")
    *batch, d = q.shape
    d_v = v.shape[-1]
    wanted = {name: (t, tuple(batch)) for name, t in given.items()}
    _fit(q, "q", check, k=(k, (*batch, d)), v=(v, (*batch, d_v)), **wanted)
    _begins(state, (*batch, d, d_v), q, "q", check)


def _check_scan(
    x: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None, check: bool
) -> None:
    """Channels, gates, writes, reads and a state of one scan."""
    _require.tokens(x)
    _require.is_tensor("b", b)
    require(b.dim() >= 1, "b must be (*batch, n, s), got a single number")
    *batch, n, d = x.shape
    s = b.shape[-1]
    tokens = (*batch, n, s)
    _fit(x, "x", check, b=(b, tokens), c=(c, tokens), a=(a, (*batch, n, d, s)))
    _begins(state, (*batch, d, s), x, "x", check)


def _fit(like: Tensor, like_name: str, check: bool, **given) -> None:
    """Each of these, given as (tensor, shape), has that shape and fits `like`."""
    for name, (t, shape) in given.items():
        matches(name, t, shape, like, like_name)
        require(0 not in t.shape, f"{name} must not be empty, got {tuple(t.shape)}")
        if check:
            _require.finite(**{name: t})
    if check:
        _require.finite(**{like_name: like})


def _shrinks(name: str, gate: Tensor, chunk: int, check: bool) -> None:
    """Gates whose products over a chunk neither overflow nor drown the rest."""
    if check and chunk > 1:
        most = float(gate.detach().abs().max())
        require(
            most <= 1,
            f"{name} must lie in [-1, 1] with chunk = {chunk}, got one of size "
            f"{most:g}: its products would drown what they multiply. chunk = 1 takes "
            "any gate",
        )


def _begins(
    state: Tensor | None, shape: tuple, like: Tensor, like_name: str, check: bool
) -> None:
    """A state before the first token, or None."""
    if state is not None:
        matches("state", state, shape, like, like_name)
        if check:
            _require.finite(state=state)


def _rows(t: Tensor, chunk: int, fill: int) -> Tensor:
    """One number a token, in chunks, (.., chunks, chunk)."""
    rest = -t.shape[-1] % chunk
    return F.pad(t, (0, rest), value=fill).unflatten(-1, (-1, chunk))


def _decay(gate: Tensor) -> Tensor:
    """The product of the gates after token j, up to token i; zero for j > i."""
    place = torch.arange(gate.shape[-1], device=gate.device)
    after = place.unsqueeze(-1) > place
    one = torch.ones_like(gate).unsqueeze(-1)
    factors = torch.where(after, gate.unsqueeze(-1), one)
    return factors.cumprod(-2).tril()


def _carry(whole: Tensor, added: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The state before each chunk, and the one after the last: a chunk scales its state
    by `whole` and adds.
    """
    if state is None:
        state = torch.zeros_like(added[..., 0, :, :])
    before = []
    for c in range(added.shape[-3]):
        before.append(state)
        state = whole[..., c, :, :] * state + added[..., c, :, :]
    return torch.stack(before, -3), state


def _solve(meets: Tensor, sides: Tensor) -> Tensor:
    """x with x + (meets below its diagonal) x = sides."""
    # torch solves no triangular system in half precision.
    half = sides.dtype in (torch.float16, torch.bfloat16)
    wide = torch.float32 if half else sides.dtype
    solved = torch.linalg.solve_triangular(
        meets.to(wide), sides.to(wide), upper=False, unitriangular=True
    )
    return solved.to(sides.dtype)


def _read(state: Tensor, q: Tensor) -> Tensor:
    """What the state holds at q, S' q."""
    y = q.unsqueeze(-2) @ state
    return y.squeeze(-2)
