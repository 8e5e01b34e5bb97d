"""Boolean matrices as rows of bits: 64 columns a word, products by tables of eight
rows.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import is_tensor, require, sizes


def pack(mask: Bool[Tensor, "n m"]) -> Tensor:
    """A boolean matrix as rows of bits, 64 columns a word.

    Args:
        mask: (n, m).

    Returns:
        (n, ceil(m / 64)) int64; bits beyond m are 0.

    Raises:
        ValueError: for a mask that is no boolean matrix on the CPU.

    Cost: O(n m).
    Source: the definition.
    """
    _is_matrix("mask", mask, torch.bool)
    missing = -mask.shape[1] % 64
    padded = F.pad(mask, (0, missing)).numpy()
    octets = np.packbits(padded, axis=1, bitorder="little")
    return torch.from_numpy(octets.view(np.int64))


def bit_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two boolean matrices, as rows of bits.

        row k of A B = OR of the rows j of B with A_kj = 1

    Rows of B are taken eight at a time: all 256 ORs of them go into a table, and a byte
    of A says which one row k needs.

    Args:
        a, b: (n, m) and (m, l), both packed, on the CPU.

    Returns:
        (n, l), packed.

    Raises:
        ValueError: for other than int64 matrices on the CPU, and if b does not have as
            many rows as a has columns.

    Cost: (n + 256) m l / 512 word operations.
    Source: the method of four Russians, recalled.
    Claim: patterns.checker
    """
    _is_matrix("a", a, torch.int64)
    _is_matrix("b", b, torch.int64)
    columns = 64 * a.shape[1]
    require(
        columns - 64 < len(b) <= columns,
        f"b must have one row a column of a, which has {columns - 63} to {columns}, "
        f"got {len(b)}",
    )
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

    Raises:
        ValueError: for bits that are no int64 matrix, and for m that needs more or
            fewer words a row.

    Cost: O(n m).
    Source: the definition.
    """
    _is_matrix("bits", bits, torch.int64)
    sizes(0, m=m)
    words = -(-m // 64)
    require(
        bits.shape[1] == words,
        f"m = {m} columns take {words} words a row, bits has {bits.shape[1]}",
    )
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

    Raises:
        ValueError: for edges that are no square boolean matrix.

    Cost: log2 n products.
    Source: the definition.
    Claim: patterns.checker
    """
    _is_matrix("edges", edges, torch.bool)
    n = len(edges)
    require(edges.shape[1] == n, f"edges must be (n, n), got {tuple(edges.shape)}")
    loops = torch.eye(n, dtype=torch.bool, device="cpu")
    power = pack(edges | loops)
    square = bit_product(power, power)
    while not torch.equal(square, power):
        power = square
        square = bit_product(power, power)
    return unpack(power, n)


def _is_matrix(name: str, matrix, dtype: torch.dtype) -> None:
    """A matrix of this dtype on the CPU."""
    is_tensor(name, matrix)
    require(
        matrix.dim() == 2 and matrix.dtype == dtype and matrix.device.type == "cpu",
        f"{name} must be a matrix of {dtype} on the CPU, got {matrix.dtype} "
        f"{tuple(matrix.shape)} on {matrix.device}",
    )
