"""Attention for long sequences: hashing with rounds, products of features, states of
fixed size, caches that heads share, and what each row of the table costs.
"""

from attnlib.efficient.features import (
    linear_attention,
    linear_step,
    performer_attention,
    positive_features,
)
from attnlib.efficient.hashing import lsh_attention, lsh_buckets, lsh_sets
from attnlib.efficient.latent import gqa_as_mla, gqa_error
from attnlib.efficient.recurrent import (
    delta_attention,
    delta_step,
    gated_linear_attention,
    gated_linear_step,
    selective_scan,
    selective_step,
)
from attnlib.efficient.table import decoding, depth, flops
from attnlib.efficient.traffic import naive_attention, tiled_attention, traffic

__all__ = [
    "decoding",
    "delta_attention",
    "delta_step",
    "depth",
    "flops",
    "gated_linear_attention",
    "gated_linear_step",
    "gqa_as_mla",
    "gqa_error",
    "linear_attention",
    "linear_step",
    "lsh_attention",
    "lsh_buckets",
    "lsh_sets",
    "naive_attention",
    "performer_attention",
    "positive_features",
    "selective_scan",
    "selective_step",
    "tiled_attention",
    "traffic",
]
