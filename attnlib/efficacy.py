"""Path efficacy: what the paths of one length do in a trained network, all of them,
some of them, or rerun alone.

Page: notebooks/path_decomposition/path_efficacy
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from attnlib import _require
from attnlib._require import (
    finite,
    is_floating,
    is_tensor,
    matches,
    require,
    same_device,
    tokens,
)
from attnlib.attention import Layer, check_network, forward, random_layers
from attnlib.paths import (
    Path,
    check_attention,
    path_counts,
    path_sums,
    path_term,
    restrict,
)


class Reader(NamedTuple):
    """A network with skips between a linear embedding and a linear readout, and nothing
    else.

        logits(U) = forward(U E + B) R + 1 r'

    Args:
        embed: (f, d).
        position: (n, d), or (1, d) when tokens have no order.
        layers: L Layers.
        readout: (d, c).
        bias: (c,).
    """

    embed: Tensor
    position: Tensor
    layers: list[Layer]
    readout: Tensor
    bias: Tensor


class Parts(NamedTuple):
    """The logits of a Reader, sorted by how many heads a path passes.

        logits = sum_k by_length[k] + constant

    Args:
        by_length: (L + 1, *batch, n, c).
        constant: (c,), what all biases give together.

    Claim: efficacy.margins
    """

    by_length: Tensor
    constant: Tensor


def random_reader(
    f: int,
    c: int,
    *,
    L: int,
    h: int,
    d: int,
    n: int = 1,
    generator: torch.Generator,
    gain: float = 0.5,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Reader:
    """A Reader before training.

        E, B ~ N(0, 1),   R ~ N(0, 1 / d),   r = 0,
        layers of random_layers with biases set to zero

    Args:
        f, c: features of a token, classes.
        L, h, d: layers, heads, width; d_qk = d_v = d / h.
        n: positions to learn, 1 for none.
        generator: source of the weights.
        gain: of random_layers.
        dtype, device: of the weights.

    Returns:
        Reader.

    Raises:
        ValueError: if h does not divide d, and as random_layers.

    Cost: O(L d^2).
    Source: not taken from a paper.
    """
    _require.sizes(1, f=f, c=c, h=h, d=d, n=n)
    require(
        d % h == 0,
        f"the width must be a multiple of the number of heads, got d = {d}, h = {h}",
    )
    how = {"gain": gain, "generator": generator, "dtype": dtype, "device": device}
    layers = [
        layer._replace(
            b_q=torch.zeros_like(layer.b_q),
            b_k=torch.zeros_like(layer.b_k),
            b_v=torch.zeros_like(layer.b_v),
            b_o=torch.zeros_like(layer.b_o),
        )
        for layer in random_layers(L, h, d, d // h, bias=True, **how)
    ]

    def draw(*size):
        return torch.randn(
            *size, generator=generator, dtype=torch.float64, device=generator.device
        )

    embed = draw(f, d)
    position = draw(n, d)
    readout = draw(d, c) / math.sqrt(d)
    return Reader(
        embed.to(device, dtype),
        position.to(device, dtype),
        layers,
        readout.to(device, dtype),
        torch.zeros(c, dtype=dtype, device=device),
    )


def logits(
    reader: Reader, u: Float[Tensor, "*batch n f"]
) -> Float[Tensor, "*batch n c"]:
    """What the whole network says.

        forward(U E + B) R + 1 r'

    Args:
        reader: a Reader.
        u: (*batch, n, f), features of the tokens.

    Returns:
        (*batch, n, c).

    Raises:
        ValueError: if u does not fit the reader (other features, or another number of
            tokens than the positions), and as forward.

    Cost: one forward pass.
    Source: the networks of Dong et al. 2021 without LayerNorm, so that the
        decomposition is exact.
    """
    _check_reader(reader, u)
    return _logits(reader, u, check=True)


def _logits(reader: Reader, u: Tensor, *, check: bool) -> Tensor:
    y = forward(_embedded(reader, u), reader.layers, skip=True, check=check)
    return y @ reader.readout + reader.bias


def _embedded(reader: Reader, u: Tensor) -> Tensor:
    return u @ reader.embed + reader.position


def _check_reader(reader: Reader, u: Tensor) -> None:
    """What stands around the layers of the Reader fits the tokens u, and is finite."""
    got = type(reader).__name__
    require(isinstance(reader, Reader), f"reader must be a Reader, got {got}")
    tokens(u, "u")
    is_tensor("readout", reader.readout)
    is_tensor("position", reader.position)
    require(
        reader.readout.dim() == 2,
        f"readout must be (d, c), got {tuple(reader.readout.shape)}",
    )
    d, c = reader.readout.shape
    n, f = u.shape[-2:]
    ordered = reader.position.shape != (1, d)
    matches("embed", reader.embed, (f, d), u, "u")
    matches("position", reader.position, (n, d) if ordered else (1, d), u, "u")
    matches("readout", reader.readout, (d, c), u, "u")
    matches("bias", reader.bias, (c,), u, "u")
    weights = reader._asdict()
    del weights["layers"]
    finite(u=u, **weights)


def logit_parts(reader: Reader, u: Float[Tensor, "*batch n f"]) -> Parts:
    """The logits as a sum over path lengths and a constant, with the attention of the
    full pass.

        by_length[k] = S_k R,   constant = R' b + r

    Args:
        reader: a Reader.
        u: (*batch, n, f).

    Returns:
        Parts(by_length (L + 1, *batch, n, c), constant (c,)).

    Raises:
        ValueError: as logits.

    Cost: that of path_sums.
    Source: path_sums, read by the readout.
    Claim: efficacy.margins
    """
    _check_reader(reader, u)
    sums = path_sums(_embedded(reader, u), reader.layers, skip=True)
    constant = sums.bias @ reader.readout + reader.bias
    return Parts(sums.by_length @ reader.readout, constant)


def accuracy(
    scores: Float[Tensor, "*rest c"], labels: Int[Tensor, "..."]
) -> Float[Tensor, "*more"]:
    """The share of tokens whose largest score stands at their label.

    Args:
        scores: (*more, *batch, n, c).
        labels: (*batch, n), integers.

    Returns:
        (*more,), between 0 and 1.

    Raises:
        ValueError: if the labels are no integers from 0 to c - 1 or do not fit the last
            dimensions of the scores, or a largest score is NaN or infinite.

    Cost: O(entries).
    Source: the definition.
    """
    is_floating("scores", scores)
    _check_integers(labels, scores, "scores")
    last = scores.shape[-1 - labels.dim() : -1]
    require(
        scores.dim() > labels.dim() >= 1 and last == labels.shape,
        f"labels {tuple(labels.shape)} must be the last dimensions of the scores "
        f"before c, got {tuple(scores.shape)}",
    )
    _check_classes(labels, scores.shape[-1])
    finite(scores=scores.amax(-1))  # NaN would count as the largest
    right = (scores.argmax(-1) == labels).to(scores.dtype)
    more = right.dim() - labels.dim()
    return right.flatten(more).mean(-1)


def _check_classes(labels: Tensor, classes: int) -> None:
    """Each label is one of so many classes."""
    require(
        bool(((labels >= 0) & (labels < classes)).all()),
        f"labels must be from 0 to {classes - 1}, the classes of the scores",
    )


def _check_integers(labels, like: Tensor, like_name: str) -> None:
    is_tensor("labels", labels)
    same_device("labels", labels, like.device, like_name)
    whole = not (labels.is_floating_point() or labels.is_complex())
    require(
        whole and labels.dtype != torch.bool,
        f"labels must be integers, got {labels.dtype}",
    )


def sorting(
    count: int, *, n: int = 8, letters: int = 10, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Words of random letters, and the same letters in alphabetical order.

    Args:
        count: words.
        n: letters of a word, drawn independently.
        letters: of the alphabet.
        generator: source of the words.

    Returns:
        features (count, n, letters), float32, one 1 a token; labels (count, n): the
        letter that belongs there.

    Raises:
        ValueError: for a size that is no integer of at least one, or no generator.

    Cost: O(count n letters).
    Source: Dong et al. 2021, public code: 8 of 10 letters, repeats allowed.
    """
    _require.sizes(1, count=count, n=n, letters=letters)
    _require.random(generator)
    words = torch.randint(
        letters, (count, n), generator=generator, device=generator.device
    )
    features = torch.nn.functional.one_hot(words, letters).float()
    return features, words.sort(-1).values


