"""The universality proof for dense and sparse Transformers, executed: contextual map,
value map, the assembled network.
"""

from attnlib.universal.context import (  # noqa: F401 (public here)
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
from attnlib.universal.network import Network, approximate, grid_rows, run, value_layers  # noqa: F401 (public here)
from attnlib.universal.standard import (
    Block,
    enough_scale,
    ramp_mlp,
    run_standard,
    standard,
)  # noqa: F401 (public here)
