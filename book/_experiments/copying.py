"""Copying, text and mixers by pattern and sparsity: small networks, three seeds each,
stored whole.

    python book/_experiments/copying.py [PART ...]

The parts are copying, longer, mixers, masked, language, mixers_on_text and full.
All parts but full took 512 CPU seconds together on one thread, full took 966, by the
stored file. The parts but full use the dense kernel of `attnlib.sparse` with masks,
which is the faster one for 32 and 64 tokens. Parts that are not named are kept as they
were stored. `about` describes the last call alone; what is known of each part stands
under `about.settings.records`: command, commit, seconds and the settings of its own.

full is the copying task at 256 tokens, by the sparse kernel, or by the dense one for
random sets, which is faster there. It is not among the parts that run by default. Each
of its cases is stored when its three seeds are done; a call that was cut short goes on
with the cases that are missing, as long as the settings are the same. A GPU is used
where there is one.

Predictions, written before the stored runs; four pilot runs and a prototype had set
rate and steps. After the predictions the text runs were shortened from 600 steps of 16
passages to 300 of 8, and the mixers to 240 steps. (R is the share of symbols within
reach, V = 16):
 1. No run exceeds its ceiling. Where R = 0 accuracy is 1/16 up to sampling: star at any
    depth, strided with half a window, every pattern whose single layer does not hold
    the offset.
 2. Two layers of strided (whole window) and of fixed copy everything, under all three
    schemes: at least 0.95.
 3. One layer of fixed gets to its bound 5/16 within 0.05 as union or multihead;
    sequential stays at chance.
 4. A window of 8 is at chance with two layers and copies with three.
 5. Random sets come within 0.05 of the bound of their own draw.
 6. A bilinear projection copies, alone or beside attention, since the source stands at
    a fixed distance. Two layers of convolution are at chance; one layer of dense
    attention beside one of convolution copies.
 7. Text: all patterns lie within 0.2 bits of dense attention; random sets are the worst
    at equal sparsity. Bilinear projections alone are worse than attention; a
    convolution is at least as good at this small size.

Full size, written after pilots of one seed each and before the stored runs. With a
readout of its own a network was still at chance after 300 steps for two layers of
strided (200 for one layer of fixed), with random and with sinusoidal positions. With a
tied readout two layers of strided copied, with either kind of positions; we took
sinusoidal ones, which were a little faster. (In the tied pilots embeddings and sines
had a factor of 0.15 at the start, now 1/8 and 0.18.) The pilots had from 300 to 1000
steps, so what they showed is no prediction: strided 1.00 under all three schemes, one
layer of fixed 0.071, two layers of fixed 0.56 after 600 steps, random sets of 26 draws
0.85 after 400. Predictions for three seeds and 320 steps:
 8. No run exceeds its ceiling. Star and half strided stay at 1/127, within one point.
 9. Strided: at least 0.99 under all three schemes and for all seeds.
10. One layer of fixed: within half a point of its bound 0.0704, though one query in
    sixteen alone has anything to learn.
11. Two layers of fixed have R = 1 and stay between 0.3 and 0.7: a state of width 64 has
    to carry 15 symbols of 127.
12. Random sets fall short of their bounds, 26 draws (0.95 to 0.99) by 0.1 to 0.25, 13
    draws (0.62 to 0.70) by more. So at 0.9 sparsity strided as SEQUENTIAL is ahead of
    random sets by more than 0.3, part of which is reach.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import math
import sys
import sysconfig
import time
from pathlib import Path

import starts
import store
import torch
from tqdm import tqdm

from attnbook.data import load_result
from attnbook.data.mixers import (
    Attend,
    Convolve,
    MixingNetwork,
    Project,
    evaluate,
    last_field,
    plan,
    reads,
    train_network,
)
from attnlib import copying, patterns
from attnlib.copying import IGNORED, causal_pattern, copy_targets
from attnlib.patterns import Pattern

SEEDS, HEADS, WIDTH, BATCH, RATE = (0, 1, 2), 4, 32, 32, 5e-3
M, SYMBOLS, STEPS, SAMPLES, FAILURE = 15, 16, 500, 8192, 1e-6
RANDOM_STEPS = 1000  # random sets learn more slowly
MIXER_STEPS = 240
TEXT_N, TEXT_BATCH, TEXT_STEPS, MASKED = 64, 8, 300, 0.15
CHARACTERS = " abcdefghijklmnopqrstuvwxyz."
MODULES = [
    "argparse",
    "base64",
    "bisect",
    "calendar",
    "cmd",
    "codecs",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "dataclasses",
    "difflib",
    "dis",
    "doctest",
    "enum",
    "fileinput",
    "fnmatch",
    "fractions",
    "functools",
    "getopt",
    "gettext",
    "glob",
    "graphlib",
    "hashlib",
    "heapq",
    "inspect",
    "ipaddress",
    "keyword",
    "locale",
    "logging",
    "mailbox",
    "numbers",
    "optparse",
    "pdb",
    "pickle",
    "pickletools",
    "pprint",
    "profile",
    "queue",
    "random",
    "sched",
    "shelve",
    "shlex",
    "shutil",
    "socket",
    "statistics",
    "string",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "timeit",
    "trace",
    "traceback",
    "turtle",
    "types",
    "unittest",
    "uuid",
    "warnings",
    "weakref",
    "zipfile",
    "_pydecimal",
    "_pyio",
]


def pattern(name: str, n: int, w: int, seed: int) -> Pattern:
    """A causal pattern of a size w; random sets are drawn anew for each seed."""
    return causal_pattern(
        name, n, w, generator=torch.Generator().manual_seed(1000 + seed)
    )


def sparsity(mixings: list, one_sided: bool = True) -> float:
    """The share of the pairs (k, j), j <= k if one_sided, that are not read: a mean
    over heads and layers.
    """
    n = reads(mixings[0]).shape[-1]
    read = (
        sum(float(reads(mixing).float().mean()) for mixing in mixings)
        / len(mixings)
        * n
        * n
    )
    return 1 - read / (n * (n + 1) / 2 if one_sided else n * n)


def run(network: MixingNetwork, draw, test, steps: int, progress: bool = False) -> dict:
    """One trained run, whole: its curve, the hash of its weights, and how it does on
    what was not trained on.
    """
    began = time.process_time()
    bar = tqdm(total=steps, delay=3, leave=False, disable=not progress)

    def next_batch():
        bar.update()
        return draw()

    with bar:
        curve = train_network(network, next_batch, steps=steps, rate=RATE)
    accuracy, loss = evaluate(network, *test)
    return {
        "accuracy": accuracy,
        "loss": round(loss, 5),
        "curve": curve,
        "weights": store.fingerprint(network),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def copy_run(
    mixings: list,
    seed: int,
    *,
    m: int = M,
    symbols: int = SYMBOLS,
    steps: int = STEPS,
    samples: int = SAMPLES,
    batch: int = BATCH,
    width: int = WIDTH,
    device: str = "cpu",
    progress: bool = False,
    positions: str = "random",
    tied: bool = False,
) -> dict:
    """A run of the copying task, with what its receptive fields allow."""
    g = torch.Generator(device=device).manual_seed(seed)
    hit = copying.reached(last_field(mixings))

    def draw(size=batch):
        x = copying.sequences(m, symbols, size, generator=g)
        return x, copy_targets(x)

    network = MixingNetwork(symbols + 1, mixings, width=width, seed=seed)
    if positions == "sinusoidal":
        starts.sinusoidal(network)
    if tied:
        starts.tied(network)
    network = network.to(device)
    test = copying.sequences(
        m,
        symbols,
        samples,
        generator=torch.Generator(device=device).manual_seed(10**6 + seed),
    )
    done = run(network, draw, (test, copy_targets(test)), steps, progress)
    return {
        "seed": seed,
        "reached": int(hit.sum()),
        "bound": float(copying.bound(hit, symbols)),
        "ceiling": copying.ceiling(hit, symbols, samples=samples, failure=FAILURE),
        **done,
    }


COPYING = [  # pattern, w, layers, scheme
    ("dense", 0, 1, "union"),
    *(("strided", w, 2, "union") for w in (2, 4, 8)),
    *(("strided", 4, 2, s) for s in ("multihead", "sequential")),
    *(("strided", 4, 1, s) for s in ("union", "multihead", "sequential")),
    ("half strided", 4, 2, "union"),
    *(("fixed", w, 2, "union") for w in (2, 4, 8)),
    *(("fixed", 4, 2, s) for s in ("multihead", "sequential")),
    *(("fixed", 4, 1, s) for s in ("union", "multihead", "sequential")),
    *(("star", 0, L, "union") for L in (2, 4)),
    ("window", 4, 2, "union"),
    ("window", 8, 2, "union"),
    ("window", 8, 3, "union"),
    *(("random", w, 2, "union") for w in (2, 4, 6, 10)),
    ("random", 6, 1, "union"),
]


def copying_part() -> list[dict]:
    """Every pattern, size, depth and scheme of COPYING."""
    found = []
    for name, w, L, scheme in COPYING:
        runs = []
        for seed in SEEDS:
            mixings = plan(pattern(name, 2 * (M + 1), w, seed), L, HEADS, scheme)
            steps = RANDOM_STEPS if name == "random" else STEPS
            runs.append(
                {
                    "sparsity": round(sparsity(mixings), 4),
                    **copy_run(mixings, seed, steps=steps),
                }
            )
        found.append(
            {"pattern": name, "w": w, "layers": L, "scheme": scheme, "runs": runs}
        )
        say(name, w, L, scheme, runs)
    return found


LONGER = ({"steps": STEPS, "width": 2 * WIDTH}, {"steps": 2 * STEPS, "width": WIDTH})


def longer() -> list[dict]:
    """After the first part: the variant that fell furthest below its bound, once with
    twice the width, once with more steps.
    """
    found = []
    for changed in LONGER:
        runs = [
            copy_run(
                plan(pattern("fixed", 2 * (M + 1), 8, seed), 2, HEADS, "union"),
                seed,
                **changed,
            )
            for seed in SEEDS
        ]
        found.append(
            {
                "pattern": "fixed",
                "w": 8,
                "layers": 2,
                "scheme": "union",
                **changed,
                "runs": runs,
            }
        )
        say("longer", changed, runs)
    return found


def mixings_of(letters: str, n: int) -> list:
    """A: dense causal attention, B: bilinear projection, C: separable convolution of
    width 5; one letter a layer.
    """
    made = {
        "A": Attend(causal_pattern("dense", n), (0,) * HEADS),
        "B": Project(n),
        "C": Convolve(n, 5),
    }
    return [made[letter] for letter in letters]


MIXERS = ("AA", "BB", "CC", "AB", "BA", "AC", "CA")


def mixers() -> list[dict]:
    """Attention replaced in all or some layers, on the copying task."""
    found = []
    for letters in MIXERS:
        runs = [
            copy_run(mixings_of(letters, 2 * (M + 1)), seed, steps=MIXER_STEPS)
            for seed in SEEDS
        ]
        found.append({"layers": letters, "runs": runs})
        say("copying", letters, runs)
    return found


def mixers_on_text() -> list[dict]:
    """The same on text."""
    found = []
    for letters in MIXERS[1:]:  # AA is the dense pattern of the part language
        runs = [text_run(mixings_of(letters, TEXT_N), seed) for seed in SEEDS]
        found.append({"layers": letters, "runs": runs})
        say("language", letters, runs)
    return found


@functools.cache
def text() -> str:
    """Docstrings of modules that every Python carries: lower case, a full stop for all
    but letters and spaces.
    """
    folder, found = Path(sysconfig.get_paths()["stdlib"]), []
    for name in MODULES:
        path = next(
            (
                p
                for p in (folder / f"{name}.py", folder / name / "__init__.py")
                if p.exists()
            ),
            None,
        )
        if path is None:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                words := ast.get_docstring(node)
            ):
                found.append(" ".join(inspect.cleandoc(words).lower().split()))
    whole = "".join(c if c in CHARACTERS else "." for c in " ".join(found))
    while ".." in whole:
        whole = whole.replace("..", ".")
    return whole


@functools.cache
def ids() -> tuple[torch.Tensor, torch.Tensor]:
    """The text as numbers: nine tenths to train on, the last tenth to test on."""
    numbers = torch.tensor([CHARACTERS.index(c) for c in text()])
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:]


def passages(
    source: torch.Tensor, size: int, masked: bool, g: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Passages and targets: the next character, or the hidden ones (one in seven on
    average, shown as a sign of their own).
    """
    starts = torch.randint(len(source) - TEXT_N - 1, (size, 1), generator=g)
    x = source[starts + torch.arange(TEXT_N + 1)]
    if not masked:
        return x[:, :-1], x[:, 1:]
    x, hidden = x[:, :-1], torch.rand(size, TEXT_N, generator=g) < MASKED
    return x.masked_fill(hidden, len(CHARACTERS)), x.masked_fill(~hidden, IGNORED)


