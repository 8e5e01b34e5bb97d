"""Boolean matrices as rows of bits: 64 columns a word, products by tables of eight rows."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor


def pack(mask: Bool[Tensor, "n m"]) -> Tensor:
    """A boolean matrix as rows of bits, 64 columns a word.

    Args:    mask: (n, m).
    Returns: (n, ceil(m / 64)) int64; bits beyond m are 0.
    Cost:    O(n m).
    Source:  the definition.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    bits = torch.nn.functional.pad(mask.to(torch.uint8), (0, -mask.shape[1] % 64)).unflatten(1, (-1, 8))
    return sum(bits[..., b] << b for b in range(8)).contiguous().view(torch.int64)


def bit_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two boolean matrices, as rows of bits.

        row k of A B = OR of the rows j of B with A_kj = 1

    Rows of B are taken eight at a time: all 256 ORs of them go into a table, and a byte of A says which one row k needs.

    Args:    a: (n, m), packed.   b: (m', words), packed, 8 rows or fewer for each byte of a that is not 0.
    Returns: (n, words), packed.
    Cost:    O(n m words / 8 + 256 m words / 8) word operations.
    Source:  the method of four Russians, recalled.
    Claim:   patterns.checker      Page: notebooks/sparse_universality/patterns_and_conditions
    """
    which = a.view(torch.uint8).T.contiguous().int()  # (bytes, n)
    out, table = a.new_zeros(len(a), b.shape[1]), b.new_zeros(256, b.shape[1])
    for start in range(0, len(b), 8):
        for bit, row in enumerate(b[start : start + 8]):
            torch.bitwise_or(table[: 1 << bit], row, out=table[1 << bit : 2 << bit])
        out |= table[which[start // 8]]
    return out


def unpack(bits: Tensor, m: int) -> Bool[Tensor, "n m"]:
    """The boolean matrix of rows of bits, the inverse of `pack`.

    Args:    bits: (n, words).   m: columns.
    Returns: (n, m).
    Cost:    O(n m).
    Source:  the definition.
    Page:    notebooks/sparse_universality/patterns_and_conditions
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return ((bits.view(torch.uint8).unsqueeze(-1) >> places) & 1).flatten(1)[:, :m].bool()


def closure(edges: Bool[Tensor, "n n"]) -> Bool[Tensor, "n n"]:
    """Who hears of whom through any number of edges, none included.

        (I + E)^m for any m >= n - 1, by squaring

    Args:    edges: (n, n), boolean.
    Returns: (n, n), boolean.
    Cost:    log2 n products.
    Source:  the definition.
    Claim:   patterns.checker      Page: notebooks/sparse_universality/patterns_and_conditions
    """
    power = pack(edges | torch.eye(len(edges), dtype=torch.bool))
    while not torch.equal(square := bit_product(power, power), power):
        power = square
    return unpack(power, len(edges))
