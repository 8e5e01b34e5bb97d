"""Path efficacy: what the paths of one length do in a trained network, all of them,
some of them, or rerun alone.

Page:
    notebooks/path_decomposition/path_efficacy
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib._require import finite, matches, require, tokens
from attnlib.attention import (
    Layer,
    attention_matrix,
    check_network,
    forward,
    random_layers,
)
from attnlib.paths import Path, path_counts, path_sums, path_term


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

    Claim:
        efficacy.margins
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
        ValueError: if h does not divide d.

    Cost:
        O(L d^2).

    Source:
        not taken from a paper.
    """
    require(
        d % h == 0,
        f"the width must be a multiple of the number of heads, got d = {d}, h = {h}",
    )

    layers = []
    for layer in random_layers(
        L,
        h,
        d,
        d // h,
        gain=gain,
        bias=True,
        generator=generator,
        dtype=dtype,
        device=device,
    ):
        biases = [torch.zeros_like(b) for b in layer[4:]]
        layers.append(Layer(*layer[:4], *biases))

    def draw(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

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
        ValueError: as forward.

    Cost:
        one forward pass.

    Source:
        the networks of Dong et al. 2021 without LayerNorm, so that the decomposition is
        exact.
    """
    tokens(u)
    x = u @ reader.embed + reader.position
    y = forward(x, reader.layers, skip=True, check=False)
    return y @ reader.readout + reader.bias


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
        ValueError: as forward.

    Cost:
        that of path_sums.

    Source:
        path_sums, read by the readout.

    Claim:
        efficacy.margins
    """
    tokens(u)
    x = u @ reader.embed + reader.position
    sums = path_sums(x, reader.layers, skip=True)
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
        ValueError: if the labels do not fit the last dimensions of the scores, or a
            score is NaN.

    Cost:
        O(entries).

    Source:
        the definition.
    """
    last = scores.shape[-1 - labels.dim() : -1]
    require(
        scores.dim() > labels.dim() and last == labels.shape,
        f"labels {tuple(labels.shape)} must be the last dimensions of the scores "
        f"before c, got {tuple(scores.shape)}",
    )
    require(
        not bool(scores.isnan().any()),
        "scores must not hold NaN: it would count as the largest",
    )
    right = (scores.argmax(-1) == labels).to(scores.dtype)
    more = right.dim() - labels.dim()
    return right.flatten(more).mean(-1)


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

    Cost:
        O(count n letters).

    Source:
        Dong et al. 2021, public code: 8 of 10 letters, repeats allowed.
    """
    words = torch.randint(letters, (count, n), generator=generator)
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
        ValueError: for fewer than two points.

    Cost:
        O(n^2 log n).

    Source:
        the definition of an extreme point in the plane.
    """
    n = points.shape[-2]
    require(
        n >= 2, f"points must be (*batch, n, 2) with n >= 2, got {tuple(points.shape)}"
    )
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
        ValueError: for a length outside 0..L, or layers with different numbers of
            heads.

    Cost:
        O(count L).

    Source:
        Dong et al. 2021, public code: random layers, then a random head in each.
    """
    L = len(heads)
    require(
        L >= 1 and len(set(heads)) == 1,
        "layers must have equal numbers of heads (else the draw is not uniform), "
        f"got {list(heads)}",
    )
    require(0 <= length <= L, f"length must be from 0 to L = {L}, got {length}")
    paths = []
    for _ in range(count):
        taken = torch.randperm(L, generator=generator)[:length]
        head = torch.randint(heads[0], (L,), generator=generator)
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

    Returns:
        (*batch, n, d). With frozen P it is the term of the path; recomputed it is not.

    Raises:
        ValueError: as path_term.

    Cost:
        O(length (n^2 d + n d d_v)).

    Source:
        recomputed: the public code of Dong et al. 2021; differs: no LayerNorm after a
        layer, no biases b_V, b_O.

    Claim:
        efficacy.first-order
    """
    if attention is not None:
        return path_term(x, layers, path, attention)
    check_network(x, layers, check=False)
    require(
        len(path) == len(layers),
        f"a path has one entry a layer: {len(layers)}, got {len(path)}",
    )
    for layer, h in zip(layers, path):
        if h is None:
            continue
        require(
            0 <= h < len(layer.w_q),
            f"path {path}: head {h} of {len(layer.w_q)} (indices start at 0)",
        )
        b_q = None if layer.b_q is None else layer.b_q[h]
        b_k = None if layer.b_k is None else layer.b_k[h]
        p = attention_matrix(
            x, layer.w_q[h], layer.w_k[h], b_q=b_q, b_k=b_k, check=False
        )
        values = x @ layer.w_v[h]
        x = p @ values @ layer.w_o[h]
    return x


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
        ValueError: for no paths or paths of several lengths.

    Cost:
        m times restricted_forward.

    Source:
        the mean of uniform draws; the public code of Dong et al. 2021 adds them and
        normalises the sum.
    """
    lengths = {len(path) - path.count(None) for path in paths}
    require(
        len(lengths) == 1,
        f"paths must be at least one, and of one length, got lengths {sorted(lengths)}",
    )
    total = sum(
        restricted_forward(x, layers, path, attention=attention) for path in paths
    )
    heads = [len(layer.w_q) for layer in layers]
    counts = path_counts(heads, skip=True)
    count = counts[lengths.pop()]
    return total * (count / len(paths))


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
        ValueError: as forward, or if attention does not have one P for each head.

    Cost:
        the singular values of every P and W.

    Source:
        not taken from a paper.

    Claim:
        efficacy.weight
    """
    check_network(x, layers)
    if attention is None:
        attention = forward(x, layers, skip=True, return_attention=True)[1]
    require(
        len(attention) == len(layers),
        f"attention must hold one P a layer: {len(layers)}, got {len(attention)}",
    )
    *batch, n, _ = x.shape
    for number, (layer, p) in enumerate(zip(layers, attention), 1):
        name = f"attention of layer {number}"
        matches(name, p, (*batch, len(layer.w_q), n, n), x)
        finite(**{name: p})
    e = [x.square().sum((-2, -1)).sqrt()]
    for layer, p in zip(layers, attention):
        w_norms = torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)
        p_norms = torch.linalg.matrix_norm(p, 2)
        s = (p_norms * w_norms).sum(-1)
        skipping = [*e, 0 * s]
        passing = [0 * s, *(s * v for v in e)]
        e = [a + b for a, b in zip(skipping, passing)]
    return torch.stack(e)


def train(
    reader: Reader,
    u: Float[Tensor, "N n f"],
    labels: Int[Tensor, "N n"],
    *,
    steps: int,
    batch: int = 100,
    rate: float = 1e-3,
    generator: torch.Generator,
    progress: Callable = iter,
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
        progress: wraps the range of steps, as tqdm does.

    Returns:
        (Reader, losses).

    Raises:
        ValueError: if u and labels do not fit, or steps or batch is below one.

    Cost:
        three forward passes a step.

    Source:
        plain Adam, gradients clipped at norm one; not the settings of a paper.
    """
    require(
        u.shape[:-1] == labels.shape,
        f"labels must be {tuple(u.shape[:-1])} to fit u, got {tuple(labels.shape)}",
    )
    require(
        min(steps, batch) >= 1,
        f"steps and batch must be at least one, got {steps} and {batch}",
    )

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
    for _ in progress(range(steps)):
        rows = torch.randint(len(u), (batch,), generator=generator).to(u.device)
        scores = logits(reader, u[rows]).flatten(0, -2)
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
        change(reader.embed),
        change(reader.position),
        layers,
        change(reader.readout),
        change(reader.bias),
    )
