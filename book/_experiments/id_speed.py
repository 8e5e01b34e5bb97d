"""Time of Boltzmann averages over a copy of their input, and of counting ids beside torch's sort and numpy's; alternating."""

from __future__ import annotations

import statistics
import time
from importlib.metadata import version

import numpy as np
import store
import torch

from attnlib.bench import alternate
from attnlib.memorize import boltzmann, boltzmann_literal, smallest_gap

ROUNDS, IDS, ROWS, WIDTH = 7, 10**7, 500_000, 32


def sort_and_difference(ids: torch.Tensor) -> tuple[float, int]:
    s = torch.sort(ids).values
    steps = s[1:] - s[:-1]
    return float(steps[steps > 0].min()), int((steps > 0).sum()) + 1


def ratios(seconds: dict[str, list[float]], over: str, under: str) -> dict:
    """Quartiles of the ratios of one round each."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(seconds[over], seconds[under])], n=4)
    return {"low": round(low, 3), "median": round(middle, 3), "high": round(high, 3)}


def main() -> None:
    torch.set_num_threads(1)
    began, g = time.process_time(), torch.Generator().manual_seed(0)
    a = torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=g)
    means = alternate({"tiled": lambda: boltzmann(a, check=False), "eager": lambda: boltzmann_literal(a), "copy": a.clone}, ROUNDS, "cpu")
    ids = torch.rand(IDS, dtype=torch.float64, generator=g)
    ours = lambda: smallest_gap(ids)
    counts = alternate({"ours": ours, "torch": lambda: sort_and_difference(ids)}, ROUNDS, "cpu")
    floor = alternate({"ours": ours, "sort": lambda: np.sort(ids.numpy())}, ROUNDS, "cpu")  # apart: torch leaves memory to clear up
    least, distinct = sort_and_difference(ids)
    assert (smallest_gap(ids).smallest, smallest_gap(ids).distinct) == (least, distinct)
    result = {
        "ratios": {
            "boltzmann over copy": ratios(means, "tiled", "copy"),
            "eager over boltzmann": ratios(means, "eager", "tiled"),
            "torch sort and difference over smallest_gap": ratios(counts, "torch", "ours"),
            "numpy's sort alone over smallest_gap": ratios(floor, "sort", "ours"),
        },
        "numpy": version("numpy"),
    }
    print(result)
    settings = {"rounds": ROUNDS, "ids": IDS, "rows": ROWS, "width": WIDTH, "dtype": "float64"}
    store.write("id_speed", result, settings=settings, seconds=time.process_time() - began)


if __name__ == "__main__":
    main()
