"""attnlib: kernels shared by the pages of The Expressive Power of Attention."""

from importlib import import_module

__version__ = "0.2.0"

_ROOMS = {
    "attention",
    "audit",
    "bridges",
    "certify",
    "codes",
    "collapse",
    "copying",
    "efficacy",
    "efficient",
    "expressive",
    "lowrank",
    "memorize",
    "paths",
    "patterns",
    "sparse",
    "universal",
}


def __getattr__(name: str):
    """A room is imported when it is first asked for, so that `import attnlib` stays
    light.
    """
    if name in _ROOMS:
        return import_module(f"attnlib.{name}")
    raise AttributeError(f"module 'attnlib' has no room {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
