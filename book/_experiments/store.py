"""Keep the result of a long run: whole, with its provenance, or not at all."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "book" / "attnbook" / "data" / "results"

sys.path.insert(0, str(ROOT / "book" / "_tools"))
import pages  # noqa: E402  (it stands in the folder just named)


def hardware(device: str = "cpu") -> str:
    """The processor in words; no name of the machine."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def commit() -> str:
    """The commit the code was at, with "and changes" if files of the library or of the
    experiments differed from it.
    """

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    code = (
        "attnlib",
        "book/attnbook",
        "book/_experiments",
        f":!{RESULTS.relative_to(ROOT).as_posix()}",
    )  # a result just stored is not code
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (
        " and changes" if changed else ""
    )


def one_line_lists(text: str) -> str:
    """JSON with every list of numbers on one line."""
    return re.sub(
        r"\[\s+([-+.\deE,\s]+?)\s+\]",
        lambda m: "[" + " ".join(m[1].split()) + "]",
        text,
    )


def fingerprint(network: torch.nn.Module) -> str:
    """The hash of all weights as float32, so that two runs can be told apart."""
    digest = hashlib.sha256()
    for p in network.parameters():
        digest.update(p.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def write(
    name: str,
    result: object,
    *,
    settings: dict,
    seconds: float,
    device: str = "cpu",
    folder: Path = RESULTS,
) -> Path:
    """Store `result` as `name`.json; NaN and infinity are refused, because JSON has
    none and a result with them is not whole.
    """
    about = {
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "settings": settings,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch").split("+")[0],
        },
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    text = (
        one_line_lists(
            json.dumps({"about": about, "result": result}, indent=1, allow_nan=False)
        )
        + "\n"
    )
    path = folder / f"{name}.json"
    pages.write_atomically(path, text)
    return path
