"""A small trained masked-language model that ships with the package, so that real
attention maps exist without a network.

Page: notebooks/jl_low_rank/spectra_and_linformer
"""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib import _require
from attnlib._require import require

# What the model reads; anything else is one character of its own, UNKNOWN.
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
UNKNOWN = len(CHARACTERS)
MASK = UNKNOWN + 1


class TinyModel(nn.Module):
    """A character model of the usual kind: pre-LayerNorm blocks, rotated queries and
    keys, no biases in attention.

        x <- x + sum_h P_h LN(x) W_V,h W_O,h,   then   x <- x + MLP(LN(x)),
        layers times;   logits = LN(x) E'
        P_h = softmax_row(q k' / sqrt(d / heads)),   q, k: rotated by position (RoPE)

    Args:
        layers, heads, width: sizes; heads divides width, width / heads is even.
        seed: of the first weights.
    """

    def __init__(self, layers: int, heads: int, width: int, *, seed: int = 0):
        super().__init__()
        _require.sizes(1, layers=layers, heads=heads, width=width)
        _require.sizes(0, seed=seed)
        require(
            width % (2 * heads) == 0,
            f"width must be an even multiple of heads, got {width} and {heads}",
        )
        self.sample: list[str] = []
        self.log: dict[str, Any] = {}
        self.embed = nn.Embedding(MASK + 1, width)
        self.blocks = nn.ModuleList(TinyBlock(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        g = torch.Generator().manual_seed(int(seed))
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                fan_in = weight.shape[1]
                size = 0.1 if "embed" in name else 0.5 / math.sqrt(fan_in)
                drawn = torch.randn(weight.shape, generator=g, device="cpu")
                weight.data = size * drawn.to(weight.device)
            elif name.endswith("bias"):
                weight.data.zero_()

    def forward(self, tokens: Int[Tensor, "*batch n"]) -> Float[Tensor, "*batch n v"]:
        """Logits of the character at each place.

        Args:
            tokens: (*batch, n), by encode; MASK hides a character.

        Returns:
            (*batch, n, characters).
        """
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embed.weight)

    def heads(self, tokens: Int[Tensor, "*batch n"]) -> tuple[Tensor, Tensor, Tensor]:
        """What every head attends with: queries and keys (rotated) and values.

        Args:
            tokens: (*batch, n), by encode.

        Returns:
            (q, k, v), each (layers, *batch, heads, n, width / heads).
        """
        x = self.embed(tokens)
        found = []
        for block in self.blocks:
            found.append(block.heads(block.norm_1(x)))
            x = block(x)
        q, k, v = map(torch.stack, zip(*found))
        return q, k, v


class TinyBlock(nn.Module):
    """Attention and a feed-forward part, each added to its input.

    Args:
        heads, width: sizes.
    """

    def __init__(self, heads: int, width: int):
        super().__init__()
        self.size = width // heads
        self.norm_1 = nn.LayerNorm(width)
        self.norm_2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def heads(self, x: Float[Tensor, "*batch n d"]) -> list[Tensor]:
        """Queries, keys and values of each head; x is normalised already.

        Args:
            x: (*batch, n, d).

        Returns:
            [q, k, v], each (*batch, heads, n, d / heads).
        """

        def by_head(t):
            return t.unflatten(-1, (-1, self.size)).transpose(-3, -2)

        q, k, v = map(by_head, self.qkv(x).chunk(3, -1))
        return [_rotated(q), _rotated(k), v]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Dense attention; a network that compresses overrides this.

        Args:
            q, k, v: (*batch, heads, n, d / heads).

        Returns:
            the same shape.
        """
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        """One block.

        Args:
            x: (*batch, n, d).

        Returns:
            (*batch, n, d).
        """
        y = self.attend(*self.heads(self.norm_1(x)))
        x = x + self.out(y.transpose(-3, -2).flatten(-2))
        hidden = F.gelu(self.up(self.norm_2(x)))
        return x + self.down(hidden)


def _rotated(x: Tensor) -> Tensor:
    """Rows turned by their place, so that products of two rows depend on the distance
    of their places (RoPE, Su et al. 2021): with a and b the two halves of a row,

        (a cos(i w_j) - b sin(i w_j), a sin(i w_j) + b cos(i w_j)),
        w_j = 10000^(-2 j / d)
    """
    n, d = x.shape[-2:]
    half = d // 2
    place = torch.arange(n, device=x.device, dtype=x.dtype)
    j = torch.arange(half, device=x.device, dtype=x.dtype)
    frequency = 10000.0 ** (-j / half)
    angle = place[:, None] * frequency
    cos = angle.cos()
    sin = angle.sin()
    a = x[..., :half]
    b = x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def encode(text: str) -> Int[Tensor, "n"]:
    """The characters of a text as numbers.

    Args:
        text: at least one character; those outside printable ASCII and the line feed
            become UNKNOWN.

    Returns:
        (n,), int64.

    Raises:
        ValueError: for what is no text, or an empty one.
    """
    require(isinstance(text, str), f"text must be a str, got {type(text).__name__}")
    require(len(text) >= 1, "text needs at least one character, got none")
    number = {character: i for i, character in enumerate(CHARACTERS)}
    numbers = [number.get(character, UNKNOWN) for character in text]
    return torch.tensor(numbers, device="cpu")


def spelled(number: int) -> str:
    """The character of a number.

    Args:
        number: as encode gives it.

    Returns:
        the character; "?" for UNKNOWN, and "_" for MASK.
    """
    return (CHARACTERS + "?_")[number]


def load_tiny_model(*, trained: bool = True) -> TinyModel:
    """The small model, in evaluation mode, its weights frozen, float32 on the CPU.

    Args:
        trained: False for the weights that the training began with.

    Returns:
        a TinyModel; .log is the training log, .sample a few passages that it was not
        trained on.
    """
    _require.is_a(bool, trained=trained)
    folder = files("attnlib.audit")
    about = json.loads(folder.joinpath("tiny_model.json").read_text(encoding="utf-8"))
    model = TinyModel(**about["config"])
    if trained:
        with folder.joinpath("tiny_model.npz").open("rb") as file, np.load(file) as npz:
            weights = {name: torch.from_numpy(npz[name]) for name in npz}
        model.load_state_dict(weights)  # float16 as stored, copied to float32
    model.log = about["log"]
    model.sample = about["sample"]
    return model.eval().requires_grad_(False)


def attention_heads(model: TinyModel, text: str) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of every head on a text, as the softmax sees them: P =
    softmax(q k' / sqrt(d_head)).

    Args:
        model: by load_tiny_model.
        text: n characters.

    Returns:
        (q, k, v), each (layers, heads, n, d_head).

    Raises:
        ValueError: for no TinyModel, for what is no text, or an empty one.
    """
    _require.is_a(TinyModel, model=model)
    tokens = encode(text).to(model.embed.weight.device)
    return model.heads(tokens)


def attention_maps(model: TinyModel, text: str) -> Float[Tensor, "layers h n n"]:
    """The attention matrix of every head on a text.

    Args:
        model: by load_tiny_model; model.double() gives float64 maps.
        text: n characters.

    Returns:
        (layers, heads, n, n), rows sum to one.

    Raises:
        ValueError: for what is no text, or an empty one.
    """
    q, k, _ = attention_heads(model, text)
    logits = q @ k.mT / math.sqrt(q.shape[-1])
    return torch.softmax(logits, -1)
