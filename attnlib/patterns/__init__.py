"""Sparse attention patterns: unions of simple parts, step by step, and the three conditions under which nothing is lost."""

from attnlib.patterns.families import (
    bigbird, block_diagonal, blockwise, causal, dense, dilation_cycle, directed_cycle, fixed, from_masks, from_sets, logsparse,
    longformer, random, shifted_blocks, star, strided, union, window,
)
from attnlib.patterns.parts import Blocks, Columns, Lists, Part, Pattern, Rows, Step, Strided, Window, build

__all__ = [
    "Blocks", "Columns", "Lists", "Part", "Pattern", "Rows", "Step", "Strided", "Window", "bigbird", "block_diagonal",
    "blockwise", "build", "causal", "dense", "dilation_cycle", "directed_cycle", "fixed", "from_masks", "from_sets",
    "logsparse", "longformer", "random", "shifted_blocks", "star", "strided", "union", "window",
]
