"""A row of the table: a kernel, along which axes it grows, how it is made at a size,
and how it should grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

UPPER = 3  # points that a slope is fitted to
Run = Callable[[], Any]


class Axis(NamedTuple):
    """Sizes along one axis, and the exponents that the kernel's docstring promises.

    Args:
        at: sizes, a factor apart; a slope is fitted to the upper ones.
        time, memory: exponents.
        why: in a few words.
        sizes: fixed sizes that differ from those of the kernel, so that the term of
            this axis is the large one.
    """

    at: tuple[int, ...]
    time: float | int
    memory: float | int
    why: str
    sizes: dict[str, int] = {}

    def small(self) -> tuple[int, ...]:
        """Three small sizes, for a quick run."""
        first = self.at[0]
        if first < 256:
            return self.at[:UPPER]
        return (first // 4, first // 2, first)


class Kernel(NamedTuple):
    """A kernel of the library.

    Args:
        name: room, function and what is special.
        public: "room.function".
        make: from a device and sizes to a run.
        sizes: those that stand still.
        axes: by n, L, H, N or d.
        dense: why it may make an n x n matrix, else "".
        numpy: it works in arrays, which are counted apart.
    """

    name: str
    public: str
    make: Callable[..., Callable[[], Any]]
    sizes: dict[str, int]
    axes: dict[str, Axis]
    dense: str = ""
    numpy: bool = False

    def at(self, axis: str, size: int, device: str) -> Run:
        """The run at one size."""
        sizes = {**self.sizes, **self.axes[axis].sizes, axis: size}
        return self.make(device, **sizes)


def doubled(first: int, points: int = 4) -> tuple[int, ...]:
    """first, 2 first, 4 first, ..."""
    return tuple(first * 2**i for i in range(points))


def drawn(
    device: str, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Gaussian tensors, the same for every device."""
    g = torch.Generator().manual_seed(0)
    found = []
    for shape in shapes:
        t = torch.randn(shape, generator=g, dtype=dtype)
        found.append(t.to(device))
    return found


def source(device: str) -> torch.Generator:
    """A generator on the device."""
    return torch.Generator(device).manual_seed(0)
