"""How fast tokens become alike in networks of the shapes of Figure 2 of Dong et al.
(2021), before any training: BERT, ALBERT and XLNet, with and without skips and
feed-forward layers.

    python layer_residuals.py

runs the sizes below on one CPU thread, for about a minute, and writes
layer_residuals.json.

Weights are drawn as those models draw them, with a standard deviation of 0.02, and
norms stand after each part. The text is 128 tokens of which no two are equal. ALBERT
has one layer, used 12 times, and 128 features before a first dense map. Of XLNet we
take what it has at the start, tokens without positions or segments; its attention by
relative positions is left out.
"""

from __future__ import annotations

import math
import time

import store
import torch
from torch import Tensor
from tqdm import tqdm

from attnlib.attention import Mlp, Norm, forward, layer_norm, random_layers
from attnlib.collapse import composite_norm, residual

NORM = Norm(eps=1e-12)  # as in all three
LAYERS, HEADS, WIDTH, INNER, NARROW, TOKENS, SEEDS = 12, 12, 768, 3072, 128, 128, 3
DEVIATION = 0.02
SHAPES = ("BERT", "ALBERT", "XLNet")
VARIANTS = {
    "SAN": {"skip": False, "mlp": False},
    "SAN + MLP": {"skip": False, "mlp": True},
    "SAN + skip": {"skip": True, "mlp": False},
    "transformer": {"skip": True, "mlp": True},
}


def drawn(*size: int, generator: torch.Generator) -> Tensor:
    return DEVIATION * torch.randn(*size, generator=generator)


def start(shape: str, g: torch.Generator) -> Tensor:
    """The tokens before layer 1: words, and where the model has them positions and a
    segment, which all tokens share.
    """
    width = NARROW if shape == "ALBERT" else WIDTH
    x = drawn(TOKENS, width, generator=g)
    if shape == "XLNet":
        return x
    x = x + drawn(TOKENS, width, generator=g) + drawn(1, width, generator=g)
    x = layer_norm(x, NORM)
    return x @ drawn(NARROW, WIDTH, generator=g) if shape == "ALBERT" else x


def blocks(shape: str, g: torch.Generator):
    """Attention and feed-forward parts, one for each layer."""
    own = 1 if shape == "ALBERT" else LAYERS
    per_head = WIDTH // HEADS
    gain = DEVIATION * math.sqrt(WIDTH)
    layers = random_layers(own, HEADS, WIDTH, per_head, gain=gain, generator=g)
    mlps = []
    for _ in range(own):
        up = drawn(WIDTH, INNER, generator=g)
        down = drawn(INNER, WIDTH, generator=g)
        mlps.append(Mlp(up, down, activation=torch.nn.functional.gelu))
    times = LAYERS // own
    return layers * times, mlps * times


def shares(x: Tensor, layers, mlps, *, skip: bool, mlp: bool) -> list[float]:
    """The relative residual in the composite norm, before layer 1 and after each."""
    found = [relative(x)]
    for layer, part in zip(layers, mlps):
        parts = {"norms": [(NORM, None)]}
        if mlp:
            parts = {"mlps": [part], "norms": [(NORM, NORM)]}
        x = forward(x, [layer], skip=skip, **parts)
        found.append(relative(x))
    return found


def relative(x: Tensor) -> float:
    x = x.double()
    return round(float(composite_norm(residual(x)) / composite_norm(x)), 5)


def main() -> None:
    torch.set_num_threads(1)
    began = time.perf_counter()
    result = {}
    for shape in tqdm(SHAPES):
        result[shape] = {name: [] for name in VARIANTS}
        for seed in range(SEEDS):
            g = torch.Generator().manual_seed(seed)
            x = start(shape, g)
            layers, mlps = blocks(shape, g)
            for name, parts in VARIANTS.items():
                result[shape][name].append(shares(x, layers, mlps, **parts))
    settings = {
        "layers": LAYERS,
        "heads": HEADS,
        "width": WIDTH,
        "inner": INNER,
        "tokens": TOKENS,
        "deviation": DEVIATION,
        "seeds": SEEDS,
    }
    seconds = time.perf_counter() - began
    store.write("layer_residuals", result, settings=settings, seconds=seconds)


if __name__ == "__main__":
    main()
