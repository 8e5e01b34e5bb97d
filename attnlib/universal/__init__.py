"""The universality proof for dense and sparse Transformers, executed: contextual map,
value map, the assembled network.
"""

from attnlib.universal.context import (
    Plan,
    Shift,
    apply,
    context_ids,
    decode,
    equivariant_ids,
    grid_ids,
    head,
    least_constant,
    plan,
    schedule,
    steps,
)
from attnlib.universal.network import (
    Network,
    approximate,
    grid_rows,
    run,
    value_layers,
)
from attnlib.universal.standard import (
    Block,
    enough_scale,
    ramp_mlp,
    run_standard,
    standard,
)

__all__ = [
    "Block",
    "Network",
    "Plan",
    "Shift",
    "apply",
    "approximate",
    "context_ids",
    "decode",
    "enough_scale",
    "equivariant_ids",
    "grid_ids",
    "grid_rows",
    "head",
    "least_constant",
    "plan",
    "ramp_mlp",
    "run",
    "run_standard",
    "schedule",
    "standard",
    "steps",
    "value_layers",
]
