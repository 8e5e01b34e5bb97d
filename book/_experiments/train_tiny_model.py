"""Train the small model that ships with attnlib: python
book/_experiments/train_tiny_model.py

About 12 CPU minutes with one thread. It reads the source text of modules that every
Python from 3.11 on carries, a fixed list. Their text differs a little from one Python
to the next, and floats differ from one processor to the next: another run gives the
same loss within 0.05, not the same bytes.
"""

from __future__ import annotations

import argparse
import json
import platform
import sysconfig
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.audit.tiny import CHARACTERS, MASK, TinyModel, encode

FOLDER = Path(__file__).resolve().parents[2] / "attnlib" / "audit"
CONFIG = {"layers": 4, "heads": 4, "width": 96, "seed": 0}
N, BATCH, STEPS, RATE = 256, 16, 1800, 3e-3
TRAINED_ON = [
    "_collections_abc",
    "_markupbase",
    "_osx_support",
    "_pydecimal",
    "_pyio",
    "_strptime",
    "_threading_local",
    "_weakrefset",
    "abc",
    "argparse",
    "ast",
    "base64",
    "bdb",
    "bz2",
    "cProfile",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "compileall",
    "configparser",
    "contextlib",
    "copy",
    "copyreg",
    "csv",
    "dataclasses",
    "difflib",
    "dis",
    "doctest",
    "enum",
    "filecmp",
    "fileinput",
    "fractions",
    "ftplib",
    "functools",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "gzip",
    "hashlib",
    "hmac",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "keyword",
    "linecache",
    "locale",
    "lzma",
    "mailbox",
    "mimetypes",
    "modulefinder",
    "netrc",
    "ntpath",
    "nturl2path",
    "numbers",
    "operator",
    "optparse",
    "os",
    "pdb",
    "pickle",
    "pickletools",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "py_compile",
    "pyclbr",
    "queue",
    "quopri",
    "random",
    "reprlib",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "subprocess",
    "symtable",
    "tabnanny",
    "tarfile",
    "tempfile",
    "threading",
    "timeit",
    "token",
    "tokenize",
    "trace",
    "traceback",
    "tracemalloc",
    "tty",
    "turtle",
    "types",
    "typing",
    "uuid",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "zipapp",
    "zipimport",
]
HELD_OUT = ["textwrap", "heapq", "bisect", "colorsys", "fnmatch"]
SAMPLES = 8  # passages of N characters from the modules held out, kept with the weights
LICENCE = (
    "The weights come under the licence of attnlib (MIT). They were trained on the "
    "source text of modules of the Python standard library, and the passages under "
    "'sample' are excerpts of such modules: Copyright (c) 2001 Python Software "
    "Foundation; All Rights Reserved; used under the PSF License Agreement, "
    "https://docs.python.org/3/license.html."
)


def hide(tokens: Tensor, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens with 15% of the places chosen, and which: of these 80% become MASK, 10% a
    random character, 10% stay (Devlin et al. 2019).
    """
    u = torch.rand(tokens.shape, generator=generator)
    other = torch.randint(len(CHARACTERS), tokens.shape, generator=generator)
    hidden = torch.where(u < 0.135, other, tokens)
    return torch.where(u < 0.12, MASK, hidden), u < 0.15


def masked_loss(
    model: TinyModel, tokens: Tensor, *, generator: torch.Generator
) -> Tensor:
    """Mean cross-entropy in nats at the hidden places."""
    hidden, chosen = hide(tokens, generator=generator)
    assert chosen.any(), "no place was hidden: a mean over no place is no number"
    return F.cross_entropy(model(hidden)[chosen], tokens[chosen])


def read(modules: list[str]) -> torch.Tensor:
    """The source of the modules, one after the other."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    return encode(
        "\n".join(
            (folder / f"{m}.py").read_text(encoding="utf-8")
            for m in modules
            if (folder / f"{m}.py").exists()
        )
    )


def held_out() -> torch.Tensor:
    """All whole passages of the modules held out, (passages, N)."""
    text = read(HELD_OUT)
    return text[: len(text) // N * N].view(-1, N)


@torch.no_grad()
def loss_on(model: TinyModel, passages: torch.Tensor) -> float:
    """The loss on passages, places chosen by a fixed seed."""
    return float(
        masked_loss(model, passages, generator=torch.Generator().manual_seed(1))
    )


def train(
    model: TinyModel, text: torch.Tensor, steps: int, batch: int
) -> list[list[float]]:
    """AdamW with a warm-up and a cosine; returns [step, training loss, loss on the
    passages held out].
    """
    g, log, mean = torch.Generator().manual_seed(0), [], 0.0
    wide = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": wide, "weight_decay": 0.05},
        {"params": rest, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98))

    def half(s):
        return 0.5 * (1 + torch.cos(torch.tensor(torch.pi * s / steps)).item())

    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1, (s + 1) / 100) * half(s)
    )
    for step in range(1, steps + 1):
        starts = torch.randint(len(text) - N, (batch,), generator=g)
        loss = masked_loss(
            model, torch.stack([text[s : s + N] for s in starts]), generator=g
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean += float(loss.detach())
        if step % 100 == 0 or step == steps:
            log.append(
                [
                    step,
                    round(mean / (step % 100 or 100), 4),
                    round(loss_on(model, held_out()), 4),
                ]
            )
            mean = 0.0
            print(*log[-1], f"{time.process_time():.0f} s", flush=True)
    return log


def main() -> None:
    """Train, store the weights in half precision, and measure what was stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args()
    torch.set_num_threads(1)
    began, text, model = time.process_time(), read(TRAINED_ON), TinyModel(**CONFIG)
    curve = train(model, text, args.steps, BATCH)
    stored = {
        name: w.detach().half().contiguous() for name, w in model.state_dict().items()
    }
    model.load_state_dict({name: w.float() for name, w in stored.items()})
    passages = held_out()
    picked = passages[torch.linspace(0, len(passages) - 1, SAMPLES).round().long()]
    source = "\n".join(
        (Path(sysconfig.get_paths()["stdlib"]) / f"{m}.py").read_text(encoding="utf-8")
        for m in HELD_OUT
    )
    starts = (torch.linspace(0, len(passages) - 1, SAMPLES).round().long() * N).tolist()
    about = {
        "config": CONFIG,
        "log": {
            "loss": round(loss_on(model, passages), 4),
            "sample_loss": round(loss_on(model, picked), 4),
            "curve": curve,
            "columns": ["step", "training loss", "loss on the modules held out"],
            "unit": "nats a hidden character",
            "characters": len(text),
            "steps": args.steps,
            "batch": BATCH,
            "n": N,
            "rate": RATE,
            "trained_on": TRAINED_ON,
            "held_out": HELD_OUT,
            "seconds": round(time.process_time() - began),
            "threads": 1,
            "python": platform.python_version(),
            "torch": version("torch").split("+")[0],
            "script": "book/_experiments/train_tiny_model.py",
        },
        "licence": LICENCE,
        "sample": [source[s : s + N] for s in starts],
    }
    weights = {name: weight.numpy() for name, weight in stored.items()}
    np.savez_compressed(args.folder / "tiny_model.npz", **weights)
    text = json.dumps(about, indent=1, allow_nan=False) + "\n"
    (args.folder / "tiny_model.json").write_text(text, encoding="utf-8", newline="\n")
    print(
        "loss",
        about["log"]["loss"],
        "sample",
        about["log"]["sample_loss"],
        about["log"]["seconds"],
        "s",
    )


if __name__ == "__main__":
    main()
