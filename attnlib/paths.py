"""Path decomposition: single paths, exact sums of all paths by length, norms of all
paths.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from attnlib._require import finite, matches, require
from attnlib.attention import Layer, check_network, forward

Path = tuple[int | None, ...]


class PathSums(NamedTuple):
    """The output of a network, sorted by how many heads a path passes.

        forward(X) = sum_k by_length[k] + 1 bias'

    Args:
        by_length: (L + 1, *batch, n, d), entry k is the sum of all paths of length k.
        bias: (d,), the row that all biases add to every token.

    Claim:
        paths.sums

    Page:
        notebooks/path_decomposition/paths
    """

    by_length: Tensor
    bias: Tensor


class PathNorms(NamedTuple):
    """Estimates of the squared norms of all paths, added up by length.

    Args:
        total_square: (L + 1, *batch), estimate of the sum of |path|_F^2 over the paths
            of length k; divided by path_counts it is the mean square of one path.
        standard_error: (L + 1, *batch), of that estimate.

    Claim:
        paths.signs

    Page:
        notebooks/path_decomposition/paths
    """

    total_square: Tensor
    standard_error: Tensor


def path_counts(heads: Sequence[int], *, skip: bool = False) -> list[int]:
    """How many paths of each length a network has.

        sum_k count_k z^k = prod_l ([skip] + H_l z)      with H heads everywhere: binom(L, k) H^k

    Args:
        heads: number of heads of each layer, first layer first.
        skip: layers may be skipped.

    Returns:
        L + 1 Python integers, exact at any size.

    Raises:
        ValueError: for no layers or a layer without heads.

    Cost:
        O(L^2) integer operations.

    Source:
        Xie 2021, remark after Theorem 2.1 (the total); Dong et al. 2021 (the
        distribution).

    Claim:
        paths.lengths

    Page:
        notebooks/path_decomposition/paths
    """
    require(len(heads) >= 1, "a network needs at least one layer, got none")
    require(min(heads) >= 1, f"every layer needs at least one head, got {list(heads)}")
    counts = [1]
    for h in heads:
        stay = [*counts, 0] if skip else [0] * (len(counts) + 1)
        counts = [s + h * c for s, c in zip(stay, [0, *counts])]
    return counts


def path_term(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    path: Path,
    attention: Sequence[Tensor],
) -> Float[Tensor, "*batch n d"]:
    """The contribution of one path, the formula as it stands.

        P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L}      a skipped layer leaves both products alone

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        path: one head index a layer, None = skip.
        attention: P of the full forward pass, (*batch, h, n, n) a layer.

    Returns:
        (*batch, n, d).

    Raises:
        ValueError: if the path names a head that is not there or has not L entries, or
            P do not fit.

    Cost:
        O(L (n^2 d + n d^2 + d^2 d_v)).

    Source:
        Dong et al. 2021, path decomposition; Xie 2021, Theorem 2.1.

    Claim:
        paths.decomposition

    Page:
        notebooks/path_decomposition/paths
    """
    _check_path(layers, path)
    _check_shapes(x, layers, attention)
    return _term(x, layers, path, attention)


def _term(
    x: Tensor, layers: Sequence[Layer], path: Path, attention: Sequence[Tensor]
) -> Tensor:
    for layer, p, h in zip(layers, attention, path):
        if h is None:
            continue
        x = p[..., h, :, :] @ x @ (layer.w_v[h] @ layer.w_o[h])
    return x


def path_terms(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    limit: int = 10**6,
    attention: Sequence[Tensor] | None = None,
    **how,
) -> Iterator[tuple[Path, Tensor]]:
    """Every path with its contribution, one by one: the literal twin of path_sums.

        forward(X) = sum over paths of term + 1 bias'

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        skip: count the skip as one more head.
        limit: largest number of paths to list.
        attention: frozen P, None for those of forward.
        how: mask, scale, normalizer of that forward pass.

    Returns:
        iterator over (path, term); path: one head a layer, first layer first, None =
        skip.

    Raises:
        ValueError: at the call for more than `limit` paths, and as in path_sums.

    Cost:
        (H + 1)^L path_terms.

    Source:
        Dong et al. 2021; Xie 2021, Theorem 2.1.

    Claim:
        paths.decomposition

    Page:
        notebooks/path_decomposition/paths
    """
    attention = _attention(x, layers, attention, skip=skip, **how)
    total = sum(path_counts([layer.w_q.shape[0] for layer in layers], skip=skip))
    require(
        total <= limit,
        f"there are {total:,} paths, more than limit = {limit:,}: path_sums gives their sums by length exactly",
    )
    choices = [
        [*([None] if skip else []), *range(layer.w_q.shape[0])] for layer in layers
    ]
    return (
        (path, _term(x, layers, path, attention))
        for path in itertools.product(*choices)
    )


def restrict(layers: Sequence[Layer], path: Path) -> list[Layer]:
    """The network that keeps only the heads of one path, and so computes its own
    attention.

    Args:
        layers: L Layers.
        path: one head a layer, None drops the layer.

    Returns:
        list of Layers with one head each; empty for the path that skips all layers.

    Raises:
        ValueError: if the path has not L entries or names a head that is not there.

    Cost:
        O(1): views.

    Source:
        the evaluation of paths in the public code of Dong et al. 2021; NOT a term of
        the theorem.

    Claim:
        paths.recomputed

    Page:
        notebooks/path_decomposition/paths
    """
    _check_path(layers, path)
    return [
        Layer(
            *(
                None if w is None else w if name == "b_o" else w[h : h + 1]
                for name, w in layer._asdict().items()
            )
        )
        for layer, h in zip(layers, path)
        if h is not None
    ]


def path_sums(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    attention: Sequence[Tensor] | None = None,
    check: bool = True,
    **how,
) -> PathSums:
    """The exact sum of all paths of each length, without listing a path.

        S_k <- [skip] S_k + sum_h P_h S_{k-1} W_h      layer by layer, from S_0 = X

    Args:
        x: (*batch, n, d).
        layers: L Layers; the number of heads may differ by layer.
        skip: as in forward.
        attention: frozen P, (*batch, h, n, n) a layer; None for those of forward with
            the same skip.
        check: look for NaN and infinity and, where there are biases, for rows of P that
            do not sum to one.
        how: mask, scale, normalizer of the forward pass.

    Returns:
        PathSums(by_length (L + 1, *batch, n, d), bias (d,)).

    Raises:
        ValueError: as forward; and if given P do not fit, or there are biases and P 1
            != 1.

    Cost:
        (L + 1)/2 times the products of a forward pass with skips, one forward without;
        O(L n d) memory beside the P, O(L h n^2).

    Source:
        the coefficients in z of a forward pass whose head outputs are multiplied by z.

    Claim:
        paths.sums

    Page:
        notebooks/path_decomposition/paths
    """
    attention = _attention(x, layers, attention, skip=skip, check=check, **how)
    t = x[
        ..., :, None, None, :
    ]  # (*batch, n, lengths, signs, d): only the empty path so far
    for layer, p in zip(layers, attention):
        t = _step(t, layer, p, skip)
    by_length = t.squeeze(-2).movedim(-2, 0)
    by_length = (
        by_length if skip else pad(by_length, (0, 0) * x.dim() + (len(layers), 0))
    )
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
    **how,
) -> PathNorms:
    """How large the paths of each length are, all of them at once, by random signs.

        E | sum over paths of length k of (product of the signs of its heads) path |_F^2 = sum |path|_F^2

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        signs: number of draws, at least 2; a draw gives every (layer, head) a sign.
        generator: source of the signs.
        skip, attention, check, how: as in path_sums.
        centred: subtract the token mean of each path first.

    Returns:
        PathNorms(total_square, standard_error), each (L + 1, *batch); unbiased for
        every k. The draws have a heavy right tail for long paths: use hundreds before
        trusting the standard error.

    Raises:
        ValueError: if signs < 2, and as path_sums.

    Cost:
        `signs` times the products and the memory of path_sums, P computed once.

    Source:
        Rademacher signs cancel the cross terms of different paths in expectation.

    Claim:
        paths.signs

    Page:
        notebooks/path_decomposition/paths
    """
    require(
        signs >= 2, f"a standard error needs at least 2 draws of signs, got {signs}"
    )
    attention = _attention(x, layers, attention, skip=skip, check=check, **how)
    t = x[..., :, None, None, :].expand(*x.shape[:-1], 1, signs, x.shape[-1])
    for layer, p in zip(layers, attention):
        coins = torch.randint(
            2, (layer.w_q.shape[0], signs), generator=generator, device=generator.device
        )
        t = _step(t, layer, p, skip, (2 * coins - 1).to(x))
    t = t - t.mean(-4, keepdim=True) if centred else t
    squares = (
        t.square().sum((-4, -1)).movedim((-2, -1), (0, 1))
    )  # (lengths, signs, *batch)
    squares = (
        squares
        if skip
        else torch.cat([torch.zeros_like(squares)] * len(layers) + [squares])
    )
    return PathNorms(squares.mean(1), squares.std(1) / math.sqrt(signs))


def _step(
    t: Tensor, layer: Layer, p: Tensor, skip: bool, signs: Tensor | None = None
) -> Tensor:
    """One layer of the recursion on t (*batch, n, m, s, d); signs (h, s) multiply the
    head outputs.

    All lengths and draws lie side by side as features, so that each layer is two or
    three large products.
    """
    *batch, n, m, s, d = t.shape
    h, _, d_v = layer.w_v.shape
    if d_v >= d:  # one product with W_h = W_V W_O costs less than two
        v = t.reshape(*batch, 1, n * m * s, d) @ (layer.w_v @ layer.w_o)
    else:
        v = t.reshape(*batch, n * m * s, d) @ layer.w_v.movedim(0, 1).flatten(
            1
        )  # all heads in one product
        v = v.unflatten(-1, (h, d_v)).movedim(-2, -3)
    if signs is not None:  # v is (*batch, h, n m s, d or d_v)
        v = (v.unflatten(-2, (n * m, s)) * signs[:, None, :, None]).flatten(-3, -2)
    if d_v >= d:  # sum_h P_h V_h = [P_1 ... P_h] [V_1; ...; V_h]
        y = p.transpose(-3, -2).reshape(*batch, n, h * n) @ v.reshape(
            *batch, h * n, m * s * d
        )
    else:
        y = (p @ v.reshape(*batch, h, n, m * s * d_v)).view(*batch, h, n * m * s, d_v)
        y = y.transpose(-3, -2).reshape(*batch, n * m * s, h * d_v) @ layer.w_o.flatten(
            0, 1
        )
    y = y.view(*batch, n, m, s, d)
    if not skip:
        return y
    return pad(t, (0, 0, 0, 0, 0, 1)) + pad(y, (0, 0, 0, 0, 1, 0))


def _bias(x: Tensor, layers: Sequence[Layer], skip: bool) -> Tensor:
    """b <- [skip] b + b_O + sum_h W_O,h' (W_V,h' b + b_V,h) layer by layer, by P 1 =
    1.
    """
    b = x.new_zeros(x.shape[-1])
    if not _biased(layers):
        return b
    for layer in layers:
        values = b @ layer.w_v if layer.b_v is None else b @ layer.w_v + layer.b_v
        own = (values.unsqueeze(-2) @ layer.w_o).sum((0, 1))
        own = own if layer.b_o is None else own + layer.b_o
        b = b + own if skip else own
    return b


def _biased(layers: Sequence[Layer]) -> bool:
    return any(layer.b_v is not None or layer.b_o is not None for layer in layers)


def _attention(
    x, layers, attention, *, skip: bool, check: bool = True, **how
) -> Sequence[Tensor]:
    """The frozen P that the caller gave, checked, or those of the forward pass."""
    if attention is None:
        return forward(x, layers, skip=skip, return_attention=True, check=check, **how)[
            1
        ]
    require(
        not how,
        f"give either attention or {', '.join(how)}: given P are taken as they are",
    )
    check_network(x, layers, check=check)
    _check_shapes(x, layers, attention)
    for number, p in enumerate(attention if check else [], 1):
        finite(**{f"attention of layer {number}": p})
        off = float((p.detach().sum(-1, dtype=torch.float64) - 1).abs().max())
        tolerance = min(
            (16 + p.shape[-1] / 64) * torch.finfo(p.dtype).eps, 0.01
        )  # of a softmax, with room
        require(
            off <= tolerance or not _biased(layers),
            f"attention of layer {number}: rows must sum to one (P 1 = 1) when there are biases; off by {off:.1e}",
        )
    return attention


def _check_shapes(
    x: Tensor, layers: Sequence[Layer], attention: Sequence[Tensor]
) -> None:
    require(
        len(attention) == len(layers),
        f"attention must hold one P a layer: {len(layers)}, got {len(attention)}",
    )
    for number, (layer, p) in enumerate(zip(layers, attention), 1):
        size = (*x.shape[:-2], layer.w_q.shape[0], x.shape[-2], x.shape[-2])
        matches(f"attention of layer {number}", p, size, x)


def _check_path(layers: Sequence[Layer], path: Path) -> None:
    require(
        len(path) == len(layers),
        f"a path has one entry a layer: {len(layers)}, got {len(path)}",
    )
    for layer, h in zip(layers, path):
        heads = layer.w_q.shape[0]
        require(
            h is None or 0 <= h < heads,
            f"path {path}: head {h} of {heads} (indices start at 0)",
        )
