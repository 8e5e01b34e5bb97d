"""Boolean matrices as rows of bits, eight columns a byte.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

Bits = np.ndarray  # (n, ceil(m / 8)) of uint8


def pack(mask: Bool[Tensor, "n m"]) -> Bits:
    """A boolean matrix as rows of bits; bits beyond m are 0."""
    return np.packbits(mask.cpu().numpy(), axis=1, bitorder="little")


def unpack(bits: Bits, m: int) -> Bool[Tensor, "n m"]:
    """The boolean matrix of rows of bits, of m columns."""
    entries = np.unpackbits(bits, axis=1, count=m, bitorder="little")
    return torch.from_numpy(entries).bool()


def bit_product(a: Bits, b: Bits) -> Bits:
    """The product of two boolean matrices.

        row k of A B = OR of the rows j of B with A_kj = 1

    Rows of B are taken eight at a time: all 256 ORs of them go into a table, and a byte
    of A says which one row k needs.

    Source: the method of four Russians, recalled.
    Claim: patterns.checker
    """
    out = np.zeros((len(a), b.shape[1]), np.uint8)
    table = np.zeros((256, b.shape[1]), np.uint8)
    for byte in range(a.shape[1]):
        for bit, row in enumerate(b[8 * byte : 8 * byte + 8]):
            size = 1 << bit
            np.bitwise_or(table[:size], row, out=table[size : 2 * size])
        out |= table[a[:, byte]]
    return out


def closure(edges: Bool[Tensor, "n n"]) -> Bool[Tensor, "n n"]:
    """Who hears of whom through any number of edges, none included.

    (I + E)^m for any m >= n - 1, by squaring
    """
    n = len(edges)
    power = pack(edges | torch.eye(n, dtype=torch.bool, device=edges.device))
    for _ in range(n.bit_length()):
        square = bit_product(power, power)
        if (square == power).all():
            break
        power = square
    return unpack(power, n)
