"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the
network that reads them.
"""

from attnlib.memorize.averages import (  # noqa: F401 (public here)
    Separation,
    boltzmann,
    boltzmann_literal,
    derivatives,
    log_separation_bound,
    needed_gap,
    separation,
)
from attnlib.memorize.deep import Deep, fit_deep  # noqa: F401 (public here)
from attnlib.memorize.dense import (  # noqa: F401 (public here)
    Dense,
    Grouped,
    dense_block,
    fit_groups,
)
from attnlib.memorize.direction import (  # noqa: F401 (public here)
    Projection,
    Scale,
    choose_projection,
    data_scale,
    paper_scale,
    threshold,
)
from attnlib.memorize.ids import (  # noqa: F401 (public here)
    Gap,
    Ids,
    context_ids,
    rank_one_layer,
    separate,
    smallest_gap,
)
from attnlib.memorize.line import (  # noqa: F401 (public here)
    Line,
    Parameters,
    count_parameters,
    fit_line,
    interpolate,
    relu_layer,
)
from attnlib.memorize.memorizer import (  # noqa: F401 (public here)
    Memorizer,
    MemorizerReport,
    memorize,
)
from attnlib.memorize.training import (  # noqa: F401 (public here)
    TrainedBlock,
    train_block,
)
