"""Sparse patterns with fixed weights and adaptive inputs: keys by chance, queries by
interpolation, checks by tiles.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from attnlib.expressive.fitting import Exhausted, fit
from attnlib.expressive.redraw import interpolate
from attnlib.expressive.verification import Code, Verification, verify

__all__ = ["Code", "Exhausted", "Verification", "fit", "interpolate", "verify"]
