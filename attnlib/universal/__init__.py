"""The universality proof for dense and sparse Transformers, executed: contextual map,
value map, the assembled network.
"""

from attnlib.universal.context import (
    ContextualMap,
    Shift,
    apply,
    context_ids,
    contextual_map,
    decode,
    equivariant_ids,
    equivariant_map,
    grid_ids,
    schedule,
)
from attnlib.universal.network import (
    UniversalNetwork,
    approximate,
    approximate_equivariant,
    run,
    value_layers,
)
from attnlib.universal.standard import (
    Sublayer,
    enough_scale,
    ramp_mlp,
    run_standard,
    standard,
)

__all__ = [
    "ContextualMap",
    "Shift",
    "Sublayer",
    "UniversalNetwork",
    "apply",
    "approximate",
    "approximate_equivariant",
    "context_ids",
    "contextual_map",
    "decode",
    "enough_scale",
    "equivariant_ids",
    "equivariant_map",
    "grid_ids",
    "ramp_mlp",
    "run",
    "run_standard",
    "schedule",
    "standard",
    "value_layers",
]
