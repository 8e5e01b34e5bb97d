"""The universality proof for dense and sparse Transformers, executed: contextual map,
value map, the assembled network.
"""

from attnlib.universal.context import (  # noqa: F401 (public here)
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
from attnlib.universal.network import (  # noqa: F401 (public here)
    UniversalNetwork,
    approximate,
    approximate_equivariant,
    run,
    value_layers,
)
from attnlib.universal.standard import (  # noqa: F401 (public here)
    Sublayer,
    enough_scale,
    ramp_mlp,
    run_standard,
    standard,
)
