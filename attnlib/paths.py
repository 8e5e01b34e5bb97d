"""Paths of a network of attention layers: one path, the sums of all paths by length,
their norms.

    one path   P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L},   W_h = W_V,h W_O,h
    all paths  S_k <- [skip] S_k + sum_h P_h S_{k-1} W_h   layer by layer, from S_0 = X
    together   forward(X) = sum_k S_k + 1 b'

A path chooses one head in each layer, or skips it: a tuple of integers and None. The
matrices P are those of the full forward pass. `path_term` and `path_terms` are the
literal form; `path_sums` carries one state for each length and lists nothing.

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
from attnlib.attention import Layer, check_network, forward

Path = tuple[int | None, ...]
_MOST_PATHS = 10**6  # that path_terms lists


def path_term(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    path: Path,
    attention: Sequence[Tensor],
) -> Float[Tensor, "*batch n d"]:
    """The contribution of one path, the formula as it stands.

        P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L}

    Args:
        path: one head a layer, None for a layer that is skipped: it leaves out its two
            factors.
        attention: P of the full forward pass, (*batch, h, n, n) a layer.

    Source: Dong et al. 2021, path decomposition; Xie 2021, Theorem 2.1.
    Claim: paths.decomposition
    """
    _check_attention(x, layers, attention)
    _check_path(layers, path)
    return _term(x, layers, path, attention)


def _term(
    x: Tensor, layers: Sequence[Layer], path: Path, attention: Sequence[Tensor]
) -> Tensor:
    for layer, p, h in zip(layers, attention, path):
        if h is not None:
            w = layer.w_v[h] @ layer.w_o[h]
            x = p[..., h, :, :] @ x @ w
    return x


def path_terms(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    attention: Sequence[Tensor] | None = None,
) -> Iterator[tuple[Path, Tensor]]:
    """Every path with its contribution, one by one: the literal twin of path_sums, for
    at most a million paths.

        forward(X) = sum over paths of term + 1 bias'

    Args:
        skip: a path may leave out layers.
        attention: P of each layer, None for those of forward with the same skip.

    Returns:
        iterator over (path, term).

    Source: Dong et al. 2021; Xie 2021, Theorem 2.1.
    Claim: paths.decomposition
    """
    attention = _frozen(x, layers, attention, skip=skip)
    heads = [len(layer.w_q) for layer in layers]
    total = sum(path_counts(heads, skip=skip))
    require(
        total <= _MOST_PATHS,
        f"layers have {total:,} paths, more than {_MOST_PATHS:,}: "
        "path_sums gives their sums by length exactly",
    )
    around = [None] if skip else []
    ways = [around + list(range(h)) for h in heads]
    paths = itertools.product(*ways)
    return ((path, _term(x, layers, path, attention)) for path in paths)


class PathSums(NamedTuple):
    """The output of a network, by how many heads a path passes.

        forward(X) = sum_k by_length[k] + 1 bias'

    Args:
        by_length: (L + 1, *batch, n, d), entry k is the sum of all paths of length k.
        bias: (d,), the row that all biases add to every token.

    Claim: paths.sums
    """

    by_length: Tensor
    bias: Tensor


def path_sums(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    skip: bool = False,
    attention: Sequence[Tensor] | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    check: bool = True,
) -> PathSums:
    """The exact sum of all paths of each length, without listing a path.

        S_k <- [skip] S_k + sum_h P_h S_{k-1} W_h      layer by layer, from S_0 = X

    A feed-forward part or a LayerNorm between the layers ends the expansion.

    Args:
        layers: the number of heads may differ by layer.
        skip: each layer adds its input to its output.
        attention: P of each layer, (*batch, h, n, n), such as forward returns for any
            scale and normalizer; None for those of forward with the same skip and mask.
        mask: as in forward, only without `attention`.
        check: look for NaN and infinity and, where there are biases, for rows of P that
            do not sum to one.

    Cost: (L + 1)/2 times the products of a forward pass with skips, one forward
        without; O(L n d) memory beside the P, O(L h n^2).
    Source: the coefficients in z of a forward pass whose head outputs are multiplied by
        z.
    Claim: paths.sums
    """
    attention = _frozen(x, layers, attention, skip=skip, mask=mask, check=check)
    by_length = _by_length(x, layers, attention, skip)
    return PathSums(by_length[:, 0], _bias(x, layers, skip))


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


def path_norms(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    signs: int,
    generator: torch.Generator,
    skip: bool = False,
    centred: bool = False,
    attention: Sequence[Tensor] | None = None,
    mask: Bool[Tensor, "..."] | None = None,
) -> PathNorms:
    """How large the paths of each length are, all of them at once, by random signs.

        E | sum over paths of length k of (product of its signs) path |_F^2
            = sum over paths of length k of | path |_F^2

    Unbiased for every k. The draws have a heavy right tail for long paths: use hundreds
    before trusting the standard error.

    Args:
        signs: draws, at least 2; a draw gives every head of every layer a sign.
        centred: subtract the token mean of each path first.
        skip, attention, mask: as in path_sums.

    Cost: `signs` times the products and the memory of path_sums, P computed once.
    Source: Rademacher signs cancel the cross terms of different paths in expectation.
    Claim: paths.signs
    """
    _require.is_a(bool, centred=centred)
    _require.sizes(2, signs=signs)  # one draw has no standard error
    _require.random(generator)
    attention = _frozen(x, layers, attention, skip=skip, mask=mask)
    drawn = []
    for layer in layers:
        size = (len(layer.w_q), signs)
        coins = torch.randint(2, size, generator=generator, device=generator.device)
        drawn.append((2 * coins - 1).to(x))
    sums = _by_length(x, layers, attention, skip, drawn)
    if centred:
        sums = sums - sums.mean(-2, keepdim=True)
    squares = sums.square().sum((-2, -1))
    standard_error = squares.std(1) / math.sqrt(signs)
    return PathNorms(squares.mean(1), standard_error)


def _by_length(
    x: Tensor,
    layers: Sequence[Layer],
    attention: Sequence[Tensor],
    skip: bool,
    signs: Sequence[Tensor] | None = None,
) -> Tensor:
    """The sums of all paths, (L + 1, draws, *batch, n, d): for each length, and for
    each draw of signs (h, draws) a layer that multiply the head outputs.

    Lengths and draws lie side by side as features, so that a layer is three large
    products.
    """
    t = x[..., None, None, :]  # (*batch, n, lengths, draws, d)
    for number, (layer, p) in enumerate(zip(layers, attention)):
        h, _, d_v = layer.w_v.shape
        w_v = layer.w_v.movedim(0, 1).flatten(1)  # (d, h d_v)
        v = (t @ w_v).unflatten(-1, (h, d_v))
        v = v.movedim(-2, -5)  # (*batch, h, n, lengths, draws, d_v)
        if signs is not None:
            v = v * signs[number][:, None, None, :, None]
        y = p @ v.flatten(-3)
        y = y.unflatten(-1, v.shape[-3:]).movedim(-5, -2)
        y = y.flatten(-2) @ layer.w_o.flatten(0, 1)
        if skip:
            stays = pad(t, (0, 0, 0, 0, 0, 1))
            one_longer = pad(y, (0, 0, 0, 0, 1, 0))
            y = stays + one_longer
        t = y
    sums = t.movedim((-3, -2), (0, 1))
    if skip:
        return sums
    # Only length L was carried: the other lengths have no path.
    nothing = torch.zeros_like(sums)
    return torch.cat([nothing] * len(layers) + [sums])


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


def path_counts(heads: Sequence[int], *, skip: bool = False) -> list[int]:
    """How many paths of each length a network has.

        sum_k count_k z^k = prod_l ([skip] + H_l z)

    With H heads in every layer and skips that is binom(L, k) H^k.

    Args:
        heads: number of heads of each layer, first layer first.
        skip: layers may be skipped.

    Returns:
        L + 1 Python integers, exact at any size.

    Source: Xie 2021, remark after Theorem 2.1 (the total); Dong et al. 2021 (the
        distribution).
    Claim: paths.lengths
    """
    _require.is_a(bool, skip=skip)
    _require.is_list(heads=heads)
    require(heads, "heads must hold a number for at least one layer, got none")
    for number, h in enumerate(heads, 1):
        _require.sizes(1, **{f"heads of layer {number}": h})
    counts = [1]
    for h in heads:
        through_a_head = [0] + [h * count for count in counts]
        around = counts + [0] if skip else [0] * (len(counts) + 1)
        counts = [a + b for a, b in zip(around, through_a_head)]
    return counts


def restrict(layers: Sequence[Layer], path: Path) -> list[Layer]:
    """The network that keeps only the heads of one path, and so computes its own
    attention.

    Args:
        path: one head a layer, None drops the layer.

    Returns:
        Layers with one head each, as views; none for the path that skips all layers.

    Source: the evaluation of paths in the public code of Dong et al. 2021; NOT a term
        of the theorem.
    Claim: paths.recomputed
    """
    check_layers(layers)
    _check_path(layers, path)
    kept = []
    for layer, h in zip(layers, path):
        if h is None:
            continue
        weights = layer._asdict()
        for name, w in weights.items():
            if w is not None and name != "b_o":  # which belongs to no head, and stays
                weights[name] = w[h : h + 1]
        kept.append(Layer(**weights))
    return kept


def _frozen(
    x, layers, attention, *, skip: bool, mask=None, check: bool = True
) -> Sequence[Tensor]:
    """The P that the caller gave, checked, or those of the forward pass."""
    _require.is_a(bool, skip=skip)
    if attention is None:
        refuse_encoder(layers)
        how = {"skip": skip, "mask": mask, "check": check}
        return forward(x, layers, return_attention=True, **how)[1]
    require(
        mask is None, "give either attention or mask: given P are taken as they are"
    )
    _check_attention(x, layers, attention, check=check)
    if check and _biased(layers):
        for number, p in enumerate(attention, 1):
            _check_rows(number, p)
    return attention


def _check_attention(x, layers, attention, *, check: bool = True) -> None:
    """The P are of the sizes of this network on these tokens; with check, finite."""
    check_network(x, layers, check=check)
    many = isinstance(attention, list | tuple) or torch.is_tensor(attention)
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
    got = len(path) if isinstance(path, list | tuple) else path
    require(
        got == len(layers), f"a path has one entry a layer: {len(layers)}, got {got!r}"
    )
    for layer, h in zip(layers, path):
        heads = len(layer.w_q)
        require(
            h is None or (type(h) is int and 0 <= h < heads),
            f"path {path}: head {h} of {heads} (indices start at 0)",
        )
