"""One-layer memorization: the Boltzmann operator, ids of tokens in context, and the network that reads them."""

from attnlib.memorize._boltzmann import (
    Separation, boltzmann, boltzmann_literal, derivatives, log_separation_bound, needed_gap, separation,
)

__all__ = [
    "Separation", "boltzmann", "boltzmann_literal", "derivatives", "log_separation_bound", "needed_gap", "separation",
]
