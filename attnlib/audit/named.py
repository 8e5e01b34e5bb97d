"""A model by its name: the one that ships with the package, or one of transformers.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import warnings
from typing import Any

from attnlib.audit.checkpoints import SAMPLE
from attnlib.audit.tiny import load_tiny_model

NOT_FOUND = (
    "it is neither a folder with a model nor held on this machine, and could not be "
    "fetched. Is the name right, and is there a network? `tiny` needs none"
)


def load(name: str) -> tuple[Any, Any, str]:
    """A model to audit, its tokenizer, and a text for it.

    Args:
        name: tiny, which is here, or a name on the Hugging Face hub, or a folder.

    Returns:
        (model, tokenizer, text); the tokenizer is None where none is needed.

    Raises:
        RuntimeError: if transformers is not installed, if there is no such model or no
            network, or if weights are missing; in one sentence.
    """
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
            "transformers is not installed; pip install 'transformers>=5.4'"
        ) from None
    try:
        found = _fetch(transformers, name, local_files_only=True)
    except OSError:  # not here
        found = None
    try:
        tokenizer, model, about = found or _fetch(transformers, name)
    except OSError as error:
        raise RuntimeError(f"{name}: {NOT_FOUND}") from error
    lost = [key for key in about["missing_keys"] if not key.startswith("pooler.")]
    if lost:
        raise RuntimeError(
            f"{name}: it lacks {len(lost)} of its weights, such as {lost[0]}"
        )
    return model, tokenizer, SAMPLE


def _fetch(transformers, name: str, **where) -> tuple[Any, Any, dict]:
    """Tokenizer, model, and what was said while it was loaded; a repository's own code
    is never run.
    """
    where["trust_remote_code"] = False
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    model, about = transformers.AutoModel.from_pretrained(
        name, use_safetensors=True, output_loading_info=True, **where
    )
    return tokenizer, model, about
