"""One layer memorizes: the Boltzmann operator, contextual ids, the exact feed-forward network."""

from attnlib.memorize._ids import Gap, Ids, context_ids, rank_one_layer, separate, smallest_gap
from attnlib.memorize._projection import Projection, Scale, choose_projection, data_scale, paper_scale, threshold

__all__ = [
    "Gap", "Ids", "Projection", "Scale", "choose_projection", "context_ids", "data_scale", "paper_scale", "rank_one_layer",
    "separate", "smallest_gap", "threshold",
]
