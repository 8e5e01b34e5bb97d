"""What a page needs and a machine without a network has: stored results of long
runs.

Page: book/how_to_run
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from attnbook.data.checkpoints import (  # noqa: F401 (public here)
    Checkpoint,
    attention_maps,
    checkpoint_states,
    convert,
    load_checkpoint,
)
from attnlib._require import require
from attnlib.audit.named import SAMPLE  # noqa: F401 (public here)
from attnlib.audit.tiny import (  # noqa: F401 (public here)
    TinyModel,
    attention_heads,
    encode,
    load_tiny_model,
)


def load_result(name: str) -> dict[str, Any]:
    """A stored result of a long run, with its provenance.

        {"about": command, settings, versions, hardware, seconds, commit, date,
         "result": the numbers}

    Args:
        name: the name of a file of book/attnbook/data/results, without its ending.

    Returns:
        a dict of plain Python numbers, strings, lists and dicts.

    Raises:
        ValueError: if nothing of that name is stored; the message lists what is.
    """
    folder = files("attnbook.data").joinpath("results")
    stored = []
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.name.endswith(".json"):
                stored.append(entry.name.removesuffix(".json"))
    stored.sort()
    require(
        isinstance(name, str) and re.fullmatch(r"\w+", name) is not None,
        f"name must be a word, got {name!r}",
    )
    require(name in stored, f"no stored result {name!r}; there are {stored}")
    return json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