def text_run(mixings: list, seed: int, masked: bool = False) -> dict:
    """A run on text: next characters, or hidden ones."""
    g, (fit, held) = torch.Generator().manual_seed(seed), ids()
    test = passages(held, 512, masked, torch.Generator().manual_seed(10**6))
    network = MixingNetwork(len(CHARACTERS) + 1, mixings, width=WIDTH, seed=seed)
    done = run(network, lambda: passages(fit, TEXT_BATCH, masked, g), test, TEXT_STEPS)
    return {"seed": seed, "bits": round(done["loss"] / math.log(2), 4), **done}


def single_guess() -> float:
    """The accuracy on hidden characters of naming the commonest one everywhere."""
    _, targets = passages(ids()[1], 512, True, torch.Generator().manual_seed(10**6))
    hidden = targets[targets != IGNORED]
    return round(float(hidden.bincount().max()) / len(hidden), 5)


LANGUAGE = [
    ("dense", 0),
    ("strided", 8),
    ("fixed", 8),
    ("star", 0),
    ("random", 4),
    ("random", 8),
]
ENCODER = [
    ("dense", 0),
    ("strided", 8),
    ("fixed", 8),
    ("star", 0),
    ("random", 4),
    ("random", 8),
]


def by_pattern(cases: list, masked: bool) -> list[dict]:
    """Two layers on text, the steps of a pattern as union."""
    found = []
    for name, w in cases:
        runs = []
        for seed in SEEDS:
            made = (
                encoder_pattern(name, w, seed)
                if masked
                else pattern(name, TEXT_N, w, seed)
            )
            mixings = plan(made, 2, HEADS, "union")
            runs.append(
                {
                    "sparsity": round(sparsity(mixings, not masked), 4),
                    **text_run(mixings, seed, masked),
                }
            )
        found.append({"pattern": name, "w": w, "layers": 2, "runs": runs})
        say("masked" if masked else "language", name, w, runs)
    return found


