"""A head that is kept, on the sentences of memorization.py: writes
frozen_sentences.json. python frozen_sentences.py [--quick]

Prediction, written before the run: where a trained head of rank one fits every tag, a
frozen one lies between it and no attention. One protocol, that of memorization.py; that
a run falls short refutes nothing.
"""

from __future__ import annotations

import sys
import time

import store
import torch
from memorization import RATE, SEEDS, STEPS, WIDTH, D, entities


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    steps, seeds = 20 if quick else STEPS, SEEDS[:1] if quick else SEEDS
    result = {"frozen, rank 1": [entities(seed, "frozen", 1, steps) for seed in seeds]}
    settings = {
        "d": D,
        "width": WIDTH,
        "steps": steps,
        "rate": RATE,
        "seeds": list(seeds),
        "sentences": 200,
        "optimizer": "Adam, one cycle, full batch",
        "dtype": "float32",
    }
    where = {"folder": store.ROOT / "_build"} if quick else {}
    print(
        store.write(
            "frozen_sentences",
            result,
            settings=settings,
            seconds=time.process_time(),
            **where,
        )
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