def hull_labels(points: Float[Tensor, "*batch n 2"]) -> Int[Tensor, "*batch n"]:
    """Which points are corners of the convex hull: 1 for a corner, 0 for a point
    inside.

    A point is a corner if the directions to all others leave a gap wider than a half
    turn.

    Args:
        points: (*batch, n, 2), in general position, n >= 2.

    Returns:
        (*batch, n), int64.

    Raises:
        ValueError: for fewer than two points, points of a space that is no plane, NaN
            or infinity.

    Cost: O(n^2 log n).
    Source: the definition of an extreme point in the plane.
    """
    tokens(points, "points")
    n, width = points.shape[-2:]
    require(
        n >= 2 and width == 2,
        f"points must be (*batch, n, 2) with n >= 2, got {tuple(points.shape)}",
    )
    finite(points=points)
    same = torch.eye(n, dtype=torch.bool, device=points.device)
    away = points.unsqueeze(-3) - points.unsqueeze(-2)
    away = away[..., ~same, :].unflatten(-2, (n, n - 1))
    angles = torch.atan2(away[..., 1], away[..., 0]).sort(-1).values
    once_around = angles[..., :1] + 2 * math.pi
    gaps = torch.cat([angles, once_around], -1).diff(dim=-1)
    return (gaps.amax(-1) > math.pi).long()


