"""Sparse attention with padding: window, strided and fixed patterns, and their masks.

Beside them stands the dense form of any mask.

Page:
    notebooks/jl_low_rank/complexity_table
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
    """
    _at_least_one(n=n, stride=stride)
    i, j = _places(n)
    near = i - j <= stride
    aligned = (i - j) % stride == 0
    return (j <= i) & (near | aligned)


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
    """
    _check_fixed(n, stride, summary)
    i, j = _places(n)
    own_block = i // stride == j // stride
    end_of_block = j % stride >= stride - summary
    return (j <= i) & (own_block | end_of_block)


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
    """
    logits = (q * _scale(q, scale)) @ k.mT
    if mask is not None:
        every_row_reads = bool(mask.any(-1).all())
        require(every_row_reads, "mask hides a whole row: it attends to nothing")
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

        softmax(scale q_i K') V  over  |i - j| <= (width - 1) / 2,
        or, if causal, over  i - width < j <= i

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
    """
    _check(q, k, v, padding, check)
    n = q.shape[-2]
    left, right = _reach(n, width, causal)
    _at_least_one(tile=tile)
    rest = -n % tile
    around = (left, right + rest)
    size = left + tile + right  # keys of a tile, which overlap
    keys = F.pad(k, (0, 0, *around)).unfold(-2, size, tile)  # (.., tiles, d, size)
    values = F.pad(v, (0, 0, *around)).unfold(-2, size, tile)
    real = padding
    if padding is None:
        real = torch.ones(n, dtype=torch.bool, device=q.device)
    real = F.pad(real, around).unfold(-1, size, tile).unsqueeze(-2)
    queries = _blocks(q, tile)
    logits = (queries * _scale(q, scale)) @ keys
    a = torch.arange(tile, device=q.device)[:, None]
    b = torch.arange(size, device=q.device)
    near = (a <= b) & (b <= a + left + right)
    logits = logits.masked_fill_(~(near & real), -math.inf)
    parts = [(logits, values.mT)]
    return _rows(_softmax(parts), n, padding)


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
    """Causal attention with the strided pattern: two families of dense tiles.

        S(i) = {max(0, i - l), ..., i}  and  {j <= i : l divides i - j}

    Write the tokens in rows of l: a row and the one before it hold the last l keys; a
    column, from two rows above on, the others. The two are merged by their sums of
    exponentials.

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
    """
    _check(q, k, v, padding, check)
    _at_least_one(stride=stride)
    n = q.shape[-2]
    l = stride
    q = _blocks(q * _scale(q, scale), l)  # (.., m, l, d)
    k = _blocks(k, l)
    v = _blocks(v, l)
    near = q @ _two_rows(k).mT  # (.., m, l, 2 l)
    columns_of_k = k.transpose(-3, -2)
    far = q.transpose(-3, -2) @ columns_of_k.mT  # (.., l, m, m)
    a = torch.arange(l, device=q.device)[:, None]
    b = torch.arange(2 * l, device=q.device)
    s = torch.arange(q.shape[-3], device=q.device)
    hidden = (b < a) | (b > a + l)
    first_row = (s == 0)[:, None, None]  # there is none before it
    hidden = torch.where(first_row, hidden | (b < l), hidden)
    too_near = s > s[:, None] - 2  # less than two rows above
    if padding is not None:
        real = _blocks_of_padding(padding, l)
        hidden = hidden | ~_two_rows(real.unsqueeze(-1)).mT
        too_near = too_near | ~real.mT.unsqueeze(-2)
    near = near.masked_fill_(hidden, -math.inf)
    far = far.masked_fill_(too_near, -math.inf)
    parts = [(near, _two_rows(v)), (far, v.transpose(-3, -2))]
    return _rows(_softmax(parts, turned=True), n, padding)


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
    """Causal attention with the fixed pattern: the own block and the ends of blocks.

        S(i) = {j <= i : floor(j / l) = floor(i / l)}  and  {j <= i : j mod l >= l - c}

    A block is a tile, the last c tokens of all blocks are another, in one softmax.

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
    """
    _check(q, k, v, padding, check)
    n = q.shape[-2]
    l = stride
    _check_fixed(n, stride, summary)
    q = _blocks(q * _scale(q, scale), l)  # (.., m, l, d)
    k = _blocks(k, l)
    v = _blocks(v, l)
    ends = slice(l - summary, l)
    ends_of_k = k[..., ends, :].flatten(-3, -2)  # (.., m c, d)
    ends_of_v = v[..., ends, :].flatten(-3, -2)
    own = q @ k.mT
    far = q.flatten(-3, -2) @ ends_of_k.mT
    far = far.unflatten(-2, (-1, l))  # (.., m, l, m c)
    a = torch.arange(l, device=q.device)
    s = torch.arange(q.shape[-3], device=q.device)
    hidden = a > a[:, None]
    later = s >= s[:, None]
    later = later.repeat_interleave(summary, -1).unsqueeze(-2)  # (m, 1, m c)
    if padding is not None:
        real = _blocks_of_padding(padding, l)
        real_ends = real[..., ends].flatten(-2)
        hidden = hidden | ~real.unsqueeze(-2)
        later = later | ~real_ends[..., None, None, :]
    own = own.masked_fill_(hidden, -math.inf)
    far = far.masked_fill_(later, -math.inf)
    parts = [(own, v), (far, ends_of_v.unsqueeze(-3))]
    return _rows(_softmax(parts), n, padding)


def _softmax(parts: list[tuple[Tensor, Tensor]], *, turned: bool = False) -> Tensor:
    """One softmax over keys that lie in one or two tiles: (logits, values) each.

    The parts are brought to one maximum and their sums of exponentials are added. A row
    without any key gives zero. If turned, the second part is (.., l, m, *) where the
    first is (.., m, l, *). Logits are overwritten: fresh pages cost more than the
    arithmetic of small tiles.
    """

    def turn(t: Tensor, p: int) -> Tensor:
        return t.transpose(-3, -2).contiguous() if turned and p else t

    tops = []
    for p, (logits, _) in enumerate(parts):
        own_top = logits.detach().amax(-1, keepdim=True)
        tops.append(turn(own_top, p))
    top = tops[0] if len(tops) == 1 else torch.maximum(*tops)
    top = top.masked_fill(top.isneginf(), 0)
    out = 0
    total = 0
    for p, (logits, values) in enumerate(parts):
        e = logits.sub_(turn(top, p)).exp_()
        out = out + turn(e @ values, p)
        total = total + turn(e.sum(-1, keepdim=True), p)
    return out / total.masked_fill(total == 0, 1)


def _rows(blocks: Tensor, n: int, padding: Tensor | None) -> Tensor:
    """The n tokens of blocks one after another, those that are padding as zeros."""
    rows = blocks.flatten(-3, -2)[..., :n, :]
    if padding is None:
        return rows.contiguous()
    return rows * padding.unsqueeze(-1)


def _blocks(t: Tensor, l: int) -> Tensor:
    """Blocks of l tokens, (.., m, l, d), the last filled up with zeros.

    They are a view if nothing is to be filled up.
    """
    rest = -t.shape[-2] % l
    if rest:
        t = F.pad(t, (0, 0, 0, rest))
    return t.unflatten(-2, (-1, l))


def _blocks_of_padding(padding: Tensor, l: int) -> Tensor:
    """The same of (.., n): (.., m, l), what is filled up counts as padding."""
    rest = -padding.shape[-1] % l
    return F.pad(padding, (0, rest)).unflatten(-1, (-1, l))


def _before(t: Tensor) -> Tensor:
    """Blocks moved on by one, zeros before the first block."""
    nothing = torch.zeros_like(t[..., :1, :, :])
    all_but_last = t[..., :-1, :, :]
    return torch.cat([nothing, all_but_last], -3)


def _two_rows(t: Tensor) -> Tensor:
    """Each block behind the one before it, (.., m, 2 l, d)."""
    return torch.cat([_before(t), t], -2)


def _scale(q: Tensor, scale: float | None) -> float:
    """What logits are multiplied by, 1/sqrt(d) unless it is given."""
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def _places(n: int) -> tuple[Tensor, Tensor]:
    """The indices of tokens as a column and as a row."""
    j = torch.arange(n)
    return j[:, None], j


def _reach(n: int, width: int, causal: bool) -> tuple[int, int]:
    """How many tokens before and after it a token reads."""
    _at_least_one(n=n, width=width)
    require(
        causal or width % 2,
        "width must be odd, so that i sees as far back as ahead, "
        f"got {width}; or causal=True",
    )
    if causal:
        return width - 1, 0
    return width // 2, width // 2


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
    """Shapes, dtypes and devices fit; with check, numbers are finite.

    q and k are (*batch, n, d), v (*batch, n, d_v), padding is boolean (*batch, n) with
    a token in each sequence.
    """
    tokens(q)
    matches("k", k, tuple(q.shape), q)
    require(
        torch.is_tensor(v) and v.dim() >= 2,
        f"v must be a torch tensor (*batch, n, d_v), got {type(v).__name__}",
    )
    wanted = tuple(q.shape[:-1])
    matches("v", v, (*wanted, v.shape[-1]), q)
    if padding is not None:
        boolean = torch.is_tensor(padding) and padding.dtype == torch.bool
        require(
            boolean and padding.shape == wanted,
            f"padding must be boolean {wanted}, True for a token",
        )
        require(
            not check or bool(padding.any(-1).all()),
            "a sequence is all padding: there is nothing to attend to",
        )
    if check:
        finite(q=q, k=k, v=v)
