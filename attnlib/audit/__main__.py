"""python -m attnlib.audit: the report of a model that is here or can be fetched.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence

from attnlib import audit
from attnlib.audit.report import NARROWEST, WIDEST


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
        help="a name on the Hugging Face hub, a folder, or tiny, which is here",
    )
    parser.add_argument("--text", help="what the model reads")
    parser.add_argument("--layers", help="numbers of layers, such as 0,5")
    parser.add_argument("--html", metavar="PATH", help="write the report as a page")
    parser.add_argument("--json", metavar="PATH", help="write its rows")
    parser.add_argument("--figure", metavar="PATH", help="draw it: png, svg or pdf")
    chosen = parser.parse_args(given)
    try:
        model, tokenizer, text = audit.load(chosen.model)
        report = audit.run(
            model,
            chosen.text if chosen.text is not None else text,
            tokenizer=tokenizer,
            layers=_numbers(chosen.layers),
            progress=sys.stderr.isatty(),
        )
        if chosen.html is not None:
            report.to_html(chosen.html)
        if chosen.json is not None:
            report.to_json(chosen.json)
        if chosen.figure is not None:
            report.figure().savefig(chosen.figure)
    except (ValueError, RuntimeError, OSError) as error:
        raise SystemExit(str(error)) from error
    columns = shutil.get_terminal_size((WIDEST, 24)).columns
    print(report.text(max(NARROWEST, min(columns, WIDEST))))


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    parts = layers.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--layers must be numbers such as 0,5, got {layers!r}")
    return [int(part) for part in parts]


if __name__ == "__main__":
    main()