def encoder_pattern(name: str, w: int, seed: int) -> Pattern:
    """The same patterns with both sides, for the encoder."""
    return {
        "dense": lambda: patterns.dense(TEXT_N),
        "strided": lambda: patterns.strided(TEXT_N, w, reach=w - 1),
        "fixed": lambda: patterns.fixed(TEXT_N, w),
        "star": lambda: patterns.star(TEXT_N),
        "random": lambda: patterns.random(
            TEXT_N, w, generator=torch.Generator().manual_seed(1000 + seed)
        ),
    }[name]()


FULL = {
    "m": 127,
    "symbols": 127,
    "steps": 320,
    "samples": 2048,
    "batch": 16,
    "width": 64,
    "positions": "sinusoidal",
    "tied": True,
}
FULL_CASES = [  # pattern, w, layers, scheme; the order in which they run
    ("strided", 16, 2, "union"),
    ("fixed", 16, 1, "union"),
    ("fixed", 16, 2, "union"),
    ("strided", 16, 2, "sequential"),
    ("strided", 16, 2, "multihead"),
    ("random", 26, 2, "union"),
    ("star", 0, 4, "union"),
    ("half strided", 16, 2, "union"),
    ("random", 13, 2, "union"),
    ("fixed", 16, 2, "sequential"),
    ("fixed", 16, 2, "multihead"),
]


