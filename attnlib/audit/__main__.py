"""python -m attnlib.audit: the report of a model that is here or can be fetched.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from attnlib import audit
from attnlib._require import FLOATS, require
from attnlib.audit.pictures import SUFFIXES
from attnlib.audit.report import NARROWEST, TOP, WIDEST


def main(given: Sequence[str] | None = None) -> None:
    """Print the report of one model on one text.

    Args:
        given: the arguments of the command line; None for those of the process.

    Raises:
        SystemExit: for a model that cannot be loaded or audited, with a sentence.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attnlib.audit",
        description="What the theorems of the book say about a model.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="tiny",
        help="a name on the Hugging Face hub, a folder, a file .gguf, or tiny",
    )
    parser.add_argument("--text", help="what the model reads")
    parser.add_argument("--file", metavar="PATH", help="a file with what it reads")
    parser.add_argument("--layers", help="numbers of layers, such as 0,5")
    parser.add_argument("--top", help=f"heads in the table, or all; {TOP} if left out")
    parser.add_argument("--exact", action="store_true", help="ranks of long texts too")
    parser.add_argument("--verify", action="store_true", help="replace named heads")
    parser.add_argument("--device", help="where it runs, such as cuda")
    parser.add_argument("--dtype", help="of its weights, such as bfloat16")
    parser.add_argument("--html", metavar="PATH", help="write the report as a page")
    parser.add_argument("--json", metavar="PATH", help="write its rows")
    parser.add_argument("--figure", metavar="PATH", help="draw it: png, svg or pdf")
    chosen = parser.parse_args(given)
    columns = shutil.get_terminal_size((WIDEST, 24)).columns
    width = max(NARROWEST, min(columns, WIDEST))
    try:
        top = _top(chosen.top)
        _check_figure(chosen.figure)
        dtype = _dtype(chosen.dtype)
        text = chosen.text
        if chosen.file is not None:
            text = Path(chosen.file).read_text(encoding="utf-8")
        model, tokenizer, ours = audit.load(
            chosen.model, device=chosen.device, dtype=dtype
        )
        report = audit.run(
            model,
            ours if text is None else text,
            tokenizer=tokenizer,
            layers=_numbers(chosen.layers),
            exact=chosen.exact,
            progress=sys.stderr.isatty(),
        )
        print(report.text(width, top))
        if chosen.html is not None:
            report.to_html(chosen.html)
        if chosen.json is not None:
            report.to_json(chosen.json)
        if chosen.figure is not None:
            report.figure().savefig(chosen.figure)
        if chosen.verify:
            print(f"\n{report.verify()}")
    except (ValueError, RuntimeError, OSError) as error:
        raise SystemExit(str(error)) from error


def _top(top: str | None) -> int | None:
    if top is None or top == "all":
        return TOP if top is None else None
    require(
        top.isdecimal() and int(top) > 0, f"--top must be a number or all, got {top!r}"
    )
    return int(top)


def _dtype(name: str | None) -> torch.dtype | None:
    known = {str(dtype).removeprefix("torch."): dtype for dtype in FLOATS}
    require(
        name is None or name in known,
        f"--dtype must be one of {', '.join(known)}, got {name!r}",
    )
    return known.get(name)


def _check_figure(path: str | None) -> None:
    require(
        path is None or Path(path).suffix in SUFFIXES,
        f"--figure must end in one of {', '.join(SUFFIXES)}, got {path!r}",
    )


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    parts = layers.split(",")
    require(
        all(part.strip().isdecimal() for part in parts),
        f"--layers must be numbers such as 0,5, got {layers!r}",
    )
    return [int(part) for part in parts]


if __name__ == "__main__":
    main()