def draw_paths(
    heads: Sequence[int], length: int, count: int, *, generator: torch.Generator
) -> list[Path]:
    """Paths of one length, drawn uniformly and independently, so that one may come
    twice.

    Args:
        heads: number of heads of each layer, all equal.
        length: heads that a path passes.
        count: how many.
        generator: source of randomness.

    Returns:
        list of `count` paths, one head a layer, None = skip.

    Raises:
        ValueError: for a length outside 0..L, layers with different numbers of heads,
            a size that is no integer, or no generator.

    Cost: O(count L).
    Source: Dong et al. 2021, public code: random layers, then a random head in each.
    """
    path_counts(heads)  # refuses what are no numbers of heads
    require(
        len(set(heads)) == 1,
        "layers must have equal numbers of heads (else the draw is not uniform), "
        f"got {list(heads)}",
    )
    _require.sizes(0, length=length)
    _require.sizes(1, count=count)
    _require.random(generator)
    L = len(heads)
    require(length <= L, f"length must be from 0 to L = {L}, got {length}")
    paths = []
    for _ in range(count):
        taken = torch.randperm(L, generator=generator, device=generator.device)[:length]
        head = torch.randint(
            heads[0], (L,), generator=generator, device=generator.device
        )
        path = [None] * L
        for l in taken.tolist():
            path[l] = int(head[l])
        paths.append(tuple(path))
    return paths


def restricted_forward(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    path: Path,
    *,
    attention: Sequence[Tensor] | None = None,
    check: bool = True,
) -> Float[Tensor, "*batch n d"]:
    """What comes out if only the heads of one path are left, without value and output
    biases.

        X <- P X W_h   layer by layer;
        P frozen if given, else that of the state which the path itself has reached

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        path: one head a layer, None = skip.
        attention: P of the full forward pass, (*batch, h, n, n) a layer; None:
            recomputed along the path.
        check: look for NaN and infinity.

    Returns:
        (*batch, n, d). With frozen P it is the term of the path; recomputed it is not.

    Raises:
        ValueError: as path_term.

    Cost: O(length (n^2 d + n d d_v)).
    Source: recomputed: the public code of Dong et al. 2021; differs: no LayerNorm after
        a layer, no biases b_V, b_O.
    Claim: efficacy.first-order
    """
    if attention is not None:
        return path_term(x, layers, path, attention, check=check)
    check_network(x, layers, check=check)
    bare = [layer._replace(b_v=None, b_o=None) for layer in restrict(layers, path)]
    return forward(x, bare, check=False) if bare else x


def estimate_length(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    paths: Sequence[Path],
    *,
    attention: Sequence[Tensor] | None = None,
) -> Float[Tensor, "*batch n d"]:
    """The sum of all paths of one length, estimated from some of them.

        (N_k / m) sum of the m paths,   N_k = binom(L, k) H^k

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        paths: m paths of one length, as from draw_paths.
        attention: as in restricted_forward.

    Returns:
        (*batch, n, d); with frozen P and uniform paths right on average.

    Raises:
        ValueError: for no paths or paths of several lengths, and as path_term.

    Cost: m times restricted_forward.
    Source: the mean of uniform draws; the public code of Dong et al. 2021 adds them and
        normalises the sum.
    """
    if attention is None:
        check_network(x, layers)
    else:
        check_attention(x, layers, attention)
    require(
        isinstance(paths, (list, tuple)),
        f"paths must be a list of paths, got {type(paths).__name__}",
    )
    lengths = {len(restrict(layers, path)) for path in paths}
    require(
        len(lengths) == 1,
        f"paths must be at least one, and of one length, got lengths {sorted(lengths)}",
    )
    how = {"attention": attention, "check": False}
    total = sum(restricted_forward(x, layers, path, **how) for path in paths)
    heads = [len(layer.w_q) for layer in layers]
    counts = path_counts(heads, skip=True)
    count = counts[lengths.pop()]
    return total * (count / len(paths))