def full_case(
    name: str, w: int, L: int, scheme: str, *, seeds: tuple = SEEDS, sizes: dict = FULL
) -> dict:
    """256 tokens: all seeds of one case."""
    device, runs = "cuda" if torch.cuda.is_available() else "cpu", []
    for seed in seeds:
        mixings = plan(
            pattern(name, 2 * (sizes["m"] + 1), w, seed),
            L,
            HEADS,
            scheme,
            sparse=name != "random",
        )
        one = copy_run(mixings, seed, **sizes, device=device, progress=True)
        runs.append({"sparsity": round(sparsity(mixings), 4), **one})
    say(name, w, L, scheme, runs)
    return {
        "pattern": name,
        "w": w,
        "layers": L,
        "scheme": scheme,
        "device": device,
        "runs": runs,
    }


def full(commit: str) -> None:
    """Every case of FULL_CASES that is not stored under the settings of this script;
    each is stored when it is done.
    """
    kept = stored()
    own = kept["about"]["settings"].get("records", {}).get("full", {"settings": None})
    part = (
        kept["result"].get("full", []) if own["settings"] == settings_of("full") else []
    )
    spent = own["seconds"] if part else 0
    done = {(v["pattern"], v["w"], v["layers"], v["scheme"]) for v in part}
    for case in FULL_CASES:
        if case not in done:
            began = time.perf_counter()
            part.append({**full_case(*case), "commit": commit})
            seconds = time.perf_counter() - began
            spent += seconds
            keep("full", part, commit, seconds, spent)


