"""How a layer is arranged, told by what went in and out of its parts: which weights are
those of the values, whether there is a skip, where the norms stand.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.audit.records import LayerRecord, wide

OTHER_ATTENTION = "its block holds another attention as well"
NO_VALUES = (
    "no linear map was seen that gives the values, or none that takes what the heads "
    "give"
)
NO_OUTPUT = "the linear map behind the heads was not seen"
NO_SKIP = (
    "neither the output of the attention nor its sum with the input was seen to go on "
    "(parallel or scaled parts)"
)
NO_NORM = "neither the states that enter the layer nor a norm of them were attended"
NORM_WITHIN = "the output of the attention is normed before the input is added to it"
ALIKE = (
    "there are as many sequences as tokens and batch_first is False: which is which "
    "cannot be told"
)
NO_END = "what leaves the layer is not the output of its attention, and why is unknown"


LATENT = (
    "the values are made of something else than the states that enter the layer or a "
    "norm of them, such as a latent, and the map from these is not known"
)
# Words in the names of what mixes tokens without attention, and of parts of a mixer.
MIXERS = ("Mamba", "Mixer", "DeltaNet", "Retention", "Rwkv", "Hyena", "ShortConv")
MIXERS += ("LSTM", "GRU", "SSM", "RGLRU", "RecurrentBlock")
PARTS = ("Norm", "Embedding", "Cache", "Dropout", "Pool")


@dataclass(eq=False)
class Call:
    """One call of a linear map or a norm: what went in, and what came out."""

    module: nn.Module
    x: Tensor
    y: Tensor


@dataclass(eq=False)
class Heard:
    """One call of self-attention. What its record lacks is found in its block later."""

    record: LayerRecord
    at: int = 0  # how many calls of the block came before it
    values: Tensor | None = None  # (b, kv_heads, n, d_v)
    mixed: Tensor | None = None  # (b, n, h d_v), what the heads give, side by side
    x: Tensor | None = None  # what the values were made of
    y: Tensor | None = None  # what the heads give together, after W_O
    tokens_first: bool = False  # the states around it are (n, b, d)


@dataclass(eq=False)
class Frame:
    """One run of a block: what went in, and what its parts did."""

    block: nn.Module
    before: Tensor | None
    calls: list[Call] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    crossed: bool = False


def is_attention(module: nn.Module) -> bool:
    """Whether a module calls itself attention, and not a block of it.

    Args:
        module: any part of a model.

    Returns:
        True or False.
    """
    name = type(module).__name__
    block = "Block" in name or name.endswith("Layer")
    return not block and ("Attention" in name or "Attn" in name)


def mixes(module: nn.Module) -> bool:
    """Whether a module says by its name that it mixes tokens: attention, or what stands
    in its place in a hybrid.

    Args:
        module: any part of a model.

    Returns:
        True or False.
    """
    name = type(module).__name__
    other = any(word in name for word in MIXERS) and not name.endswith("Layer")
    return (is_attention(module) or other) and not any(word in name for word in PARTS)


def is_linear(module: nn.Module) -> bool:
    """torch.nn.Linear, or the transposed one of GPT-2, with weights to read.

    Args:
        module: any part of a model.

    Returns:
        True or False.
    """
    weight = getattr(module, "weight", None)
    kind = isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"
    return kind and torch.is_tensor(weight) and weight.is_floating_point()


def is_norm(module: nn.Module) -> bool:
    """Whether a module is LayerNorm, RMSNorm or of their kin, by its name.

    Args:
        module: any part of a model.

    Returns:
        True or False.
    """
    return "Norm" in type(module).__name__


def state(things) -> Tensor | None:
    """The first tensor that could be the states of tokens.

    Args:
        things: what a module got or gave: a tensor, or some things in order.

    Returns:
        a floating tensor of two dimensions or more, or None.
    """
    for thing in things if isinstance(things, tuple | list) else [things]:
        if torch.is_tensor(thing) and thing.is_floating_point() and thing.dim() >= 2:
            return thing
    return None


def value_maps(
    heard: Heard, frame: Frame | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Find the weights of values and outputs where they are not known yet.

    Args:
        heard: the attention; x and y are filled in.
        frame: the run of its block, or None.

    Returns:
        (w_v, w_o, biases by name, as far as they are new; what is missing, and why).

    Source: the values that the layer computed, compared with what its linear maps
        gave, number by number.
    """
    if heard.record.w_v is not None:
        return {}, {}
    calls = [] if frame is None or heard.values is None else frame.calls
    value = _find_values(heard.values, calls[: heard.at])
    output = _find_output(heard.mixed, calls[heard.at :])
    if value is not None:
        heard.x = value[0].x
    if output is not None:
        heard.y = output.y
    if value is None or output is None:
        return {}, dict.fromkeys(("w_v", "w_o", "biases"), NO_VALUES)
    h = heard.record.weights.shape[1]
    kv_heads = heard.record.kv_heads
    call, columns = value
    w_v = _matrix(call.module)[:, columns]
    w_v = w_v.unflatten(1, (kv_heads, -1)).transpose(0, 1)
    b_v = getattr(call.module, "bias", None)
    b_o = getattr(output.module, "bias", None)
    b_v = None if b_v is None else b_v[columns]
    found = {
        "w_v": wide(w_v.repeat_interleave(h // kv_heads, 0)),
        "w_o": wide(_matrix(output.module).unflatten(0, (h, -1))),
        "biases": any(b is not None and bool(b.any()) for b in (b_v, b_o)),
    }
    return found, {}


def surroundings(
    heard: Heard, frame: Frame | None, after: Tensor | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The states around an attention and how its layer is arranged.

    Args:
        heard: the attention, complete.
        frame: the run of its block, or None.
        after: what leaves the block.

    Returns:
        (before, after, skip, norm, feed_forward by name, as far as they are known; what
        is missing, and why).

    Source: sums and norms that the layer computed, compared number by number.
    """
    names = ("before", "after", "skip", "norm", "feed_forward")
    why = _no_states(heard, frame, after)
    if why:
        return {}, dict.fromkeys(names, why)
    size = (*heard.record.weights.shape[::2], -1)
    found = {
        "before": wide(_batched(frame.before, size)),
        "after": wide(_batched(after, size)),
    }
    if heard.x is None or heard.y is None:
        return found, dict.fromkeys(names[2:], NO_OUTPUT)
    later = frame.calls[heard.at :]
    result = frame.before + heard.y
    skip, why_skip = _skip(heard, frame.before, result, later, after)
    if skip is False:
        result = heard.y
    norm, why_norm = _norm(heard, frame, result)
    latent = why_norm == NO_NORM or heard.x.shape[-1] != frame.before.shape[-1]
    if norm is None:
        why_norm = why_norm or why_skip
    feed_forward = _feeds(heard, frame)
    ends = [result] + [call.y for call in later if equal(call.x, result)]
    why_end = "" if feed_forward or _among(after, ends) else NO_END
    if why_end:
        feed_forward = None
    found |= {"skip": skip, "norm": norm, "feed_forward": feed_forward}
    reasons = {"skip": why_skip, "norm": why_norm, "feed_forward": why_end}
    if latent:
        lost = ("w_v", "w_o", "biases", "kv_heads", "head_width")
        found |= dict.fromkeys(lost)
        reasons |= dict.fromkeys(lost, LATENT)
    return found, {name: why for name, why in reasons.items() if why}


def equal(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two tensors hold the same numbers to the last bit.

    Args:
        a, b: tensors whose last dimension is that of a token, in whatever shape; None
            equals nothing.

    Returns:
        True or False.
    """
    if a is None or b is None or a.dtype != b.dtype:
        return False
    if a.numel() != b.numel() or a.shape[-1] != b.shape[-1]:
        return False
    a = a.reshape(b.shape)
    # Most pairs differ in their first row already.
    first = (0,) * (b.dim() - 1)
    return a is b or (torch.equal(a[first], b[first]) and torch.equal(a, b))


def _among(one: Tensor, others: list[Tensor]) -> bool:
    return any(equal(one, other) for other in others)


def _matrix(linear: nn.Module) -> Tensor:
    """Weights (in, out), so that tokens are rows."""
    return linear.weight.T if isinstance(linear, nn.Linear) else linear.weight


def _find_values(values: Tensor | None, calls: list[Call]):
    """The call that gave the values, and in which columns of its outputs."""
    if not calls:
        return None
    b, kv_heads, n, d_v = values.shape
    flat = values.transpose(1, 2).flatten(2)
    for call in reversed(calls):
        if not is_linear(call.module) or call.y.numel() % (b * n):
            continue
        y = call.y.reshape(b, n, -1)
        for columns in _layouts(y.shape[-1], kv_heads, d_v):
            if equal(y[..., columns], flat):
                return call, columns
    return None


def _layouts(width: int, kv_heads: int, d_v: int) -> Iterator[Tensor]:
    """Where values may stand among the outputs of a linear map: last, behind queries
    and keys if these come from it too, or last within each head.
    """
    own = kv_heads * d_v
    columns = torch.arange(width)
    if width >= own:
        yield columns[width - own :]
    if width > own and width % kv_heads == 0:
        yield columns.unflatten(0, (kv_heads, -1))[:, -d_v:].flatten()


def _find_output(mixed: Tensor | None, calls: list[Call]) -> Call | None:
    """The call of a linear map that takes what the heads give."""
    for call in calls:
        fits = is_linear(call.module) and call.x.numel() == mixed.numel()
        if fits and equal(call.x.reshape(mixed.shape), mixed):
            return call
    return None


def _no_states(heard: Heard, frame: Frame | None, after: Tensor | None) -> str:
    """Why the states around an attention are not to be had, or nothing."""
    if frame is None or is_attention(frame.block):
        return "the attention stands alone: no block around it was seen"
    if frame.crossed or len(frame.heard) > 1:
        return OTHER_ATTENTION
    b, _, n, _ = heard.record.weights.shape
    if heard.tokens_first and b == n:
        return ALIKE
    sizes = ((b, n), (n, b), (n,))
    before = frame.before
    same = before is not None and after is not None and before.shape == after.shape
    if not same or tuple(before.shape[:-1]) not in sizes:
        kind = type(frame.block).__name__
        return f"what enters {kind} and what leaves it are no states of one shape"
    return ""


def _batched(states: Tensor, size: tuple[int, int, int]) -> Tensor:
    """States as (b, n, d), whatever their order was."""
    if states.dim() == 3 and states.shape[:2] != size[:2]:
        states = states.transpose(0, 1)
    return states.reshape(size)


def _skip(
    heard: Heard, before: Tensor, result: Tensor, later: list[Call], after: Tensor
) -> tuple[bool | None, str]:
    """Whether the input is added to the output, and why that is unknown."""
    goes_on = [call.x for call in later] + [after]
    if _among(result, goes_on):
        return True, ""
    for call in later:
        normed = is_norm(call.module) and equal(call.x, heard.y)
        if normed and _among(before + call.y, goes_on):
            return None, NORM_WITHIN
    if _among(heard.y, goes_on):
        return False, ""
    return None, NO_SKIP


def _norm(heard: Heard, frame: Frame, result: Tensor) -> tuple[str | None, str]:
    """Where the norm of the attention stands, and why that is unknown."""
    earlier = frame.calls[: heard.at]
    later = [call.x for call in frame.calls[heard.at :] if is_norm(call.module)]
    if equal(heard.x, frame.before):
        return ("post" if _among(result, later) else None), ""
    normed = [call.y for call in earlier if equal(call.x, frame.before)]
    return ("pre", "") if _among(heard.x, normed) else (None, NO_NORM)


def _feeds(heard: Heard, frame: Frame) -> bool:
    """Whether the block has weights beside those of its attention."""
    own = set()
    for module in frame.block.modules():
        if is_attention(module):
            own |= set(module.parameters())
    for call in frame.calls[: heard.at]:
        own |= set(call.module.parameters())
    for call in frame.calls[heard.at :]:
        if call.y is heard.y:
            own |= set(call.module.parameters())
    return any(p.dim() >= 2 and p not in own for p in frame.block.parameters())
