"""Sparse attention patterns: unions of simple parts, step by step, and the three conditions under which nothing is lost."""

from attnlib.patterns.conditions import Conditions, check, hops, hops_by_sets, reach
from attnlib.patterns.exact import Exact, exact
from attnlib.patterns.families import (
    bigbird, block_diagonal, blockwise, causal, dense, dilation_cycle, directed_cycle, fixed, from_masks, from_sets, logsparse,
    longformer, random, shifted_blocks, star, strided, union, window,
)
from attnlib.patterns.hamilton import is_path
from attnlib.patterns.parts import Blocks, Columns, Lists, Part, Pattern, Rows, Step, Strided, Window, build

__all__ = [
    "Blocks", "Columns", "Conditions", "Exact", "Lists", "Part", "Pattern", "Rows", "Step", "Strided", "Window", "bigbird", "block_diagonal",
    "blockwise", "build", "causal", "check", "dense", "dilation_cycle", "directed_cycle", "exact", "fixed", "from_masks", "from_sets",
    "hops", "hops_by_sets", "is_path", "logsparse", "longformer", "random", "reach", "shifted_blocks", "star", "strided", "union", "window",
]
