"""attnbook: what the pages of The Expressive Power of Attention import and its tests
run, beside the kernels of attnlib: the claims as functions, figures, exercises, data.
"""

from importlib import import_module

_PARTS = {"data", "exercises", "figures", "theorems"}


def __getattr__(name: str):
    """A part is imported when it is first asked for, as are the rooms of attnlib."""
    if name in _PARTS:
        return import_module(f"attnbook.{name}")
    raise AttributeError(f"module 'attnbook' has no part {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
