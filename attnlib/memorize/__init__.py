"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the network that reads them."""

from attnlib.memorize._boltzmann import (
    Separation, boltzmann, boltzmann_literal, derivatives, log_separation_bound, needed_gap, separation,
)
from attnlib.memorize._ids import Gap, Ids, context_ids, rank_one_layer, separate, smallest_gap
from attnlib.memorize._projection import Projection, Scale, choose_projection, data_scale, paper_scale, threshold

__all__ = [
    "Gap", "Ids", "Projection", "Scale", "Separation", "boltzmann", "boltzmann_literal", "choose_projection", "context_ids",
    "data_scale", "derivatives", "log_separation_bound", "needed_gap", "paper_scale", "rank_one_layer", "separate",
    "separation", "smallest_gap", "threshold",
]
