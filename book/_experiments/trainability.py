"""What training reaches, over heads and layers: writes trainability.json. python
trainability.py [--quick]

The task and the protocol are those of memorization.py, with five seeds. New are a
second attention layer, one matrix for Q, K and V as in the authors' experiments, the
inverse temperature of the theory, the head that `memorize` builds, and sentences from
the documentation that every Python carries; there a word's label is the word after it.

Prediction, written before the run. (a) Without attention a run attains its ceiling: the
most frequent label of each token. (b) Two trained layers of rank one, or two heads in
one layer, reach more than .95, where one head stays below .75 (a trial with two seeds
had suggested so). (c) With Q, K, V tied the order is the same. (d) A frozen head with
the theory's beta, or the one that `memorize` builds, trains no better than the frozen
one before. (e) Among frozen heads and layers the accuracy grows with the smallest gap
between ids of one token in R^H, but among single heads of different beta it does not:
what counts is how far the nearest rival typically is. (f) On the sentences one trained
head comes close to 1.

A run that falls short refutes nothing: one protocol, full-batch Adam with a fixed
number of steps.
"""

from __future__ import annotations

import re
import sys
import time
from pydoc_data.topics import topics

import store
import torch
from memorization import (
    LABELS,
    N_TOKENS,
    RATE,
    SETS,
    STEPS,
    WIDTH,
    D,
    directions,
    task,
    train_block,
)
from trained_block import TrainedBlock

from attnbook.data.conll import Tagged, encode
from attnlib.memorize import data_scale, memorize

SEEDS = (0, 1, 2, 3, 4)
TRAINED = {
    "no attention": {"kind": "none"},
    "one head": {},
    "two layers": {"layers": 2},
    "two heads": {"heads": 2},
    "one head, tied": {"tied": True},
    "two layers, tied": {"tied": True, "layers": 2},
    "two heads, tied": {"tied": True, "heads": 2},
}
FROZEN = {
    "frozen, one head": {},
    "frozen, the head that memorize builds": {"which": "memorize"},
    "frozen, the beta of the theory": {"which": "theory"},
    "frozen, two heads": {"heads": 2},
    "frozen, two layers": {"layers": 2},
    "frozen, four heads": {"heads": 4},
    "frozen, four layers": {"layers": 4},
    "frozen, eight heads": {"heads": 8},
    "frozen, one head, beta 0.003": {"beta": 0.003},
    "frozen, one head, beta 3": {"beta": 3.0},
    "frozen, one head, beta 30": {"beta": 30.0},
}
SENTENCES = ("no attention", "one head", "two layers", "two heads")


