"""Training against construction: writes memorization.json. python memorization.py
[--quick]

Task: N random sets of n tokens out of a Gaussian vocabulary, a random label for every
token of every set. Prediction, written before the run: a frozen construction with one
head trains little better than no attention; trained rank 1 lies between it and 1;
several heads or full rank reach 1; width beyond the number of ids does not cure a
single head. The exact network on the frozen head has accuracy 1 whatever these runs
give. A run that falls short refutes nothing: it is one protocol, full-batch Adam with a
fixed number of steps.
"""

from __future__ import annotations

import sys
import time

import store
import torch
from torch import Tensor, nn
from trained_block import TrainedBlock

from attnbook.data.conll import encode, generate_entities
from attnlib.memorize import choose_projection

TOKENS, D, N_TOKENS, SETS, LABELS, WIDTH, STEPS, RATE = (
    32,
    16,
    8,
    100,
    5,
    256,
    1500,
    3e-3,
)
SEEDS = (0, 1, 2)
MODELS = {
    "no attention": {"kind": "none"},
    "frozen construction": {"kind": "frozen"},
    "frozen random": {"kind": "random"},
    "trained, rank 1": {"kind": "trained"},
    "trained, rank 16": {"kind": "trained", "rank": 16},
    "trained, 4 heads": {"kind": "trained", "heads": 4},
    "frozen, 4 heads": {"kind": "frozen", "heads": 4},
    "frozen, 8 heads": {"kind": "frozen", "heads": 8},
}


def train_block(
    block: TrainedBlock,
    x: Tensor,
    labels: Tensor,
    *,
    steps: int,
    rate: float = RATE,
    token_mask: Tensor | None = None,
) -> float:
    """Trains the block on all data at once, by Adam with one cycle of the rate, and
    returns the share of tokens (N, n, d) whose highest score is their label (N, n).
    """
    kept = token_mask
    if token_mask is None:
        kept = torch.ones_like(labels, dtype=torch.bool)
    trained = [p for p in block.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        out = block(x, token_mask)
        loss = nn.functional.cross_entropy(out[kept], labels[kept])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = block(x, token_mask)[kept]
    return float((found.argmax(-1) == labels[kept]).double().mean())


def task(seed: int, sets: int = SETS, tokens: int = TOKENS):
    """(x, labels, vocabulary), float64 tokens."""
    g = torch.Generator().manual_seed(seed)
    vocabulary = torch.randn(tokens, D, generator=g, dtype=torch.float64) / 2
    chosen = {}
    while len(chosen) < sets:
        chosen[
            tuple(sorted(torch.randperm(tokens, generator=g)[:N_TOKENS].tolist()))
        ] = True
    x = vocabulary[torch.tensor(list(chosen))]
    return x, torch.randint(LABELS, x.shape[:2], generator=g), vocabulary


def directions(
    vocabulary: torch.Tensor, heads: int, g: torch.Generator
) -> torch.Tensor:
    """Checked directions, scaled so that the projected tokens have standard deviation
    1.
    """
    rows = [
        choose_projection(vocabulary, generator=g, best_of=20).v for _ in range(heads)
    ]
    return torch.stack([v / (vocabulary @ v).std() for v in rows])


def accuracy(
    seed: int,
    *,
    kind: str,
    heads: int = 1,
    rank: int = 1,
    width: int = WIDTH,
    sets: int = SETS,
    steps: int = STEPS,
) -> float:
    x, labels, vocabulary = task(seed, sets)
    g = torch.Generator().manual_seed(1000 + seed)
    given = directions(vocabulary, heads, g) if kind == "frozen" else None
    block = TrainedBlock(
        D,
        width,
        LABELS,
        kind=kind,
        heads=heads,
        rank=rank,
        directions=given,
        generator=g,
    )
    return round(train_block(block, x.float(), labels, steps=steps, rate=RATE), 4)


def entities(seed: int, kind: str, rank: int, steps: int) -> float:
    g = torch.Generator().manual_seed(seed)
    data = encode(
        generate_entities(200, generator=g),
        D,
        positions=True,
        generator=g,
        dtype=torch.float32,
    )
    given = (
        directions(
            data.x[data.token_mask].unique(dim=0),
            1,
            torch.Generator().manual_seed(2000 + seed),
        )
        if kind == "frozen"
        else None
    )
    block = TrainedBlock(
        D, WIDTH, len(data.names), kind=kind, rank=rank, directions=given, generator=g
    )
    return round(
        train_block(
            block,
            data.x,
            data.labels,
            steps=steps,
            rate=RATE,
            token_mask=data.token_mask,
        ),
        4,
    )


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    began, steps, seeds = (
        time.time(),
        20 if quick else STEPS,
        SEEDS[:1] if quick else SEEDS,
    )

    def said(name, values):
        return print(name, values, f"{time.time() - began:.0f} s", flush=True) or values

    result = {"models": {}, "width": {}, "entities": {}}
    for name, how in MODELS.items():
        result["models"][name] = said(
            name, [accuracy(s, steps=steps, **how) for s in seeds]
        )
    natural = (
        ("no attention", "none", 1),
        ("trained, rank 1", "trained", 1),
        ("trained, rank 16", "trained", 16),
    )
    for name, kind, rank in natural:
        result["entities"][name] = said(
            f"entities, {name}", [entities(s, kind, rank, steps) for s in seeds]
        )
    for sets in (50, 100):
        for width in (64, 256, 1024):
            for kind in ("frozen", "trained"):
                key = f"{kind}, N {sets}, width {width}"
                result["width"][key] = said(
                    key,
                    [
                        accuracy(s, kind=kind, width=width, sets=sets, steps=steps)
                        for s in seeds
                    ],
                )
    settings = {
        "tokens": TOKENS,
        "d": D,
        "n": N_TOKENS,
        "N": SETS,
        "labels": LABELS,
        "width": WIDTH,
        "steps": steps,
        "rate": RATE,
        "seeds": list(seeds),
        "optimizer": "Adam, one cycle, full batch",
        "dtype": "float32",
        "sentences": 200,
    }
    where = {"folder": store.ROOT / "_build"} if quick else {}
    print(
        store.write(
            "memorization",
            result,
            settings=settings,
            seconds=time.process_time(),
            **where,
        )
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
