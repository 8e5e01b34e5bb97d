"""attnlib: kernels shared by the pages of The Expressive Power of Attention."""

__version__ = "0.1.0"
