"""From a model and its inputs to a record of each layer.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from tqdm import tqdm

from attnlib import _require
from attnlib._require import finite, require
from attnlib.attention import Encoder, Layer, Norm, forward, layer_norm
from attnlib.audit.modules import Coverage, Edit, watch
from attnlib.audit.records import LayerRecord, both, wide
from attnlib.audit.tiny import MASK, UNKNOWN, TinyModel, encode, spelled

PATTERN = "blocks.{}.attn.hook_pattern"  # of a TransformerLens cache
MAPS_ALONE = "maps alone were given, which know the logits up to a shift of each row"
NO_MODEL = "plain maps do not tell: give the model itself"
NO_STATES = "no states were given with the maps: pass states="
# What maps do not tell.
UNTOLD = (
    "w_v",
    "w_o",
    "biases",
    "skip",
    "norm",
    "feed_forward",
    "kv_heads",
    "head_width",
    "ids",
)


def visit(
    model: Any,
    inputs: Any,
    visitor: Callable[[LayerRecord], None],
    *,
    tokenizer: Callable | None = None,
    states: Any = None,
    layers: Iterable[int] | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    token_mask: Bool[Tensor, "b n"] | None = None,
    progress: bool = False,
) -> str:
    """Tell what each self-attention of a model does with one batch, as soon as its
    layer has run.

    The maps of one layer are in memory at a time. The model is left as it was, also
    after an error.

    Args:
        model, inputs, tokenizer, states, mask, token_mask, progress: as
            attnlib.audit.run takes them.
        visitor: called with a LayerRecord for each layer, in order.
        layers: which to tell, all if None. The model stops after the last of them.

    Returns:
        why the layers that were told are not all that mixes tokens; "" if they are.

    Raises:
        ValueError: for a model without attention that can be seen, inputs that do not
            fit it, maps that are not of one size, negative, NaN, or whose rows do not
            sum to one, a layer that is not there, a visitor that cannot be called.

    Cost: one forward pass; memory for the maps of one layer.
    Source: the definitions of the book's chapters, laid on models as they are.
    """
    kind = type(visitor).__name__
    require(callable(visitor), f"visitor must be a function of a record, got {kind}")
    _require.is_a(bool, progress=progress)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    given = {"states": states, "mask": mask, "token_mask": token_mask}
    told = _Told(visitor, layers, progress)
    missed = ""
    try:
        with torch.no_grad():
            missed = _visit(model, inputs, tokenizer, given, told).missed()
    except _Enough:
        pass
    finally:
        told.close()
    return told.check() or missed


class _Enough(Exception):
    """All layers that were asked for have been told."""


class _Told:
    """Hands on the records that were asked for."""

    def __init__(self, visitor, layers, progress: bool):
        self.visitor = visitor
        self.wanted = None
        if layers is not None:
            kind = type(layers).__name__
            require(isinstance(layers, Iterable), f"layers must be a list, got {kind}")
            self.wanted = list(layers)
            for layer in self.wanted:
                _require.sizes(0, layers=layer)
            self.wanted.sort()
            require(self.wanted, "layers names no layer: leave it out for all of them")
        self.bar = tqdm(desc="layers", disable=not progress, leave=False)
        self.seen: list[int] = []

    def __call__(self, record: LayerRecord) -> None:
        self.bar.total = record.layers
        self.bar.update()
        self.seen.append(record.layer)
        if self.wanted is None:
            self.visitor(record)
            return
        if record.layer in self.wanted:
            self.visitor(record)
        if record.layer >= self.wanted[-1]:
            raise _Enough

    def close(self) -> None:
        self.bar.close()

    def check(self) -> str:
        """All that was asked for was there; why it is not the whole, if it is not."""
        if self.wanted is None:
            return ""
        lost = sorted(set(self.wanted) - set(self.seen))
        count = len(self.seen)
        require(
            not lost,
            f"layers asks for layer {lost[0] if lost else ''}, and attention was read "
            f"in {count} layers up to {max(self.seen, default=None)}, counted from 0",
        )
        numbers = ", ".join(map(str, self.wanted))
        return f"layers= looked at layer {numbers} alone"


def _visit(model, inputs, tokenizer, given: dict[str, Any], told: _Told) -> Coverage:
    if isinstance(model, nn.Module):
        _refuse(given, "a module brings its own")
        return seen_in(model, called_with(model, inputs, tokenizer), told)
    for record in _plain_records(model, inputs, given):
        told(record)
    return Coverage()


def _refuse(given: dict[str, Any], why: str) -> None:
    names = [name for name, value in given.items() if value is not None]
    require(not names, f"leave out {', '.join(names)}: {why}")


def called_with(model: nn.Module, inputs, tokenizer) -> tuple | dict[str, Any]:
    """What a module is called with.

    Args:
        model: a torch module.
        inputs, tokenizer: as attnlib.audit.run takes them.

    Returns:
        a tuple in order, or a dict by name.

    Raises:
        ValueError: for inputs that do not fit the model.
    """
    if isinstance(model, TinyModel):
        return (_numbers(inputs).to(model.embed.weight.device),)
    if _of_transformers(model):
        return _model_inputs(model, inputs, tokenizer)
    return _own_inputs(inputs)


def seen_in(
    model: nn.Module,
    arguments: tuple | dict[str, Any],
    hear: Callable[[LayerRecord], None] | None,
    edit: Edit | None = None,
) -> Coverage:
    """Run a module once, its attention heard and perhaps changed.

    Args:
        model: a torch module.
        arguments: by called_with.
        hear, edit: as modules.watch takes them.

    Returns:
        Coverage.

    Raises:
        ValueError: if no attention was found, and those of modules.watch.
    """
    kind = type(model).__name__
    total = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    if total is None:
        total = sum(isinstance(m, nn.MultiheadAttention) for m in model.modules())
    if isinstance(model, TinyModel):
        total = len(model.blocks)
    found = watch(model, arguments, hear, total=total or None, edit=edit)
    missed = found.missed()
    also = f" ({missed})" if missed else ""
    require(
        found.read,
        f"no attention was found in {kind}{also}: it called neither "
        "torch.nn.MultiheadAttention nor scaled_dot_product_attention nor a softmax "
        "over (b, h, n, n) nor the attention of transformers. A flash kernel? Load it "
        'with attn_implementation="sdpa", or give its maps, (layers, b, h, n, n)',
    )
    return found


def spelling(model, tokenizer) -> tuple[Callable[[int], str] | None, list[int]]:
    """How tokens are spelled, and which of them stand for no text.

    Args:
        model, tokenizer: as attnlib.audit.run takes them.

    Returns:
        (a function of the number of a token, or None; numbers).
    """
    if isinstance(model, TinyModel):
        return spelled, [UNKNOWN, MASK]
    if not hasattr(tokenizer, "decode"):
        return None, []

    @functools.cache
    def spell(number: int) -> str:
        return tokenizer.decode([number])

    return spell, list(getattr(tokenizer, "all_special_ids", []))


def _of_transformers(model) -> bool:
    known = sys.modules.get("transformers")
    return known is not None and isinstance(model, known.PreTrainedModel)


def _numbers(inputs) -> Tensor:
    """The characters of one text, or of some of one length, as numbers (b, n)."""
    if torch.is_tensor(inputs):
        require(
            inputs.dim() in (1, 2) and inputs.dtype == torch.int64 and inputs.numel(),
            "inputs must be numbers of characters (n,) or (b, n) in int64, got "
            f"{inputs.dtype} {tuple(inputs.shape)}",
        )
        return inputs if inputs.dim() == 2 else inputs[None]
    texts = [inputs] if isinstance(inputs, str) else inputs
    _require.is_list(inputs=texts)
    lengths = {len(encode(text)) for text in texts}
    require(
        len(lengths) == 1,
        f"the texts must be of one length (this model has no padding), got {lengths}",
    )
    return torch.stack([encode(text) for text in texts])


def _own_inputs(inputs) -> tuple | dict[str, Any]:
    """What a module of one's own is called with."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    require(
        not any(isinstance(argument, str) for argument in arguments),
        "inputs is text, which only models of transformers with tokenizer=, and the "
        "tiny model, can read: give the tensor that the module takes",
    )
    tensors = [argument for argument in arguments if torch.is_tensor(argument)]
    require(
        tensors and all(tensor.numel() for tensor in tensors),
        "inputs must hold at least one tensor, and none that is empty, got "
        f"{[type(argument).__name__ for argument in arguments]}",
    )
    return arguments


