"""Sparse attention patterns: unions of simple parts, step by step, and when they lose
nothing.
"""

from attnlib.patterns.conditions import Conditions, check, crossing, hops, reach  # noqa: F401 (public here)
from attnlib.patterns.exact import Exact, exact  # noqa: F401 (public here)
from attnlib.patterns.families import (  # noqa: F401 (public here)
    bigbird,
    block_diagonal,
    blockwise,
    causal,
    dense,
    dilation_cycle,
    directed_cycle,
    fixed,
    from_masks,
    from_rule,
    from_sets,
    logsparse,
    longformer,
    one_step,
    random,
    shifted_blocks,
    star,
    strided,
    union,
    window,
)
from attnlib.patterns.hamilton import is_path  # noqa: F401 (public here)
from attnlib.patterns.parts import (  # noqa: F401 (public here)
    Blocks,
    Columns,
    Lists,
    Part,
    Pattern,
    Rows,
    Step,
    Strided,
    Window,
    build,
)
