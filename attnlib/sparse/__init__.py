"""Sparse attention: any pattern by dense tiles, and the literal form of any mask.

Page: notebooks/sparse_universality/patterns_and_conditions
"""

from attnlib.sparse.attention import prepare, sparse_attention
from attnlib.sparse.literal import masked_attention

__all__ = ["masked_attention", "prepare", "sparse_attention"]