def _model_inputs(model, inputs, tokenizer) -> dict[str, Any]:
    """What a model of transformers is called with, by name."""
    accepted = inspect.signature(model.forward).parameters
    name = type(model).__name__
    require(
        "decoder_input_ids" not in accepted,
        f"{name} is an encoder and a decoder: audit its encoder, model.get_encoder(). "
        "Its decoder reads the encoder's tokens too, which the audit does not follow",
    )
    arguments = _tokenized(inputs, tokenizer, model)
    if torch.is_tensor(arguments):
        arguments = {model.main_input_name: arguments}
    require(
        isinstance(arguments, Mapping),
        "inputs must be a dict by name, a tensor or texts, got "
        f"{type(inputs).__name__}",
    )
    arguments = dict(arguments)
    for key, value in arguments.items():
        empty = torch.is_tensor(value) and value.numel() == 0
        require(not empty, f"{key} is empty")
    _check_ids(model, arguments.get("input_ids"))
    _check_attention_mask(arguments.get("attention_mask"))
    if arguments.get("attention_mask") is None:
        _check_padding(model.config, arguments.get("input_ids"))
    if "use_cache" in accepted:
        arguments["use_cache"] = False  # one pass needs none
    return arguments


def _tokenized(inputs, tokenizer, model):
    """Texts through the tokenizer; all else as it is."""
    texts = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return inputs
    require(texts, "inputs is an empty list: give at least one text")
    require(
        tokenizer is not None,
        "inputs is text and there is no tokenizer: pass tokenizer=, such as "
        "transformers.AutoTokenizer.from_pretrained(name)",
    )
    several = len(texts) > 1
    require(
        not several or getattr(tokenizer, "pad_token", "") is not None,
        "the tokenizer has no token of padding for several texts: set "
        "tokenizer.pad_token = tokenizer.eos_token, or give one text",
    )
    found = tokenizer(texts, padding=several, truncation=True, return_tensors="pt")
    return {key: value.to(model.device) for key, value in found.items()}


