"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the
network that reads them.
"""

from attnlib.memorize.averages import (  # noqa: F401 (public here)
    boltzmann,
    needed_gap,
)
from attnlib.memorize.deep import fit_deep  # noqa: F401
from attnlib.memorize.dense import dense_block, fit_groups  # noqa: F401
from attnlib.memorize.direction import (  # noqa: F401
    choose_projection,
    data_scale,
    paper_scale,
    threshold,
)
from attnlib.memorize.ids import (  # noqa: F401
    Gap,
    context_ids,
    rank_one_layer,
    separate,
    smallest_gap,
)
from attnlib.memorize.line import (  # noqa: F401
    Line,
    count_parameters,
    fit_line,
    interpolate,
    relu_layer,
)
from attnlib.memorize.memorizer import Memorizer, memorize  # noqa: F401