def ceiling(x: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of tokens that have the most frequent label of their token."""
    token = x.unique(dim=0, return_inverse=True)[1]
    counts = torch.zeros(int(token.max()) + 1, int(labels.max()) + 1)
    counts.index_put_((token, labels), torch.ones(len(labels)), accumulate=True)
    return round(float(counts.amax(1).sum()) / len(labels), 5)


def gaps(x: torch.Tensor, context: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Smallest and median distance to the nearest rival, another place with the same
    token and another label, in units of the spread of the context.
    """
    token = x.unique(dim=0, return_inverse=True)[1]
    spread = (context - context.mean(0)).norm(dim=1).square().mean().sqrt()
    if spread == 0:
        return [0.0, 0.0]
    apart = torch.cdist(context, context, compute_mode="donot_use_mm_for_euclid_dist")
    same_token = token[:, None] == token
    rivals = same_token & (labels[:, None] != labels)
    nearest = apart.masked_fill(~rivals, torch.inf).amin(1) / spread
    nearest = nearest[nearest < torch.inf]
    return [float(f"{v:.4g}") for v in (nearest.min(), nearest.median())]


def frozen_block(
    seed: int, which: str = "", layers: int = 1, heads: int = 1, beta: float = 0.3
) -> TrainedBlock:
    """Heads that stay as they are, each scaled to tokens of unit spread along it."""
    x, labels, vocabulary = task(seed)
    g = torch.Generator().manual_seed(1000 + seed)
    if which == "memorize":
        net = memorize(x, labels, generator=torch.Generator().manual_seed(seed))
        spread = float((vocabulary @ net.v).std())
        return build(g, (net.v / spread)[None], beta=net.report.beta * spread**2)
    rows = directions(vocabulary, heads, g)
    if which == "theory":
        beta = data_scale(vocabulary @ rows[0], N_TOKENS).beta
    for layer in range(1, layers):
        block = build(torch.Generator(), rows, layers=layer, heads=heads, beta=beta)
        tokens = block.double().attend(x).detach().flatten(0, 1).unique(dim=0)
        rows = torch.cat([rows, directions(tokens, heads, g)])
    return build(g, rows, layers=layers, heads=heads, beta=beta)


def build(g: torch.Generator, rows: torch.Tensor, **how) -> TrainedBlock:
    """A frozen block with these directions."""
    return TrainedBlock(
        D, WIDTH, LABELS, kind="frozen", directions=rows, generator=g, **how
    )


def run(block: TrainedBlock, seed: int, steps: int) -> tuple[float, list[float]]:
    """Accuracy on the task of this seed, and the gaps behind the attention."""
    x, labels, _ = task(seed)
    reached = train_block(block, x.float(), labels, steps=steps, rate=RATE)
    with torch.no_grad():
        context = block.double().attend(x) - x
    return round(reached, 5), gaps(
        x.flatten(0, 1), context.flatten(0, 1), labels.view(-1)
    )


def read_sentences() -> Tagged:
    """Sentences of five to eight different plain words, each word with the next one."""
    found = {}
    for text in topics.values():
        for sentence in re.split(r"(?<=[.])\s+", " ".join(text.split())):
            words = sentence[:-1].lower().split()
            plain = all(re.fullmatch("[a-z]+", word) for word in words)
            different = len(set(words)) == len(words)
            if sentence.endswith(".") and plain and different and 5 <= len(words) <= 8:
                found[tuple(words)] = [*words[1:], "."]
    return Tagged([list(words) for words in found], list(found.values()))


def run_sentences(name: str, seed: int, steps: int) -> tuple[float, float]:
    """Accuracy on the sentences, with vectors of this seed, and the ceiling."""
    g = torch.Generator().manual_seed(seed)
    data = encode(
        read_sentences(), D, positions=False, generator=g, dtype=torch.float32
    )
    block = TrainedBlock(D, WIDTH, len(data.names), generator=g, **TRAINED[name])
    seen = data.token_mask
    reached = train_block(
        block, data.x, data.labels, steps=steps, rate=RATE, token_mask=seen
    )
    return round(reached, 5), ceiling(data.x[seen], data.labels[seen])


def main(quick: bool) -> None:
    torch.set_num_threads(1)
    began = time.process_time()
    steps = 20 if quick else STEPS
    seeds = SEEDS[:1] if quick else SEEDS
    result = {"accuracy": {}, "gaps": {}, "ceiling": [], "sentences": {}}
    for seed in seeds:
        x, labels, _ = task(seed)
        result["ceiling"].append(ceiling(x.flatten(0, 1), labels.flatten()))
    for name in (*TRAINED, *FROZEN):
        found = []
        for seed in seeds:
            if name in FROZEN:
                block = frozen_block(seed, **FROZEN[name])
            else:
                g = torch.Generator().manual_seed(1000 + seed)
                block = TrainedBlock(D, WIDTH, LABELS, generator=g, **TRAINED[name])
            found.append(run(block, seed, steps))
        result["accuracy"][name] = [reached for reached, _ in found]
        result["gaps"][name] = [pair for _, pair in found]
        spent = time.process_time() - began
        print(f"{spent:5.0f} s  {name}: {found}", flush=True)
    for name in SENTENCES:
        found = [run_sentences(name, seed, steps) for seed in seeds[:3]]
        result["sentences"][name] = [reached for reached, _ in found]
        result["sentences"]["ceiling"] = [most for _, most in found]
        spent = time.process_time() - began
        print(f"{spent:5.0f} s  sentences, {name}: {found}", flush=True)
    settings = {
        "d": D,
        "n": N_TOKENS,
        "N": SETS,
        "labels": LABELS,
        "width": WIDTH,
        "steps": steps,
        "rate": RATE,
        "seeds": list(seeds),
        "sentences": len(read_sentences().words),
        "optimizer": "Adam, one cycle, full batch",
        "dtype": "float32",
    }
    where = {"folder": store.ROOT / "_build"} if quick else {}
    seconds = time.process_time()
    print(
        store.write("trainability", result, settings=settings, seconds=seconds, **where)
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