def _check_ids(model, ids) -> None:
    """Numbers of tokens (b, n) that the model knows."""
    if ids is None:
        return
    _require.is_tensor("input_ids", ids)
    require(
        not ids.is_floating_point() and ids.dim() == 2,
        f"input_ids must be integers (b, n), got {ids.dtype} {tuple(ids.shape)}",
    )
    try:
        known = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # so answer models with two of them
        known = None
    least, most = int(ids.min()), int(ids.max())
    require(
        known is None or (least >= 0 and most < known),
        f"input_ids must lie from 0 to {known} - 1, the tokens of the model, got "
        f"{least} to {most}",
    )
    _require.same_device("input_ids", ids, model.device, "the model")


def _check_padding(config, ids) -> None:
    """No padding that would be measured as text."""
    pad = getattr(config, "pad_token_id", None)
    ends = (
        getattr(config, "eos_token_id", None),
        getattr(config, "bos_token_id", None),
    )
    if ids is None or pad is None or pad in ends:
        return
    padded = int(((ids[:, 0] == pad) | (ids[:, -1] == pad)).sum())
    require(
        not padded,
        f"{padded} of {len(ids)} sequences begin or end with the token of padding, "
        f"{pad}, which would be measured as text: pass the dict of the tokenizer, or "
        '{"input_ids": ids, "attention_mask": (ids != pad).long()}',
    )


def _check_attention_mask(mask) -> None:
    """A token in each sequence."""
    if torch.is_tensor(mask) and mask.dim() == 2:
        empty = int((~mask.bool()).all(-1).sum())
        require(not empty, f"attention_mask leaves {empty} sequences without a token")


def _plain_records(model, inputs, given: dict[str, Any]) -> Iterator[LayerRecord]:
    """The layers of what is no torch module."""
    require(
        not isinstance(model, str),
        f"model must be a model, not a name, got {model!r}: load it first, such as "
        "transformers.AutoModel.from_pretrained(name)",
    )
    if isinstance(model, Encoder) or _are_layers(model):
        _refuse({"states": given["states"]}, "the layers compute them")
        return _layer_records(model, inputs, given["mask"], given["token_mask"])
    if hasattr(model, "keys"):
        return _cache_records(model, given)
    require(
        inputs is None,
        "model is plain maps, which read no inputs: pass inputs=None (and states=)",
    )
    return _map_records(_split(model), **given)


def _are_layers(model) -> bool:
    known = isinstance(model, list | tuple) and len(model) > 0
    return known and isinstance(model[0], Layer)


