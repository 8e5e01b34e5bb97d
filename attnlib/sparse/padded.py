"""Sparse attention with padding: window, strided and fixed patterns, their masks, and
the dense form of any mask.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import finite, matches, require, tokens


def window_mask(n: int, width: int, *, causal: bool = False) -> Bool[Tensor, "n n"]:
    """Who attends to whom in a sliding window of `width` keys.

        |i - j| <= (width - 1) / 2;   causal: i - width < j <= i

    Args:
        n: tokens.
        width: keys of a row away from the borders, odd unless causal.
        causal: only the past.

    Returns:
        boolean (n, n), True = may attend.

    Raises:
        ValueError: for n or width below 1, and for an even width that is not causal.

    Cost:
        O(n^2).

    Source:
        Beltagy et al. 2020, recalled.

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    left, right = _reach(n, width, causal)
    i, j = _places(n)
    return (i - left <= j) & (j <= i + right)


def strided_mask(n: int, stride: int) -> Bool[Tensor, "n n"]:
    """Who attends to whom in the strided pattern, both parts merged.

        S(i) = {max(0, i - l), ..., i}  and  {j <= i : l divides i - j}

    Args:
        n: tokens.
        stride: l.

    Returns:
        boolean (n, n), True = may attend.

    Raises:
        ValueError: for n or stride below 1.

    Cost:
        O(n^2).

    Source:
        Child et al. 2019, section 4.3, recalled; the two heads merged into one.

    Claim:
        efficient.two-hops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _at_least_one(n=n, stride=stride)
    i, j = _places(n)
    return (j <= i) & ((i - j <= stride) | ((i - j) % stride == 0))


def fixed_mask(n: int, stride: int, summary: int = 1) -> Bool[Tensor, "n n"]:
    """Who attends to whom in the fixed pattern, both parts merged.

        S(i) = {j <= i : floor(j / l) = floor(i / l)}  and  {j <= i : j mod l >= l - c}

    Args:
        n: tokens.
        stride: l, the length of a block.
        summary: c, tokens at the end of a block that all later blocks read.

    Returns:
        boolean (n, n), True = may attend.

    Raises:
        ValueError: for n or stride below 1, or summary outside 1..stride.

    Cost:
        O(n^2).

    Source:
        Child et al. 2019, section 4.3, recalled; the two heads merged into one.

    Claim:
        efficient.two-hops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check_fixed(n, stride, summary)
    i, j = _places(n)
    return (j <= i) & ((i // stride == j // stride) | (j % stride >= stride - summary))


def masked_attention(
    q: Float[Tensor, "*batch m d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "*batch m d_v"]:
    """Dense attention with all its logits: the literal twin of every kernel here.

        softmax_row(scale Q K', -inf where the mask is False) V

    Args:
        q: (*batch, m, d).
        k: (*batch, n, d).
        v: (*batch, n, d_v).
        mask: True = may attend, broadcast to (*batch, m, n), None for all.
        scale: None for 1/sqrt(d).

    Returns:
        (*batch, m, d_v).

    Raises:
        ValueError: for a row that may attend to nothing.

    Cost:
        O(m n (d + d_v)) time, O(m n) memory.

    Source:
        the definition.

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    logits = (q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)) @ k.mT
    if mask is not None:
        require(
            bool(mask.any(-1).all()), "mask hides a whole row: it attends to nothing"
        )
        logits = logits.masked_fill(~mask, -math.inf)
    return torch.softmax(logits, -1) @ v


def window_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    width: int,
    causal: bool = False,
    padding: Bool[Tensor, "*batch n"] | None = None,
    tile: int = 32,
    scale: float | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Sliding-window attention: overlapping tiles of keys, no gather.

        softmax(scale q_i K') V  over  |i - j| <= (width - 1) / 2;   causal: i - width < j <= i

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        width: keys a row, odd unless causal.
        causal: only the past.
        padding: True for a token; padding gets no weight, and its rows are zero.
        tile: queries a tile.
        scale: None for 1/sqrt(d).
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for an even width that is not causal, sizes below 1, shapes that do
            not fit, NaN or infinity.

    Cost:
        4 n (tile + width - 1) d FLOPs, O(n (tile + width)) memory.

    Source:
        Beltagy et al. 2020, recalled; differs: tiles of `tile` queries and tile + width
        - 1 keys.

    Claim:
        efficient.flops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(q, k, v, padding, check)
    n = q.shape[-2]
    left, right = _reach(n, width, causal)
    _at_least_one(tile=tile)
    rest = -n % tile
    real = (
        torch.ones(n, dtype=torch.bool, device=q.device) if padding is None else padding
    )
    k, v = (
        F.pad(t, (0, 0, left, right + rest)).unfold(-2, tile + left + right, tile)
        for t in (k, v)
    )
    real = (
        F.pad(real, (left, right + rest))
        .unfold(-1, tile + left + right, tile)
        .unsqueeze(-2)
    )
    a, b = (
        torch.arange(tile, device=q.device)[:, None],
        torch.arange(tile + left + right, device=q.device),
    )
    q = F.pad(q, (0, 0, 0, rest)).unflatten(-2, (-1, tile))
    logits = (q * _scale(q, scale)) @ k
    logits = logits.masked_fill_(
        ~((a <= b) & (b <= a + left + right) & real), -math.inf
    )
    return _softmax([(logits, v.mT)]).flatten(-3, -2)[..., :n, :] * (
        1 if padding is None else padding.unsqueeze(-1)
    )


def strided_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    stride: int,
    padding: Bool[Tensor, "*batch n"] | None = None,
    scale: float | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Causal attention with the strided pattern: two families of dense tiles, merged by
    their sums of exponentials.

        S(i) = {max(0, i - l), ..., i}  and  {j <= i : l divides i - j}

    Tokens in rows of l: a row and the one before it hold the last l keys; a column,
    from two rows above on, the others.

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        stride: l >= 1, cheapest near sqrt(n).
        padding: True for a token; padding gets no weight, and its rows are zero.
        scale: None for 1/sqrt(d).
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for stride below 1, shapes that do not fit, NaN or infinity.

    Cost:
        4 n (2 l + n / l) d FLOPs, O(n (2 l + n / l)) memory; n rounded up to a multiple
        of l.

    Source:
        Child et al. 2019, recalled; differs: both parts in one softmax.

    Claim:
        efficient.flops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(q, k, v, padding, check)
    _at_least_one(stride=stride)
    n, l = q.shape[-2], stride
    q, k, v = (_blocks(t, l) for t in (q * _scale(q, scale), k, v))  # (.., m, l, d)
    near = q @ torch.cat([_before(k), k], -2).mT
    far = (
        q.transpose(-3, -2) @ k.transpose(-3, -2).mT
    )  # (.., l, m, m): a column of the table
    a, b, s = (torch.arange(size, device=q.device) for size in (l, 2 * l, q.shape[-3]))
    hidden = (b < a[:, None]) | (b > a[:, None] + l)
    hidden = torch.where((s == 0)[:, None, None], hidden | (b < l), hidden)
    above = s > s[:, None] - 2
    if padding is not None:
        real = F.pad(padding, (0, -n % l)).unflatten(-1, (-1, l))  # (.., m, l)
        hidden = hidden | ~torch.cat(
            [_before(real.unsqueeze(-1)).squeeze(-1), real], -1
        ).unsqueeze(-2)
        above = above | ~real.mT.unsqueeze(-2)
    near, far = near.masked_fill_(hidden, -math.inf), far.masked_fill_(above, -math.inf)
    y = _softmax(
        [(near, torch.cat([_before(v), v], -2)), (far, v.transpose(-3, -2))],
        turned=True,
    )
    return y.flatten(-3, -2)[..., :n, :] * (
        1 if padding is None else padding.unsqueeze(-1)
    )


def fixed_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch n d"],
    v: Float[Tensor, "*batch n d_v"],
    *,
    stride: int,
    summary: int = 1,
    padding: Bool[Tensor, "*batch n"] | None = None,
    scale: float | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d_v"]:
    """Causal attention with the fixed pattern: a tile a block, and the summaries of all
    blocks, in one softmax.

        S(i) = {j <= i : floor(j / l) = floor(i / l)}  and  {j <= i : j mod l >= l - c}

    Args:
        q, k: (*batch, n, d).
        v: (*batch, n, d_v).
        stride: l >= 1.
        summary: c, from 1 to l.
        padding: True for a token; padding gets no weight, and its rows are zero.
        scale: None for 1/sqrt(d).
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d_v), for any n.

    Raises:
        ValueError: for stride below 1, summary outside 1..l, shapes that do not fit,
            NaN or infinity.

    Cost:
        4 n (l + c n / l) d FLOPs, O(n (l + c n / l)) memory; n rounded up to a multiple
        of l.

    Source:
        Child et al. 2019, recalled; differs: both parts in one softmax.

    Claim:
        efficient.flops

    Page:
        notebooks/jl_low_rank/complexity_table
    """
    _check(q, k, v, padding, check)
    n, l = q.shape[-2], stride
    _check_fixed(n, stride, summary)
    q, k, v = (_blocks(t, l) for t in (q * _scale(q, scale), k, v))
    ends_k, ends_v = (
        t[..., l - summary :, :].flatten(-3, -2).unsqueeze(-3) for t in (k, v)
    )  # (.., 1, m c, d)
    own, far = (
        q @ k.mT,
        (q.flatten(-3, -2) @ ends_k.squeeze(-3).mT).unflatten(-2, (-1, l)),
    )
    a, s = torch.arange(l, device=q.device), torch.arange(q.shape[-3], device=q.device)
    hidden = a > a[:, None]
    later = (
        (s >= s[:, None]).repeat_interleave(summary, -1).unsqueeze(-2)
    )  # (m, 1, m c)
    if padding is not None:
        real = F.pad(padding, (0, -n % l)).unflatten(-1, (-1, l))
        hidden = hidden | ~real.unsqueeze(-2)
        later = later | ~real[..., l - summary :].flatten(-2).unsqueeze(-2).unsqueeze(
            -2
        )
    y = _softmax(
        [
            (own.masked_fill_(hidden, -math.inf), v),
            (far.masked_fill_(later, -math.inf), ends_v),
        ]
    )
    return y.flatten(-3, -2)[..., :n, :] * (
        1 if padding is None else padding.unsqueeze(-1)
    )


def _softmax(parts: list[tuple[Tensor, Tensor]], *, turned: bool = False) -> Tensor:
    """One softmax over keys that lie in several tiles: (logits, values) each; turned:
    the last part is (.., l, m, *).

    The parts are brought to one maximum and their sums of exponentials are added. A row
    without any key gives zero. Logits are overwritten: fresh pages cost more than the
    arithmetic of small tiles.
    """

    def turn(t, p):
        return t.transpose(-3, -2).contiguous() if turned and p else t

    tops = [
        turn(logits.detach().amax(-1, keepdim=True), p)
        for p, (logits, _) in enumerate(parts)
    ]
    top = tops[0] if len(tops) == 1 else torch.maximum(*tops)
    top = top.masked_fill(top.isneginf(), 0)
    out, total = 0, 0
    for p, (logits, values) in enumerate(parts):
        e = logits.sub_(turn(top, p)).exp_()
        out, total = out + turn(e @ values, p), total + turn(e.sum(-1, keepdim=True), p)
    return out / total.masked_fill(total == 0, 1)


def _blocks(t: Tensor, l: int) -> Tensor:
    """Blocks of l tokens, (.., m, l, d), the last filled up with zeros; a view if
    nothing is to be filled up.
    """
    rest = -t.shape[-2] % l
    return (F.pad(t, (0, 0, 0, rest)) if rest else t).unflatten(-2, (-1, l))


def _before(t: Tensor) -> Tensor:
    """Blocks moved on by one, zeros before the first block."""
    return torch.cat([torch.zeros_like(t[..., :1, :, :]), t[..., :-1, :, :]], -3)


def _scale(q: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _places(n: int) -> tuple[Tensor, Tensor]:
    j = torch.arange(n)
    return j[:, None], j


def _reach(n: int, width: int, causal: bool) -> tuple[int, int]:
    _at_least_one(n=n, width=width)
    require(
        causal or width % 2,
        f"width must be odd, so that i sees as far back as ahead, got {width}; or causal=True",
    )
    return (width - 1, 0) if causal else (width // 2, width // 2)


def _at_least_one(**sizes) -> None:
    for name, size in sizes.items():
        whole = isinstance(size, int) and not isinstance(size, bool)
        require(
            whole and size >= 1,
            f"{name} must be an integer of at least 1, got {size!r}",
        )


def _check_fixed(n: int, stride: int, summary: int) -> None:
    _at_least_one(n=n, stride=stride, summary=summary)
    require(
        summary <= stride, f"summary must lie in 1..stride = {stride}, got {summary}"
    )


def _check(q, k, v, padding, check: bool) -> None:
    """q and k (*batch, n, d), v (*batch, n, d_v), padding boolean (*batch, n) with a
    token in each sequence.
    """
    tokens(q)
    matches("k", k, tuple(q.shape), q)
    require(
        torch.is_tensor(v) and v.dim() >= 2,
        f"v must be a torch tensor (*batch, n, d_v), got {type(v).__name__}",
    )
    matches("v", v, (*q.shape[:-1], v.shape[-1]), q)
    if padding is not None:
        good = (
            torch.is_tensor(padding)
            and padding.dtype == torch.bool
            and padding.shape == q.shape[:-1]
        )
        require(
            good, f"padding must be boolean {tuple(q.shape[:-1])}, True for a token"
        )
        require(
            not check or bool(padding.any(-1).all()),
            "a sequence is all padding: there is nothing to attend to",
        )
    if check:
        finite(q=q, k=k, v=v)
