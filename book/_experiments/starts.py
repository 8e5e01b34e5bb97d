"""How networks of the copying page begin in two experiments: with sines and cosines for
positions, and with a readout that is the embedding.
"""

from __future__ import annotations

import math

import torch

from attnbook.data.mixers import MixingNetwork


def sinusoidal(network: MixingNetwork) -> None:
    """Positions of length 1: sines and cosines with geometric wavelengths from 4 to 2n,
    so that a shift is one linear map.
    """
    n, width = network.position.shape
    if width % 2:
        raise ValueError(f"sinusoidal positions need an even width, got {width}")
    first = math.log2(math.pi / 2)
    last = math.log2(math.pi / n)
    f = torch.logspace(first, last, width // 2, base=2)
    angles = torch.arange(n)[:, None] * f
    waves = torch.cat([angles.sin(), angles.cos()], 1)
    network.position.data = waves * (2 / width) ** 0.5


def tied(network: MixingNetwork) -> None:
    """R = E', the entries of E divided by sqrt(d)."""
    network.embed.weight.data /= network.embed.embedding_dim**0.5
    network.readout.weight = network.embed.weight
