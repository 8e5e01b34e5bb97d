"""Boolean matrices as rows of bits: 64 columns a word, products by tables of eight
rows.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor


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

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    rows = np.packbits(
        torch.nn.functional.pad(mask, (0, -mask.shape[1] % 64)).numpy(),
        axis=1,
        bitorder="little",
    )
    return torch.from_numpy(rows).view(torch.int64)


def bit_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two boolean matrices, as rows of bits.

        row k of A B = OR of the rows j of B with A_kj = 1

    Rows of B are taken eight at a time: all 256 ORs of them go into a table, and a byte
    of A says which one row k needs.

    Args:
        a: (n, m) and b: (m, l), both packed, on the CPU.

    Returns:
        (n, l), packed.

    Cost:
        (n + 256) m l / 512 word operations.

    Source:
        the method of four Russians, recalled.

    Claim:
        patterns.checker

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    which, rows = (
        a.view(torch.uint8).T.contiguous().numpy(),
        b.numpy(),
    )  # (bytes, n); numpy: little overhead a call
    out = np.zeros((len(a), rows.shape[1]), np.int64)
    table, part = np.zeros((256, rows.shape[1]), np.int64), np.empty_like(out)
    for start in range(0, len(rows), 8):
        for bit, row in enumerate(rows[start : start + 8]):
            np.bitwise_or(table[: 1 << bit], row, out=table[1 << bit : 2 << bit])
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

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    return torch.from_numpy(
        np.unpackbits(
            bits.view(torch.uint8).numpy(), axis=1, count=m, bitorder="little"
        )
    ).bool()


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

    Page:
        notebooks/sparse_universality/patterns_and_conditions
    """
    power = pack(edges | torch.eye(len(edges), dtype=torch.bool))
    while not torch.equal(square := bit_product(power, power), power):
        power = square
    return unpack(power, len(edges))