def _layer_records(
    model: Encoder | list[Layer],
    x: Float[Tensor, "*batch n d"],
    mask: Tensor | None,
    token_mask: Tensor | None,
) -> Iterator[LayerRecord]:
    """The layers of a network of the book."""
    _require.tokens(x, "inputs")
    require(x.dim() <= 3, f"inputs must be (n, d) or (b, n, d), got {tuple(x.shape)}")
    x = x if x.dim() == 3 else x[None]
    b, n, _ = x.shape
    if token_mask is not None:
        _require.token_mask(token_mask, (b, n), x.device)
    mask = both(mask, token_mask)
    whole = isinstance(model, Encoder)
    network = model if whole else Encoder(list(model), [], [])
    layers = network.layers
    mlps = network.mlps or [None] * len(layers)
    norms = network.norms or [(None, None)] * len(layers)
    missing = {"ids": "states were given, no tokens"}
    for l, layer in enumerate(layers):
        stack = [layer]
        if whole:
            stack = Encoder([layer], [mlps[l]], [norms[l]], network.norm_first)
        norm = _norm_kind(norms[l][0], network.norm_first)
        inner = layer_norm(x, norms[l][0]) if norm == "pre" else x
        y, maps = forward(x, stack, mask=mask, return_attention=True)
        biases = [b for b in (layer.b_v, layer.b_o) if b is not None]
        yield LayerRecord(
            layer=l,
            layers=len(layers),
            name=f"layers.{l}",
            weights=wide(maps[0]),
            logits=wide(_logits(inner, layer)),
            mask=mask,
            token_mask=token_mask,
            before=wide(x),
            after=wide(y),
            w_v=wide(layer.w_v),
            w_o=wide(layer.w_o),
            biases=any(bool(bias.any()) for bias in biases),
            skip=whole,
            norm=norm,
            feed_forward=mlps[l] is not None,
            values=wide(_values(inner, layer)),
            kv_heads=len(layer.w_q),
            head_width=layer.w_q.shape[-1] + layer.w_v.shape[-1],
            dtype=x.dtype,
            missing=missing,
        )
        x = y


def _norm_kind(norm: Norm | None, norm_first: bool) -> str | None:
    if norm is None:
        return None
    return "pre" if norm_first else "post"


def _logits(x: Tensor, layer: Layer) -> Tensor:
    """What the softmax of a layer sees."""
    q = x.unsqueeze(-3) @ layer.w_q
    k = x.unsqueeze(-3) @ layer.w_k
    if layer.b_q is not None:
        q = q + layer.b_q.unsqueeze(-2)
    if layer.b_k is not None:
        k = k + layer.b_k.unsqueeze(-2)
    return q @ k.mT * layer.w_q.shape[-1] ** -0.5


def _values(x: Tensor, layer: Layer) -> Tensor:
    """What the heads of a layer average."""
    values = x.unsqueeze(-3) @ layer.w_v
    return values if layer.b_v is None else values + layer.b_v.unsqueeze(-2)


def _split(model) -> list[Tensor]:
    """Plain maps as one (b, h, n, n) a layer."""
    model = _tensor(model)
    if torch.is_tensor(model):
        require(
            model.dim() in (4, 5),
            "maps must be (layers, h, n, n) or (layers, b, h, n, n), got "
            f"{tuple(model.shape)}",
        )
        return list(model)
    require(
        isinstance(model, list | tuple),
        "model must be a torch module, a list of attnlib Layers, plain maps (layers, "
        f"b, h, n, n) or a cache of TransformerLens, got {type(model).__name__}",
    )
    require(model, "model is an empty list: no layer")
    return [_tensor(p) for p in model]


def _tensor(given):
    """An array as a tensor; all else as it is."""
    return torch.from_numpy(given) if isinstance(given, np.ndarray) else given


def _cache_records(cache, given: dict[str, Any]) -> Iterator[LayerRecord]:
    """The layers of a cache of TransformerLens."""
    _refuse({"states": given["states"]}, "the cache holds them")
    keys = set(cache.keys())
    depth = 0
    while PATTERN.format(depth) in keys:
        depth += 1
    require(
        depth,
        f"the dict holds no {PATTERN.format(0)!r}: it must be a cache of "
        "TransformerLens that kept the patterns. If it holds weights, load them into "
        "their model, by model.load_state_dict, and give that",
    )
    maps = [cache[PATTERN.format(l)] for l in range(depth)]
    names = [f"blocks.{l}.hook_resid_pre" for l in range(depth)]
    names.append(f"blocks.{depth - 1}.hook_resid_post")
    states = [cache[name] for name in names] if keys.issuperset(names) else None
    return _map_records(maps, states, given["mask"], given["token_mask"])


