"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the network that reads them."""

from attnlib.memorize._boltzmann import (
    boltzmann, boltzmann_literal, derivatives, log_separation_bound, needed_gap,
)

__all__ = ["boltzmann", "boltzmann_literal", "derivatives", "log_separation_bound", "needed_gap"]
