"""What more steps do: the frozen construction and one trained head of memorization.py,
trained for up to sixteen times as long. Writes longer_training.json.

    python longer_training.py

Only the number of steps is changed, and with it the cycle of the rate. A referee had
found .454, .556, .630 for the frozen head and about .68, .81 for the trained one, on
task 0. Prediction, written before the run: accuracy grows with each number of steps,
for both heads, and the frozen head stays below the trained one.
"""

from __future__ import annotations

import time

import store
import torch
from memorization import MODELS, RATE, WIDTH, accuracy

STEPS, SEEDS = (1_500, 6_000, 24_000), (0,)
NAMES = ("frozen construction", "trained, rank 1")


def main() -> None:
    torch.set_num_threads(1)
    result = {}
    for name in NAMES:
        result[name] = []
        for steps in STEPS:
            found = [accuracy(seed, steps=steps, **MODELS[name]) for seed in SEEDS]
            result[name].append(found)
            print(name, steps, found, flush=True)
    settings = {"steps": STEPS, "seeds": SEEDS, "rate": RATE, "width": WIDTH}
    seconds = time.process_time()
    store.write("longer_training", result, settings=settings, seconds=seconds)


if __name__ == "__main__":
    main()