def _map_records(
    maps: list[Tensor],
    states: Any,
    mask: Tensor | None,
    token_mask: Tensor | None,
) -> Iterator[LayerRecord]:
    """The layers of plain maps."""
    depth = len(maps)
    states = _all_states(states, depth)
    missing = {"logits": MAPS_ALONE} | dict.fromkeys(UNTOLD, NO_MODEL)
    if states is None:
        missing |= dict.fromkeys(("before", "after"), NO_STATES)
    for l, p in enumerate(maps):
        name = f"maps[{l}]"
        _require.is_floating(name, p)
        require(
            p.dim() in (3, 4) and p.shape[-1] == p.shape[-2] and p.numel(),
            f"{name} must be (h, n, n) or (b, h, n, n), got {tuple(p.shape)}",
        )
        p = p if p.dim() == 4 else p[None]
        b, _, n, _ = p.shape
        if token_mask is not None:
            _require.token_mask(token_mask, (b, n), p.device)
        pairs = _pairs(p, mask, token_mask)
        before = after = None
        if states is not None:
            before = _states(states[l], f"states[{l}]", (b, n))
            after = _states(states[l + 1], f"states[{l + 1}]", (b, n))
        yield LayerRecord(
            layer=l,
            layers=depth,
            name=name,
            weights=_rows(p, name, pairs, token_mask),
            mask=pairs,
            token_mask=token_mask,
            before=before,
            after=after,
            dtype=p.dtype,
            missing=missing,
        )


def _all_states(states, depth: int):
    """States by layer, one more than layers; or None."""
    if states is None:
        return None
    states = _tensor(states)
    require(
        torch.is_tensor(states) or isinstance(states, list | tuple),
        "states must be a tensor (layers + 1, b, n, d) or a list, got "
        f"{type(states).__name__}",
    )
    require(
        len(states) == depth + 1,
        f"states must be one more than layers (before the first, after each): "
        f"{depth + 1}, got {len(states)}",
    )
    return states


def _states(x, name: str, size: tuple[int, int]) -> Tensor:
    """States (b, n, d)."""
    x = _tensor(x)
    _require.tokens(x, name)
    x = x if x.dim() == 3 else x[None]
    require(
        tuple(x.shape[:-1]) == size,
        f"{name} must be (b, n, d) = {(*size, 'd')} to fit the maps, got "
        f"{tuple(x.shape)}",
    )
    finite(**{name: x})
    return wide(x)


def _pairs(p: Tensor, mask: Tensor | None, token_mask: Tensor | None) -> Tensor | None:
    """Which pairs may attend. Maps that never look ahead are taken for causal."""
    if mask is not None:
        _require.pair_mask(mask, tuple(p.shape), p.device, check=token_mask is None)
    elif p.shape[-1] > 1 and not bool(p.triu(1).any()):
        mask = torch.ones_like(p[0, 0], dtype=torch.bool).tril()
    return both(mask, token_mask)


def _rows(
    p: Tensor, name: str, pairs: Tensor | None, token_mask: Tensor | None
) -> Tensor:
    """Maps whose rows are probabilities; rows of padding are made even."""
    n = p.shape[-1]
    most = 4 * n * torch.finfo(p.dtype).eps
    half = p.dtype in (torch.float16, torch.bfloat16)
    p = wide(p)
    if token_mask is not None:
        p = p.masked_fill(~token_mask[:, None, :, None], 1 / n)
    finite(**{name: p})
    least = float(p.min())
    require(
        least >= 0,
        f"{name} must not be negative: attention weights are probabilities, got "
        f"{least:.3g} (logits? pass them through softmax)",
    )
    sums = p.sum(-1, keepdim=True, dtype=torch.float64)
    off = float((sums - 1).abs().max())
    require(
        off <= most,
        f"the rows of {name} must sum to one (P 1 = 1), got a row that is off by "
        f"{off:.3g}",
    )
    if pairs is not None:
        hidden = ~pairs.expand(p.shape)
        if token_mask is not None:
            hidden = hidden & token_mask[:, None, :, None]
        weight = float(p.masked_fill(~hidden, 0).max())
        require(
            weight <= most,
            f"{name} gives weight {weight:.3g} to a pair that the masks forbid (True = "
            "may attend, True = a token)",
        )
    return (p / sums).to(p.dtype) if half else p
