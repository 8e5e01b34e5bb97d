"""Path decomposition: single paths, exact sums of all paths by length, norms of all
paths.

Page: notebooks/path_decomposition/paths
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from attnlib import _require
from attnlib._blocks import check_layers, refuse_encoder
from attnlib._require import finite, matches, require
from attnlib.attention import (
    Layer,
    Normalizer,
    check_network,
    forward,
)

Path = tuple[int | None, ...]


class PathSums(NamedTuple):
    """The output of a network, sorted by how many heads a path passes.

        forward(X) = sum_k by_length[k] + 1 bias'

    Args:
        by_length: (L + 1, *batch, n, d), entry k is the sum of all paths of length k.
        bias: (d,), the row that all biases add to every token.

    Claim: paths.sums
    """

    by_length: Tensor
    bias: Tensor


class PathNorms(NamedTuple):
    """Estimates of the squared norms of all paths, added up by length.

    Args:
        total_square: (L + 1, *batch), estimate of the sum of |path|_F^2 over the paths
            of length k; divided by path_counts it is the mean square of one path.
        standard_error: (L + 1, *batch), of that estimate.

    Claim: paths.signs
    """

    total_square: Tensor
    standard_error: Tensor


def path_counts(heads: Sequence[int], *, skip: bool = False) -> list[int]:
    """How many paths of each length a network has.

        sum_k count_k z^k = prod_l ([skip] + H_l z)

    With H heads in every layer and skips that is binom(L, k) H^k.

    Args:
        heads: number of heads of each layer, first layer first.
        skip: layers may be skipped.

    Returns:
        L + 1 Python integers, exact at any size.

    Raises:
        ValueError: for no layers or a layer without heads.

    Cost: O(L^2) integer operations.
    Source: Xie 2021, remark after Theorem 2.1 (the total); Dong et al. 2021 (the
        distribution).
    Claim: paths.lengths
    """
    _require.is_a(bool, skip=skip)
    require(
        isinstance(heads, (list, tuple)) and len(heads) >= 1,
        f"heads must hold a number for at least one layer, got {heads!r}",
    )
    for number, h in enumerate(heads, 1):
        _require.sizes(1, **{f"heads of layer {number}": h})
    counts = [1]
    for h in heads:
        through_a_head = [0] + [h * count for count in counts]
        around = counts + [0] if skip else [0] * (len(counts) + 1)
        counts = [a + b for a, b in zip(around, through_a_head)]
    return counts


def path_term(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    path: Path,
    attention: Sequence[Tensor],
    *,
    check: bool = True,
) -> Float[Tensor, "*batch n d"]:
    """The contribution of one path, the formula as it stands.

        P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L}

    A skipped layer leaves both products alone.

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        path: one head index a layer, None = skip.
        attention: P of the full forward pass, (*batch, h, n, n) a layer.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d).

    Raises:
        ValueError: if the path names a head that is not there or has not L entries, P
            do not fit, and as forward.

    Cost: O(L (n^2 d + n d^2 + d^2 d_v)).
    Source: Dong et al. 2021, path decomposition; Xie 2021, Theorem 2.1.
    Claim: paths.decomposition
    """
    check_attention(x, layers, attention, check=check)
    _check_path(layers, path)
    return _term(x, layers, path, attention)


def _term(
    x: Tensor, layers: Sequence[Layer], path: Path, attention: Sequence[Tensor]
) -> Tensor:
    for layer, p, h in zip(layers, attention, path):
        if h is None:
            continue
        w = layer.w_v[h] @ layer.w_o[h]
        x = p[..., h, :, :] @ x @ w
    return x


def path_terms(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    limit: int = 10**6,
    attention: Sequence[Tensor] | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    normalizer: Normalizer = "softmax",
) -> Iterator[tuple[Path, Tensor]]:
    """Every path with its contribution, one by one: the literal twin of path_sums.

        forward(X) = sum over paths of term + 1 bias'

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        skip: count the skip as one more head.
        limit: largest number of paths to list.
        attention: frozen P, None for those of forward.
        mask, scale, normalizer: of that forward pass, as in attention_matrix.

    Returns:
        iterator over (path, term); path: one head a layer, first layer first, None =
        skip.

    Raises:
        ValueError: at the call for more than `limit` paths, and as in path_sums.

    Cost: (H + 1)^L path_terms.
    Source: Dong et al. 2021; Xie 2021, Theorem 2.1.
    Claim: paths.decomposition
    """
    _require.is_a(bool, skip=skip)
    how = {"mask": mask, "scale": scale, "normalizer": normalizer}
    _require.sizes(1, limit=limit)
    attention = _attention(x, layers, attention, skip=skip, check=True, **how)
    heads = [layer.w_q.shape[0] for layer in layers]
    total = sum(path_counts(heads, skip=skip))
    require(
        total <= limit,
        f"there are {total:,} paths, more than limit = {limit:,}: "
        "path_sums gives their sums by length exactly",
    )
    around = [None] if skip else []
    ways = [around + list(range(h)) for h in heads]
    paths = itertools.product(*ways)
    return ((path, _term(x, layers, path, attention)) for path in paths)


def restrict(layers: Sequence[Layer], path: Path) -> list[Layer]:
    """The network that keeps only the heads of one path, and so computes its own
    attention.

    Args:
        layers: L Layers.
        path: one head a layer, None drops the layer.

    Returns:
        list of Layers with one head each; empty for the path that skips all layers.

    Raises:
        ValueError: if the path has not L entries or names a head that is not there, or
            layers is no list of Layers.

    Cost: O(1): views.
    Source: the evaluation of paths in the public code of Dong et al. 2021; NOT a term
        of the theorem.
    Claim: paths.recomputed
    """
    check_layers(layers)
    _check_path(layers, path)
    kept = []
    for layer, h in zip(layers, path):
        if h is not None:
            kept.append(_one_head(layer, h))
    return kept


def _one_head(layer: Layer, h: int) -> Layer:
    """Head h alone. The bias b_o belongs to no head, and stays."""
    weights = layer._asdict()
    for name, w in weights.items():
        if w is not None and name != "b_o":
            weights[name] = w[h : h + 1]
    return Layer(**weights)


def path_sums(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    attention: Sequence[Tensor] | None = None,
    check: bool = True,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    normalizer: Normalizer = "softmax",
) -> PathSums:
    """The exact sum of all paths of each length, without listing a path.

        S_k <- [skip] S_k + sum_h P_h S_{k-1} W_h      layer by layer, from S_0 = X

    The theorem is about attention and skips. A feed-forward part or a LayerNorm between
    the layers ends the expansion, so there is no argument for them.

    Args:
        x: (*batch, n, d).
        layers: L Layers; the number of heads may differ by layer.
        skip: as in forward.
        attention: frozen P, (*batch, h, n, n) a layer; None for those of forward with
            the same skip.
        check: look for NaN and infinity and, where there are biases, for rows of P that
            do not sum to one.
        mask, scale, normalizer: of the forward pass, as in attention_matrix; only
            without `attention`.

    Returns:
        PathSums(by_length (L + 1, *batch, n, d), bias (d,)).

    Raises:
        ValueError: as forward; and if given P do not fit, or there are biases and P 1
            != 1.

    Cost: (L + 1)/2 times the products of a forward pass with skips, one forward
        without; O(L n d) memory beside the P, O(L h n^2).
    Source: the coefficients in z of a forward pass whose head outputs are multiplied by
        z.
    Claim: paths.sums
    """
    _require.is_a(bool, skip=skip)
    how = {"mask": mask, "scale": scale, "normalizer": normalizer}
    attention = _attention(x, layers, attention, skip=skip, check=check, **how)
    t = _empty_path(x)
    for layer, p in zip(layers, attention):
        t = _step(t, layer, p, skip)
    by_length = t.squeeze(-2).movedim(-2, 0)
    if not skip:  # only length L was carried: the other lengths have no path
        shorter = torch.zeros_like(by_length).expand(len(layers), *x.shape)
        by_length = torch.cat([shorter, by_length])
    return PathSums(by_length, _bias(x, layers, skip))


def path_norms(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    signs: int,
    generator: torch.Generator,
    skip: bool = False,
    centred: bool = False,
    attention: Sequence[Tensor] | None = None,
    check: bool = True,
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | Float[Tensor, ""] | None = None,
    normalizer: Normalizer = "softmax",
) -> PathNorms:
    """How large the paths of each length are, all of them at once, by random signs.

        E | sum over paths of length k of (product of its signs) path |_F^2
            = sum over paths of length k of | path |_F^2

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        signs: number of draws, at least 2; a draw gives every (layer, head) a sign.
        generator: source of the signs.
        skip, attention, check, mask, scale, normalizer: as in path_sums.
        centred: subtract the token mean of each path first.

    Returns:
        PathNorms(total_square, standard_error), each (L + 1, *batch); unbiased for
        every k. The draws have a heavy right tail for long paths: use hundreds before
        trusting the standard error.

    Raises:
        ValueError: if signs < 2, for no generator, and as path_sums.

    Cost: `signs` times the products and the memory of path_sums, P computed once.
    Source: Rademacher signs cancel the cross terms of different paths in expectation.
    Claim: paths.signs
    """
    _require.is_a(bool, skip=skip, centred=centred)
    _require.sizes(2, signs=signs)  # one draw has no standard error
    _require.random(generator)
    how = {"mask": mask, "scale": scale, "normalizer": normalizer}
    attention = _attention(x, layers, attention, skip=skip, check=check, **how)
    t = _empty_path(x).expand(*x.shape[:-1], 1, signs, x.shape[-1])
    for layer, p in zip(layers, attention):
        size = (layer.w_q.shape[0], signs)
        coins = torch.randint(2, size, generator=generator, device=generator.device)
        flips = (2 * coins - 1).to(x)
        t = _step(t, layer, p, skip, flips)
    if centred:
        t = t - t.mean(-4, keepdim=True)
    squares = t.square().sum((-4, -1))  # (*batch, lengths, signs)
    squares = squares.movedim((-2, -1), (0, 1))
    if not skip:
        shorter = torch.zeros_like(squares).expand(len(layers), *squares.shape[1:])
        squares = torch.cat([shorter, squares])
    standard_error = squares.std(1) / math.sqrt(signs)
    return PathNorms(squares.mean(1), standard_error)


def _empty_path(x: Tensor) -> Tensor:
    """x as (*batch, n, lengths, signs, d): one length, that of the empty path."""
    return x[..., :, None, None, :]


def _step(
    t: Tensor, layer: Layer, p: Tensor, skip: bool, signs: Tensor | None = None
) -> Tensor:
    """One layer of the recursion on t (*batch, n, m, s, d); signs (h, s) multiply the
    head outputs.

    All lengths and draws lie side by side as features, so that each layer is two or
    three large products. Where values are not narrower than tokens, one product with
    W_h = W_V W_O costs less than two.
    """
    if layer.w_v.shape[-1] >= layer.w_v.shape[-2]:
        y = _through_merged_heads(t, layer, p, signs)
    else:
        y = _through_narrow_heads(t, layer, p, signs)
    if not skip:
        return y
    stays = pad(t, (0, 0, 0, 0, 0, 1))
    one_longer = pad(y, (0, 0, 0, 0, 1, 0))
    return stays + one_longer


def _through_merged_heads(t: Tensor, layer: Layer, p: Tensor, signs) -> Tensor:
    """sum_h P_h T W_h = [P_1 ... P_h] [T W_1; ...; T W_h]."""
    *batch, n, m, s, d = t.shape
    h = layer.w_v.shape[0]
    merged = layer.w_v @ layer.w_o
    v = t.reshape(*batch, 1, n * m * s, d) @ merged
    v = _signed(v, signs, n * m, s)
    side_by_side = p.movedim(-3, -2).reshape(*batch, n, h * n)
    below_each_other = v.reshape(*batch, h * n, m * s * d)
    y = side_by_side @ below_each_other
    return y.view(*batch, n, m, s, d)


def _through_narrow_heads(t: Tensor, layer: Layer, p: Tensor, signs) -> Tensor:
    """sum_h (P_h (T W_V,h)) W_O,h, the values of all heads in one product."""
    *batch, n, m, s, d = t.shape
    h, _, d_v = layer.w_v.shape
    rows = n * m * s
    w_v = layer.w_v.movedim(0, 1).flatten(1)  # (d, h d_v)
    w_o = layer.w_o.flatten(0, 1)  # (h d_v, d)
    v = t.reshape(*batch, rows, d) @ w_v
    v = v.unflatten(-1, (h, d_v)).movedim(-2, -3)
    v = _signed(v, signs, n * m, s)
    y = p @ v.reshape(*batch, h, n, m * s * d_v)
    y = y.view(*batch, h, rows, d_v).movedim(-3, -2)
    y = y.reshape(*batch, rows, h * d_v) @ w_o
    return y.view(*batch, n, m, s, d)


def _signed(v: Tensor, signs: Tensor | None, rows: int, s: int) -> Tensor:
    """v (*batch, h, rows * s, width), each draw of each head times its sign."""
    if signs is None:
        return v
    v = v.unflatten(-2, (rows, s)) * signs[:, None, :, None]
    return v.flatten(-3, -2)


def _bias(x: Tensor, layers: Sequence[Layer], skip: bool) -> Tensor:
    """b <- [skip] b + b_O + sum_h W_O,h' (W_V,h' b + b_V,h) layer by layer, by
    P 1 = 1.
    """
    b = x.new_zeros(x.shape[-1])
    if not _biased(layers):
        return b
    for layer in layers:
        values = b @ layer.w_v
        if layer.b_v is not None:
            values = values + layer.b_v
        own = (values.unsqueeze(-2) @ layer.w_o).sum((0, 1))
        if layer.b_o is not None:
            own = own + layer.b_o
        b = b + own if skip else own
    return b


def _biased(layers: Sequence[Layer]) -> bool:
    return any(layer.b_v is not None or layer.b_o is not None for layer in layers)


def _attention(
    x, layers, attention, *, skip, check, mask, scale, normalizer
) -> Sequence[Tensor]:
    """The frozen P that the caller gave, checked, or those of the forward pass."""
    how = {"mask": mask, "scale": scale, "normalizer": normalizer}
    if attention is None:
        refuse_encoder(layers)
        _, attention = forward(
            x, layers, skip=skip, return_attention=True, check=check, **how
        )
        return attention
    usual = {"mask": None, "scale": None, "normalizer": "softmax"}
    asked = [name for name, value in how.items() if value is not usual[name]]
    require(
        not asked,
        f"give either attention or {', '.join(asked)}: given P are taken as they are",
    )
    check_attention(x, layers, attention, check=check)
    if check and _biased(layers):
        for number, p in enumerate(attention, 1):
            _check_rows(number, p)
    return attention


def check_attention(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    attention: Sequence[Tensor],
    *,
    check: bool = True,
) -> None:
    """Refuse attention matrices that are not those of this network on these tokens,
    and what check_network refuses.

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        attention: P of each layer, (*batch, h, n, n).
        check: also look for NaN and infinity.

    Raises:
        ValueError: that names the layer, what it got and what was needed.

    Cost: O(n d + h n^2) a layer with check, else O(L).
    Source: the hypotheses of the path decomposition.
    """
    check_network(x, layers, check=check)
    many = isinstance(attention, (list, tuple)) or torch.is_tensor(attention)
    got = len(attention) if many else type(attention).__name__
    require(
        got == len(layers),
        f"attention must hold one P a layer: {len(layers)}, got {got}",
    )
    *batch, n, _ = x.shape
    for number, (layer, p) in enumerate(zip(layers, attention), 1):
        name = f"attention of layer {number}"
        matches(name, p, (*batch, len(layer.w_q), n, n), x)
        if check:
            finite(**{name: p})


def _check_rows(number: int, p: Tensor) -> None:
    """The rows of P sum to one, up to rounding."""
    row_sums = p.detach().sum(-1, dtype=torch.float64)
    off = float((row_sums - 1).abs().max())
    eps = torch.finfo(p.dtype).eps
    rounding = (16 + p.shape[-1] / 64) * eps
    require(
        off <= min(rounding, 0.01),
        f"attention of layer {number}: rows must sum to one (P 1 = 1) when there are "
        f"biases; off by {off:.1e}",
    )


def _check_path(layers: Sequence[Layer], path: Path) -> None:
    got = len(path) if isinstance(path, (list, tuple)) else path
    require(
        got == len(layers), f"a path has one entry a layer: {len(layers)}, got {got!r}"
    )
    for layer, h in zip(layers, path):
        heads = layer.w_q.shape[0]
        require(
            h is None or (type(h) is int and 0 <= h < heads),
            f"path {path}: head {h} of {heads} (indices start at 0)",
        )