def say(*words) -> None:
    *labels, runs = words
    print(
        *labels,
        *(f"{r['accuracy']:.4f}" for r in runs),
        *(f"{r[k]:.4f}" for k in ("bound", "bits") if k in runs[0] for r in runs[:1]),
        f"{sum(r['cpu_seconds'] for r in runs):.0f} s",
        flush=True,
    )


PARTS = {
    "copying": copying_part,
    "longer": longer,
    "mixers": mixers,
    "masked": lambda: by_pattern(ENCODER, True),
    "language": lambda: by_pattern(LANGUAGE, False),
    "mixers_on_text": mixers_on_text,
}


COMMON = {
    "heads": HEADS,
    "width": WIDTH,
    "batch": BATCH,
    "rate": RATE,
    "seeds": list(SEEDS),
}
TASK = {"m": M, "symbols": SYMBOLS, "test sequences": SAMPLES, "failure": FAILURE}


def settings_of(name: str) -> dict:
    """The settings that a part uses."""
    if name in ("masked", "language", "mixers_on_text"):
        hidden = {"hidden": MASKED} if name == "masked" else {}
        return {
            **COMMON,
            "batch": TEXT_BATCH,
            "tokens": TEXT_N,
            "steps": TEXT_STEPS,
            **hidden,
        }
    if name == "full":
        return {**COMMON, "failure": FAILURE, **FULL}
    own = {
        "copying": {"steps": STEPS, "random steps": RANDOM_STEPS},
        "longer": {"steps and width": list(LONGER)},
        "mixers": {"steps": MIXER_STEPS},
    }[name]
    return {**COMMON, **TASK, **own}


def record(name: str, part: list[dict], commit: str, seconds: float) -> dict:
    """Where a part comes from: it stays with the part when others are run again."""
    return {
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit,
        "seconds": round(seconds, 1),
        "cpu_seconds": cpu(part),
        "settings": settings_of(name),
    }


def cpu(part: list[dict]) -> float:
    return round(
        sum(run["cpu_seconds"] for variant in part for run in variant["runs"]), 1
    )


def stored() -> dict:
    """What is stored already, or an empty result."""
    try:
        return load_result("copying")
    except ValueError:
        return {"about": {"seconds": 0, "settings": {}}, "result": {}}


def keep(
    name: str, part: list[dict], commit: str, seconds: float, spent: float
) -> None:
    """Stores a part beside the others; seconds: since the last time that something was
    stored, spent: on the part.
    """
    kept = stored()
    records = {
        **kept["about"]["settings"].get("records", {}),
        name: record(name, part, commit, spent),
    }
    whole = {
        "sha256": hashlib.sha256(text().encode()).hexdigest(),
        "characters": len(text()),
        "single guess": single_guess(),
    }
    settings = {**COMMON, **TASK, "text": whole, "records": records}
    seconds += kept["about"]["seconds"]
    print(
        store.write(
            "copying",
            {**kept["result"], name: part},
            settings=settings,
            seconds=seconds,
        ),
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(1)
    commit = (
        store.commit()
    )  # of the code that was loaded, before a part has changed the stored file
    for name in sys.argv[1:] or PARTS:
        if name == "full":
            full(commit)
            continue
        began = time.perf_counter()
        part = PARTS[name]()
        seconds = time.perf_counter() - began
        keep(name, part, commit, seconds, seconds)


if __name__ == "__main__":
    main()
