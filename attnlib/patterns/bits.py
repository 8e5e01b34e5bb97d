"""Boolean matrices as rows of bits: 64 columns a word, products by tables of eight
rows.

Page:
    notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F


def pack(mask: Bool[Tensor, "n m"]) -> Tensor:
    """A boolean matrix as rows of bits, 64 columns a word.

    Args:
        mask: (n, m).

    Returns:
        (n, ceil(m / 64)) int64; bits beyond m are 0.

    Cost:
        O(n m).

    Source:
        the definition.
    """
    missing = -mask.shape[1] % 64
    padded = F.pad(mask, (0, missing)).numpy()
    octets = np.packbits(padded, axis=1, bitorder="little")
    return torch.from_numpy(octets).view(torch.int64)


def bit_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two boolean matrices, as rows of bits.

        row k of A B = OR of the rows j of B with A_kj = 1

    Rows of B are taken eight at a time: all 256 ORs of them go into a table, and a byte
    of A says which one row k needs.

    Args:
        a, b: (n, m) and (m, l), both packed, on the CPU.

    Returns:
        (n, l), packed.

    Cost:
        (n + 256) m l / 512 word operations.

    Source:
        the method of four Russians, recalled.

    Claim:
        patterns.checker
    """
    # numpy has little overhead a call, and here are ten calls for eight rows
    which = a.view(torch.uint8).T.contiguous().numpy()  # (bytes, n)
    rows = b.numpy()
    words = rows.shape[1]
    out = np.zeros((len(a), words), np.int64)
    part = np.empty_like(out)
    table = np.zeros((256, words), np.int64)
    for start in range(0, len(rows), 8):
        for bit, row in enumerate(rows[start : start + 8]):
            size = 1 << bit
            np.bitwise_or(table[:size], row, out=table[size : 2 * size])
        np.take(table, which[start // 8], axis=0, out=part, mode="clip")
        np.bitwise_or(out, part, out=out)
    return torch.from_numpy(out)


def unpack(bits: Tensor, m: int) -> Bool[Tensor, "n m"]:
    """The boolean matrix of rows of bits, the inverse of `pack`.

    Args:
        bits: (n, words).
        m: columns.

    Returns:
        (n, m).

    Cost:
        O(n m).

    Source:
        the definition.
    """
    octets = bits.view(torch.uint8).numpy()
    entries = np.unpackbits(octets, axis=1, count=m, bitorder="little")
    return torch.from_numpy(entries).bool()


def closure(edges: Bool[Tensor, "n n"]) -> Bool[Tensor, "n n"]:
    """Who hears of whom through any number of edges, none included.

        (I + E)^m for any m >= n - 1, by squaring

    Args:
        edges: (n, n), boolean.

    Returns:
        (n, n), boolean.

    Cost:
        log2 n products.

    Source:
        the definition.

    Claim:
        patterns.checker
    """
    n = len(edges)
    loops = torch.eye(n, dtype=torch.bool)
    power = pack(edges | loops)
    square = bit_product(power, power)
    while not torch.equal(square, power):
        power = square
        square = bit_product(power, power)
    return unpack(power, n)