@_require.own_precision
def length_bounds(
    x: Float[Tensor, "*batch n d"],
    layers: Sequence[Layer],
    *,
    attention: Sequence[Tensor] | None = None,
) -> Float[Tensor, "lengths *batch"]:
    """How large the sum of all paths of each length can be at most.

        |S_k|_F <= e_k(s_1, ..., s_L) |X|_F,   s_l = sum_h |P^l_h|_2 |W^l_h|_2,
        e_k elementary symmetric

    Args:
        x: (*batch, n, d).
        layers: L Layers.
        attention: P of the full forward pass with skips, None: computed.

    Returns:
        (L + 1, *batch).

    Raises:
        ValueError: as forward, for float16 and bfloat16, or if attention does not have
            one P for each head.

    Cost: the singular values of every P and W.
    Source: not taken from a paper.
    Claim: efficacy.weight
    """
    check_network(x, layers)
    _require.two_norms(x)
    if attention is None:
        attention = forward(x, layers, skip=True, return_attention=True)[1]
    check_attention(x, layers, attention)
    e = [torch.linalg.matrix_norm(x)]
    for layer, p in zip(layers, attention):
        w_norms = torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)
        p_norms = torch.linalg.matrix_norm(p, 2)
        s = (p_norms * w_norms).sum(-1)
        skipping = [*e, 0 * s]
        passing = [0 * s, *(s * v for v in e)]
        e = [a + b for a, b in zip(skipping, passing)]
    return torch.stack(e)


def train_reader(
    reader: Reader,
    u: Float[Tensor, "N n f"],
    labels: Int[Tensor, "N n"],
    *,
    steps: int,
    batch: int = 100,
    rate: float = 1e-3,
    generator: torch.Generator,
    progress: bool = False,
) -> tuple[Reader, list[float]]:
    """The network after training by Adam on the cross-entropy of every token, and the
    loss of each step.

    Args:
        reader: where to start; it is left as it is.
        u: (N, n, f).
        labels: (N, n).
        steps, batch: of sequences drawn with replacement.
        rate: of Adam, after 5% of the steps falling to zero by a cosine.
        generator: source of the batches.
        progress: show a bar.

    Returns:
        (Reader, losses).

    Raises:
        ValueError: if u and labels do not fit each other or the reader, a label is no
            class, a number of steps or of sequences is no integer of at least one, a
            rate is not positive and finite, and for no generator.

    Cost: three forward passes a step.
    Source: plain Adam, gradients clipped at norm one; not the settings of a paper.
    """
    _check_reader(reader, u)
    check_network(_embedded(reader, u[:1]), reader.layers)
    _check_integers(labels, u, "u")
    require(
        u.shape[:-1] == labels.shape,
        f"labels must be {tuple(u.shape[:-1])} to fit u, got {tuple(labels.shape)}",
    )
    require(labels.dtype == torch.int64, f"labels must be int64, got {labels.dtype}")
    _check_classes(labels, len(reader.bias))
    _require.sizes(1, steps=steps, batch=batch)
    _require.numbers(rate=rate)
    require(rate > 0, f"rate must be positive, got {rate}")
    _require.random(generator)

    def schedule(t):
        rise = (t + 1) / (0.05 * steps)
        fall = 0.5 + 0.5 * math.cos(math.pi * t / steps)
        return min(rise, fall)

    reader = _map_weights(lambda w: w.detach().clone().requires_grad_(), reader)
    weights = []
    for part in (*reader.layers, reader):
        weights += [w for w in part if torch.is_tensor(w)]
    optimizer = torch.optim.Adam(weights, lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    losses = []
    rounds = range(steps)
    for _ in tqdm(rounds, delay=3, leave=False) if progress else rounds:
        rows = torch.randint(
            len(u), (batch,), generator=generator, device=generator.device
        ).to(u.device)
        scores = _logits(reader, u[rows], check=False).flatten(0, -2)
        wanted = labels[rows].flatten()
        loss = torch.nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return _map_weights(torch.Tensor.detach, reader), losses


def _map_weights(change: Callable[[Tensor], Tensor], reader: Reader) -> Reader:
    """The Reader whose weights are those of another one, each changed by a function."""
    layers = []
    for layer in reader.layers:
        changed = {}
        for name, w in layer._asdict().items():
            if w is not None:
                changed[name] = change(w)
        layers.append(Layer(**changed))
    return Reader(
        embed=change(reader.embed),
        position=change(reader.position),
        layers=layers,
        readout=change(reader.readout),
        bias=change(reader.bias),
    )
