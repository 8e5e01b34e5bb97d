"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the
network that reads them.
"""

from attnlib.memorize._block import Dense, dense_block
from attnlib.memorize._boltzmann import (
    Separation,
    boltzmann,
    boltzmann_literal,
    derivatives,
    log_separation_bound,
    needed_gap,
    separation,
)
from attnlib.memorize._deep import Deep, fit_deep
from attnlib.memorize._ids import (
    Gap,
    Ids,
    context_ids,
    rank_one_layer,
    separate,
    smallest_gap,
)
from attnlib.memorize._memorizer import Memorizer, Report, memorize
from attnlib.memorize._network import (
    Line,
    Parameters,
    count_parameters,
    fit_line,
    interpolate,
    relu_layer,
)
from attnlib.memorize._projection import (
    Projection,
    Scale,
    choose_projection,
    data_scale,
    paper_scale,
    threshold,
)
from attnlib.memorize._training import Block, train

__all__ = [
    "Block",
    "Deep",
    "Dense",
    "Gap",
    "Ids",
    "Line",
    "Memorizer",
    "Parameters",
    "Projection",
    "Report",
    "Scale",
    "Separation",
    "boltzmann",
    "boltzmann_literal",
    "choose_projection",
    "context_ids",
    "count_parameters",
    "data_scale",
    "dense_block",
    "derivatives",
    "fit_deep",
    "fit_line",
    "interpolate",
    "log_separation_bound",
    "memorize",
    "needed_gap",
    "paper_scale",
    "rank_one_layer",
    "relu_layer",
    "separate",
    "separation",
    "smallest_gap",
    "threshold",
    "train",
]
