"""Attention for long sequences: hashing with rounds, products of features, and what
each row of the table costs.
"""

from attnlib.efficient.features import (
    linear_attention,
    performer_attention,
    positive_features,
)
from attnlib.efficient.hashing import lsh_attention, lsh_buckets, lsh_sets
from attnlib.efficient.table import flops

__all__ = [
    "flops",
    "linear_attention",
    "lsh_attention",
    "lsh_buckets",
    "lsh_sets",
    "performer_attention",
    "positive_features",
]
