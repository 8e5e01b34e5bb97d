"""Small trained networks: those that are stored beside the results, and how one is
trained.

Page: notebooks/path_decomposition/path_efficacy
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from attnbook.data import load_result
from attnlib import _require
from attnlib._require import floating, require
from attnlib.attention import Layer, forward
from attnlib.efficacy import Reader, _check_labels, logits


def load_reader(name: str, *, dtype: torch.dtype = torch.float32) -> Reader:
    """A stored network with a linear embedding and a linear readout.

    Args:
        name: of a stored result whose "result" holds shapes, float16 and sha256, as
            "path_efficacy_network".
        dtype: of the weights.

    Returns:
        Reader; each weight is a float16 number.

    Raises:
        ValueError: if nothing of that name is stored, or the weights are not those that
            the hash names, or the dtype is not floating.
    """
    floating(dtype)
    stored = load_result(name)["result"]
    require(
        {"shapes", "float16", "sha256"} <= set(stored),
        f"the stored result {name!r} holds no network",
    )
    raw = base64.b64decode(stored["float16"])
    found = hashlib.sha256(raw).hexdigest()
    require(
        found == stored["sha256"],
        f"the weights of {name!r} are damaged: sha256 {found[:12]}..., "
        f"not {stored['sha256'][:12]}...",
    )
    numbers = torch.frombuffer(bytearray(raw), dtype=torch.float16)
    shapes = stored["shapes"]
    sizes = [math.prod(shape) for shape in shapes]
    pieces = numbers.to(dtype).split(sizes)
    weights = [piece.view(shape) for piece, shape in zip(pieces, shapes)]
    embed, position, readout, bias, *rest = weights
    layers = []
    while rest:
        layers.append(Layer(*rest[:8]))
        rest = rest[8:]
    return Reader(embed, position, layers, readout, bias)


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
        steps, batch: of sequences drawn with replacement.
        rate: of Adam, after 5% of the steps falling to zero by a cosine.
        generator: source of the batches.
        progress: show a bar.

    Source: plain Adam, gradients clipped at norm one; not the settings of a paper.
    """
    _require.is_tensor("u", u)
    require(u.dim() == 3, f"u must have shape (N, n, f), got {tuple(u.shape)}")
    logits(reader, u[:1])  # refuses what does not fit
    _require.finite(u=u)
    _check_labels(labels, tuple(u.shape[:-1]), len(reader.bias), u, "u")
    _require.sizes(1, steps=steps, batch=batch)
    _require.numbers(rate=rate)
    require(rate > 0, f"rate must be positive, got {rate}")
    _require.random(generator)

    def schedule(t):
        rise = (t + 1) / (0.05 * steps)
        fall = 0.5 + 0.5 * math.cos(math.pi * t / steps)
        return min(rise, fall)

    reader = _mapped(lambda w: w.detach().clone().requires_grad_(), reader)
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
        x = u[rows] @ reader.embed + reader.position
        y = forward(x, reader.layers, skip=True, check=False)
        scores = y @ reader.readout + reader.bias
        loss = cross_entropy(scores.flatten(0, -2), labels[rows].flatten().long())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return _mapped(Tensor.detach, reader), losses


def _mapped(change: Callable[[Tensor], Tensor], reader: Reader) -> Reader:
    """The Reader whose weights are those of another one, each changed by a function."""
    layers = []
    for layer in reader.layers:
        weights = [w if w is None else change(w) for w in layer]
        layers.append(Layer(*weights))
    around = reader._asdict()
    del around["layers"]
    changed = {name: change(w) for name, w in around.items()}
    return Reader(layers=layers, **changed)
