"""python -m attnlib.audit: the report of a model that is here or can be fetched.

Page: notebooks/synthesis/five_theorems_one_matrix
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from attnlib import audit
from attnlib.data.checkpoints import SAMPLE
from attnlib.data.tiny import load_tiny_model

NOT_FOUND = (
    "it is neither a folder with a model nor held on this machine, and could not be "
    "fetched. Is the name right, and is there a network? `tiny` needs none"
)


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
    chosen = parser.parse_args(given)
    try:
        model, tokenizer, text = _load(chosen.model)
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
    except (ValueError, RuntimeError, OSError) as error:
        raise SystemExit(f"{chosen.model}: {error}") from error
    print(report)


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    parts = layers.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"--layers must be numbers such as 0,5, got {layers!r}")
    return [int(part) for part in parts]


def _load(name: str) -> tuple[Any, Any, str]:
    """A model, its tokenizer if it needs one, and a text for it."""
    if name == "tiny":
        model = load_tiny_model()
        return model, None, model.sample[0][:128]
    try:
        with warnings.catch_warnings():
            # tqdm's, about widgets, with a path of the machine
            warnings.simplefilter("ignore")
            import transformers
    except ImportError:
        raise RuntimeError(
            "transformers is not installed; pip install 'attnlib[checkpoints]'"
        ) from None
    try:
        found = _fetch(transformers, name, local_files_only=True)
    except OSError:  # not here
        found = None
    try:
        tokenizer, model, about = found or _fetch(transformers, name)
    except OSError as error:
        raise RuntimeError(NOT_FOUND) from error
    lost = [key for key in about["missing_keys"] if not key.startswith("pooler.")]
    if lost:
        raise RuntimeError(f"it lacks {len(lost)} of its weights, such as {lost[0]}")
    return model, tokenizer, SAMPLE


def _fetch(transformers, name: str, **where) -> tuple[Any, Any, dict]:
    """Tokenizer, model, and what was said while it was loaded."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    model, about = transformers.AutoModel.from_pretrained(
        name, use_safetensors=True, output_loading_info=True, **where
    )
    return tokenizer, model, about


if __name__ == "__main__":
    main()
