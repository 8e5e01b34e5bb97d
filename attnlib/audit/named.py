"""A model by its name: the one that ships with the package, or one of transformers; and
texts for it.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from attnlib.audit.tiny import load_tiny_model

# Our own words, for pages and reports that need some English.
SAMPLE = (
    "A head replaces each token by a weighted mean of tokens. Means lie closer "
    "together than what they average, so\n"
    "one would expect the tokens to become alike as the layers go by. Whether they "
    "do depends on what else a layer contains.\n"
    "A skip adds the old token to the new one. A feed-forward part treats each "
    "token by itself, and may push two tokens apart\n"
    "that differ only a little. A normalisation divides each token by a number of "
    "its own. We measure how far the tokens are\n"
    "from their mean after each of twelve layers, once for the network as it was "
    "trained and once with the skip around the\n"
    "attention taken away. Nothing is trained again, so the second network has "
    "never met such inputs before, and we only ask\n"
    "what happens to the distances."
)
OTHER = (
    "The river had frozen early that year. In the morning two children carried a long "
    "wooden ladder down to the bank,\n"
    "because their uncle had told them that a ladder spreads your weight and keeps you "
    "safe on thin ice. They laid it flat,\n"
    "crawled along the rungs, and looked down at the stones and the green weeds below. "
    "A fish stood still in the current.\n"
    'When they came home their mother asked where they had been. "Nowhere," said the '
    "younger one, and put the wet gloves\n"
    "behind the stove. Nobody spoke of it again until the spring, when the ladder was "
    "found far away, near the mill."
)
NOT_FOUND = (
    "it is neither a folder with a model nor held on this machine, and could not be "
    "fetched. Is the name right, and is there a network? `tiny` needs none"
)


def load(
    name: str, *, device: str | None = None, dtype: torch.dtype | None = None
) -> tuple[Any, Any, Any]:
    """A model to audit, its tokenizer, and a text for it.

    Args:
        name: tiny, which is here, or a name on the Hugging Face hub, a folder, or a
            file .gguf.
        device: where it is to run; None for the CPU.
        dtype: of its weights; None for float32, or as they are stored on another
            device.

    Returns:
        (model, tokenizer, text); the tokenizer is None where none is needed. A model of
        pictures gets one of stripes in place of the text, as a dict.

    Raises:
        RuntimeError: if transformers is not installed, if there is no such model or no
            network, or if weights are missing; in one sentence.
    """
    if name == "tiny":
        model = load_tiny_model().to(device=device, dtype=dtype)
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
    where: dict[str, Any] = {"dtype": dtype or torch.float32}
    if name.endswith(".gguf"):
        where["gguf_file"] = Path(name).name
        name = str(Path(name).parent)
    try:
        found = _fetch(transformers, name, local_files_only=True, **where)
    except OSError:  # not here
        found = None
    except ImportError as error:  # of a package that a file .gguf needs
        raise RuntimeError(f"{name}: {error}") from error
    try:
        tokenizer, model, about = found or _fetch(transformers, name, **where)
    except OSError as error:
        raise RuntimeError(f"{name}: {NOT_FOUND}") from error
    lost = [key for key in about["missing_keys"] if not key.startswith("pooler.")]
    if lost:
        raise RuntimeError(
            f"{name}: it lacks {len(lost)} of its weights, such as {lost[0]}"
        )
    model = model.to(device)
    if model.main_input_name == "pixel_values":
        return model, None, {"pixel_values": _stripes(model)}
    return model, tokenizer, SAMPLE


def _fetch(transformers, name: str, **where) -> tuple[Any, Any, dict]:
    """Tokenizer, model, and what was said while it was loaded; a repository's own code
    is never run.
    """
    where["trust_remote_code"] = False
    if "gguf_file" not in where:
        where["use_safetensors"] = True
    about = {key: value for key, value in where.items() if key != "use_safetensors"}
    del about["dtype"]
    config = transformers.AutoConfig.from_pretrained(name, **about)
    kind = transformers.AutoModel
    if "gguf_file" in where:  # which holds language models, and does not say so
        kind = transformers.AutoModelForCausalLM
    for written in config.architectures or []:  # with its head, if it has one
        kind = getattr(transformers, written, kind)
    tokenizer = None
    sees = getattr(kind, "main_input_name", "") == "pixel_values"
    if not sees:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **about)
    if not kind.__name__.startswith("Auto"):
        del where["trust_remote_code"]
    model, said = kind.from_pretrained(name, output_loading_info=True, **where)
    return tokenizer, model, said


def _stripes(model) -> torch.Tensor:
    """A picture of the size that a model takes: stripes of rising frequency."""
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "image_size", 224)
    side = size if isinstance(size, int) else size[0]
    x = torch.linspace(0, 1, side)
    waves = [torch.sin(40 * (c + 1) * x * x[:, None]) for c in range(3)]
    return torch.stack(waves)[None].to(device=model.device, dtype=model.dtype)
