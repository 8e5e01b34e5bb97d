"""A torch module at work: what its attention did, layer by layer, and the states around
it.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from attnlib._require import require
from attnlib.audit import arrangement
from attnlib.audit.arrangement import Call, Frame, Heard, is_attention
from attnlib.audit.records import LayerRecord, both, wide

# The name under which transformers knows our attention while a model is watched.
OURS = "attnlib_audit"
# What lowers a logit by this much hides it: exp(-10000) is 0 in every dtype.
HIDDEN = -1e4
# Arguments with which rows are no softmax of the logits of all allowed tokens.
UNKNOWN = {
    "s_aux": "attention sinks: its rows do not sum to one over the tokens",
    "sinks": "attention sinks: its rows do not sum to one over the tokens",
    "indices": "sparse indices, which the audit does not read",
    "block_indices": "sparse blocks, which the audit does not read",
}


@dataclass(eq=False)
class Coverage:
    """Which parts of a model mix tokens, and what was seen of them.

    Args:
        read: how many times self-attention was read.
        unread: parts that ran and were not read, by their kind.
        idle: parts that did not run, by their kind.
        output: what the model returned.
    """

    read: int = 0
    unread: dict[str, list[str]] = field(default_factory=dict)
    idle: dict[str, list[str]] = field(default_factory=dict)
    output: Any = None

    def missed(self) -> str:
        """What was not seen, and how that limits the report; nothing if all was."""
        said = []
        for parts, did in ((self.unread, "ran unread"), (self.idle, "did not run")):
            for kind, names in parts.items():
                said.append(f"{len(names)} {kind} {did}, such as {names[0]}")
        return "; ".join(said)


# What is done to the output of an attention: its number in the order of the calls,
# weights (b, h, n, n), values (b, kv_heads, n, d_v) and heads (b, h, n, d_v).
Edit = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def watch(
    model: nn.Module,
    arguments: dict[str, Any] | tuple,
    hear: Callable[[LayerRecord], None] | None,
    *,
    total: int | None = None,
    edit: Edit | None = None,
) -> Coverage:
    """Run a module once and tell what each self-attention in it did, as soon as the
    layer around it has run. The module is left as it was, also after an error.

    Four kinds of attention are seen: torch.nn.MultiheadAttention, the one of
    transformers, torch's scaled_dot_product_attention wherever it is called, and a
    softmax over (b, h, n, n) that a product with values follows.

    Args:
        model: a torch module; it runs in evaluation mode, without gradients.
        arguments: what it is called with: a dict by name, or a tuple in order.
        hear: is called with a LayerRecord for each self-attention; None for nobody.
        total: how many there are, if known.
        edit: gives what the heads put out in place of what they did.

    Returns:
        Coverage; its read is 0 if no attention of these kinds was called.

    Raises:
        ValueError: if there are only those that look at another sequence, if one holds
            NaN, works in windows, belongs to a second stack, or if its rows are no
            softmax of the logits of all tokens (attention sinks, sparse indices).

    Cost: one forward pass, and the maps of one layer at a time.
    Source: hooks and function modes of PyTorch; the attention interface of
        transformers.
    """
    models = _of_transformers(model)
    ids, token_mask = _tokens(arguments)
    # Elsewhere, an argument of the name attention_mask may mean anything.
    listener = _Listener(model, hear, total, ids, token_mask if models else None)
    listener.edit = edit
    with (
        torch.no_grad(),
        _eager(model),
        evaluation(model),
        _open_attention(),
        _our_attention(models, listener),
        listener.hooks(),
        _Products(listener),
    ):
        if isinstance(arguments, dict):
            output = model(**arguments)
        else:
            output = model(*arguments)
    kind = type(model).__name__
    require(
        listener.count or not listener.crossed,
        f"{kind} has only cross-attention (queries and keys of different tokens): the "
        "theorems are about self-attention",
    )
    return listener.coverage(output)


class _Listener:
    """Hears the parts of a model, and puts together what belongs to one layer."""

    def __init__(self, model: nn.Module, hear, total: int | None, ids, token_mask):
        self.model = model
        self.hear = hear
        self.total = total
        self.ids = ids
        self.token_mask = token_mask
        self.names = {module: name for name, module in model.named_modules()}
        self.frames: list[Frame] = []  # blocks at work, the innermost last
        self.across: list[nn.Module] = []  # attentions at work on another sequence
        self.asked: list[tuple[bool, bool]] = []  # by a MultiheadAttention at work
        self.pending: Heard | None = None  # a softmax whose values are not known yet
        self.edit: Edit | None = None
        self.count = 0
        self.calls = 0  # of attention, told or not yet
        self.last = -1  # number of the layer that was told last
        self.stack: str | None = None  # what holds the layers
        self.crossed = False
        self.mixers = _mixers(model)
        self.working: list[nn.Module] = []  # mixers at work
        self.ran: set[nn.Module] = set()
        self.read: set[nn.Module] = set()
        self.deaf: list[nn.Module] = []  # blocks in which nothing was heard
        self.kinds: set[type] = set()  # of blocks in which something was

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """All hooks, taken away in the end."""
        handles = []
        try:
            for module in self.model.modules():
                handles += self.listen(module)
                if module in self.mixers:
                    handles += _hook(module, self.mixer_before, self.mixer_after)
            for block in _blocks(self.names):
                # Last, so that a block that is an attention sees what that left.
                handles += _hook(block, self.block_before, self.block_after)
            yield
        finally:
            for handle in handles:
                handle.remove()

    def listen(self, module: nn.Module) -> list:
        if isinstance(module, nn.MultiheadAttention):
            return _hook(module, self.torch_before, self.torch_after)
        if is_attention(module):
            return _hook(module, self.attention_before, self.attention_after)
        if arrangement.is_linear(module) or arrangement.is_norm(module):
            return _hook(module, None, self.part_after)
        return []

    def mixer_before(self, module, args, kwargs) -> None:
        self.working.append(module)
        self.ran.add(module)

    def mixer_after(self, module, args, kwargs, output) -> None:
        self.working.remove(module)

    def coverage(self, output) -> Coverage:
        """What was seen of the parts that mix tokens."""
        found = Coverage(read=self.count, output=output)
        for module in self.mixers:
            if module not in self.read:
                parts = found.unread if module in self.ran else found.idle
                kind = type(module).__name__
                parts.setdefault(kind, []).append(self.names[module])
        for block in self.deaf:
            inside = not set(self.mixers).isdisjoint(block.modules())
            if type(block) in self.kinds and not inside:
                kind = type(block).__name__
                found.unread.setdefault(kind, []).append(self.names[block])
        return found

    def block_before(self, block, args, kwargs) -> None:
        before = arrangement.state((*args, *kwargs.values()))
        # A copy: the model may add to it in place.
        self.frames.append(Frame(block, None if before is None else before.clone()))

    def block_after(self, block, args, kwargs, output) -> None:
        frame = self.frames.pop()
        if frame.heard:
            self.kinds.add(type(block))
        else:
            self.deaf.append(block)
        if self.frames and not frame.heard:  # a part of a larger block
            self.frames[-1].calls += frame.calls
            self.frames[-1].crossed |= frame.crossed
        for heard in frame.heard:
            self.tell(heard, frame, arrangement.state(output))

    def part_after(self, module, args, kwargs, output) -> None:
        x = arrangement.state((*args, *kwargs.values()))
        if self.frames and x is not None and torch.is_tensor(output):
            self.frames[-1].calls.append(Call(module, x, output))

    def attention_before(self, module, args, kwargs) -> None:
        others = [kwargs.get("encoder_hidden_states"), kwargs.get("key_value_states")]
        named = "Cross" in type(module).__name__
        if named or any(torch.is_tensor(other) for other in others):
            self.across.append(module)

    def attention_after(self, module, args, kwargs, output) -> None:
        if module in self.across:
            self.across.remove(module)

    def torch_before(self, module, args, kwargs) -> tuple[tuple, dict]:
        """Ask a MultiheadAttention for the map of each head."""
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        self.asked.append((given["need_weights"], given["average_attn_weights"]))
        return (), {**given, "need_weights": True, "average_attn_weights": False}

    def torch_after(self, module, args, kwargs, output) -> tuple[Tensor, Any]:
        """Hear it, and hand on what its caller asked for."""
        y, weights = output
        need, average = self.asked.pop()
        if arrangement.equal(kwargs["query"], kwargs["key"]):
            heard = _of_torch(module, self.names[module], kwargs, y, weights)
            if self.edit is not None:
                values = heard.record.values
                y = y + self.change(module, heard, heard.record.weights @ values)
            self.add(heard)
        else:
            self.cross()
        if not need:
            return y, None
        return y, weights.mean(-3) if average else weights

    def change(self, module: nn.MultiheadAttention, heard: Heard, heads: Tensor):
        """What another output of the heads adds to that of a MultiheadAttention."""
        record = heard.record
        new = self.edit(self.calls, record.weights, record.values, heads)
        added = (new - heads).transpose(1, 2).flatten(2) @ module.out_proj.weight.T
        if heard.y.dim() == 2:
            return added[0]
        return added.transpose(0, 1) if heard.tokens_first else added

    def of_transformers(
        self, module, query, key, value, attention_mask, scaling=None, **others
    ) -> tuple[Tensor, None]:
        """What transformers calls in place of its own attention."""
        name = self.names.get(module, type(module).__name__)
        for argument, why in UNKNOWN.items():
            require(others.get(argument) is None, f"{name} has {why}")
        with torch._C.DisableTorchFunction():
            heads = self.attend(
                name,
                (query, key, value),
                attention_mask,
                scale=scaling,
                cap=others.get("softcap"),
                bias=others.get("position_bias"),
            )
        return heads.transpose(1, 2).contiguous(), None

    def attend(self, name, parts, mask, *, scale=None, cap=None, bias=None) -> Tensor:
        """Attention (b, h, n, d_v) of queries, keys and values, heard by the way."""
        query, key, value = parts
        h = query.shape[1]
        kv_heads = key.shape[1]
        if scale is None:
            scale = query.shape[-1] ** -0.5
        logits = query @ _shared(key, h).mT
        logits *= scale
        if cap is not None:
            logits = cap * torch.tanh(logits / cap)
        if bias is not None:
            logits = logits + bias
        allowed, added = _allowed(mask, key.shape[-2])
        if added is not None:
            logits = logits + added
        logits = wide(logits)
        weights = _softmax(logits, allowed)
        heads = weights.to(value.dtype) @ _shared(value, h)
        if self.across or query.shape[-2] != key.shape[-2]:
            self.cross()
            return heads
        if self.edit is not None:
            heads = self.edit(self.calls, weights, value, heads)
        record = LayerRecord(
            name=name,
            weights=weights,
            logits=logits,
            mask=allowed,
            values=wide(value),
            kv_heads=kv_heads,
            head_width=key.shape[-1] + value.shape[-1],
            dtype=query.dtype,
        )
        mixed = heads.transpose(1, 2).flatten(2)
        self.add(Heard(record, values=value, mixed=mixed))
        return heads

    def softmax(self, logits: Tensor, weights: Tensor) -> None:
        """A softmax over (b, h, n, n) that somebody wrote by hand."""
        hidden = (logits <= HIDDEN) & (weights == 0)
        allowed = ~hidden if bool(hidden.any()) else None
        record = LayerRecord(
            name=self.place(),
            weights=wide(weights),
            logits=wide(logits.masked_fill(hidden, 0)),
            mask=allowed,
            dtype=logits.dtype,
            missing=dict.fromkeys(("kv_heads", "head_width"), HAND_WRITTEN),
        )
        self.pending = Heard(record)
        self.add(self.pending)

    def product(self, weights: Tensor, value: Tensor, heads: Tensor) -> Tensor:
        """The product of its weights with values: (b, h, n, d_v) or (b, n, h, d_v), or
        the first with b and h in one.
        """
        heard = self.pending
        b, h, n, _ = heard.record.weights.shape
        if weights.dim() == 3 and value.dim() == heads.dim() == 3:
            parts = [part.unflatten(0, (b, h)) for part in (weights, value, heads)]
            return self.product(*parts).flatten(0, 1)
        turned = heads.shape[:3] == (b, n, h)
        if value.dim() != 4 or not (turned or heads.shape[:3] == (b, h, n)):
            return heads
        turned = turned and value.shape[:3] == (b, n, h)
        self.pending = None
        if turned:
            value, heads = value.transpose(1, 2), heads.transpose(1, 2)
        if self.edit is not None:
            heads = self.edit(self.calls - 1, weights, value, heads)
        heard.values = value
        heard.mixed = heads.transpose(1, 2).flatten(2)
        of_values = {"values": wide(value), "kv_heads": value.shape[1]}
        heard.record = replace(heard.record, **of_values)
        return heads.transpose(1, 2) if turned else heads

    def place(self) -> str:
        """The path of the block at work."""
        return self.names[self.frames[-1].block] if self.frames else "attention"

    def cross(self) -> None:
        self.crossed = True
        if self.frames:
            self.frames[-1].crossed = True

    def add(self, heard: Heard) -> None:
        record = heard.record
        sums = record.weights.sum(-1)  # NaN if a weight is
        require(
            bool(torch.isfinite(sums).all()),
            f"the attention of {record.name} holds NaN: the inputs do, or the weights "
            "of the model, or a mask leaves a token nothing to attend to",
        )
        self.calls += 1
        self.read.update(self.working)
        if self.hear is None:
            self.count += 1
            return
        if self.frames:
            _refuse_windows(record, self.frames[-1])
            heard.at = len(self.frames[-1].calls)
            self.frames[-1].heard.append(heard)
        else:
            self.tell(heard, None, None)

    def tell(self, heard: Heard, frame: Frame | None, after: Tensor | None) -> None:
        """Complete the record of one attention, and tell it."""
        record = heard.record
        values, missing = arrangement.value_maps(heard, frame)
        around, why = arrangement.surroundings(heard, frame, after)
        missing |= record.missing | why
        self.last = self.number(frame)
        size = record.weights.shape[::2]
        ids = _of_size(self.ids, size)
        if ids is None:
            missing["ids"] = "the inputs hold no numbers of tokens (b, n)"
        token_mask = record.token_mask
        if token_mask is None:
            token_mask = _of_size(self.token_mask, size)
        known = self.total is not None and self.count < self.total
        found = {
            "layer": self.last,
            "layers": self.total if known else None,
            "token_mask": token_mask,
            "ids": ids,
            "missing": missing,
        }
        self.count += 1
        with torch._C.DisableTorchFunction():  # what is heard now is not the model
            self.hear(replace(record, **{**found, **values, **around}))

    def number(self, frame: Frame | None) -> int:
        """The number of a layer: its place in the list of the model that holds it, so
        that layers without attention count, or else in the order of the layers told.
        """
        path = "" if frame is None else self.names[frame.block]
        sides = {"encoder", "decoder"}.intersection(path.split("."))
        before = {"encoder", "decoder"}.intersection((self.stack or "").split("."))
        require(
            not (sides and before and sides != before),
            f"{type(self.model).__name__} holds two stacks of layers, {self.stack} and "
            f"{path}, whose tokens are not the same: audit each by itself, such as "
            "model.encoder with its input",
        )
        held = re.match(r"(.*?)\.?(\d+)(\.|$)", path)
        holder = self.model.get_submodule(held[1]) if held else None
        if self.stack is None:
            self.stack = held[1] if held else path
        if isinstance(holder, nn.ModuleList) and held[1] == self.stack:
            return max(int(held[2]), self.last + 1)
        return self.last + 1


HAND_WRITTEN = "a softmax was heard, which does not show keys"
SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax}
MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__}
MATMUL |= {torch.bmm, Tensor.bmm, torch.einsum}


class _Products(TorchFunctionMode):
    """Hears scaled_dot_product_attention, and softmax over pairs of tokens with the
    product that follows it, wherever they are called.
    """

    def __init__(self, listener: _Listener):
        super().__init__()
        self.listener = listener

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        found = func(*args, **kwargs)
        if func in SOFTMAX and _of_pairs(found):
            self.listener.softmax(args[0] if args else kwargs["input"], found)
        elif func in MATMUL and self.listener.pending is not None:
            parts = args[1:] if func is torch.einsum else args
            size = self.listener.pending.record.weights.shape
            sizes = (size, (size[0] * size[1], *size[2:]))
            if len(parts) == 2 and parts[0].shape in sizes:
                return self.listener.product(*parts, found)
        return found

    def attend(
        self,
        query,
        key,
        value,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ) -> Tensor:
        """What torch's function computes, by a listener."""
        place = self.listener.place()
        parts = {"queries": query, "keys": key, "values": value}
        for name, part in parts.items():
            require(
                part.dim() == 4,
                f"scaled_dot_product_attention in {place} got {name} "
                f"{tuple(part.shape)}: the audit needs (b, h, n, d), also for one head",
            )
        require(
            dropout_p == 0,
            f"scaled_dot_product_attention in {place} drops weights although the model "
            "is in evaluation mode: pass dropout_p=0 unless self.training",
        )
        if is_causal:
            pairs = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
            attn_mask = pairs.tril()
        return self.listener.attend(place, (query, key, value), attn_mask, scale=scale)


def _of_pairs(weights: Tensor) -> bool:
    """Whether a softmax has the form of attention: (b, h, n, n), rows sum to one."""
    square = weights.dim() == 4 and weights.shape[-1] == weights.shape[-2]
    if not square or not weights.numel():
        return False
    return bool((weights.sum(-1, dtype=torch.float32) - 1).abs().amax() < 0.05)


def _eager(model: nn.Module):
    """Parts under torch.compile run as they are written, so that hooks are called."""
    for module in model.modules():
        wrapped = getattr(module, "_compiled_call_impl", None) is not None
        if wrapped or hasattr(module, "_orig_mod"):
            return torch.compiler.set_stance("force_eager")
    return nullcontext()


def _mixers(model: nn.Module) -> list[nn.Module]:
    """The innermost parts that mix tokens, by their names."""
    found = []
    for module in model.modules():
        inner = [part for part in module.modules() if arrangement.mixes(part)]
        if inner == [module]:
            found.append(module)
    return found


def _refuse_windows(record: LayerRecord, frame: Frame) -> None:
    """Refuse attention within parts of a sequence, which no theorem here is about."""
    b, _, n, _ = record.weights.shape
    if frame.before is None or frame.before.dim() != 3:
        return
    size = tuple(frame.before.shape[:2])
    cut = size not in ((b, n), (n, b)) and math.prod(size) == b * n and b > size[0]
    require(
        not cut,
        f"{record.name} attends in windows: {b} of {n} tokens, where the sequence has "
        f"{size[1]}. The audit reads whole sequences alone",
    )


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Every part of a model in evaluation mode, and then back in its own.

    Args:
        model: a torch module.

    Yields:
        nothing.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _hook(module: nn.Module, before, after) -> list:
    handles = [module.register_forward_hook(after, with_kwargs=True)]
    if before is not None:
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
    return handles


def _blocks(names: dict[nn.Module, str]) -> list[nn.Module]:
    """What a container repeats, and what holds an attention outside of containers. An
    attention is no block if a container holds what it is a part of.
    """
    modules = {name: module for module, name in names.items()}
    containers = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
    blocks = {}
    for module, name in names.items():
        holder = modules.get(name.rpartition(".")[0])
        within = name.startswith(tuple(f"{block}." for block in blocks.values()))
        if name and isinstance(holder, containers):
            if not (within and is_attention(module)):
                blocks[module] = name
        elif name and is_attention(module) and not within and not is_attention(holder):
            blocks[holder] = name.rpartition(".")[0]
    return list(blocks)


def _shared(t: Tensor, h: int) -> Tensor:
    """Keys or values (b, kv_heads, n, d), repeated for the heads that share them."""
    return t.repeat_interleave(h // t.shape[1], 1) if t.shape[1] < h else t


def _allowed(mask: Tensor | None, n: int) -> tuple[Tensor | None, Tensor | None]:
    """Which pairs may attend, and what is added to the logits of those; None where all
    may, and where nothing is added.
    """
    if mask is None:
        return None, None
    mask = mask[..., :n]
    added = None
    if mask.dtype != torch.bool:
        least = float(mask.min())
        flat = least <= -50 and bool(((mask == 0) | (mask == least)).all())
        allowed = mask > (least if flat else HIDDEN)
        added = mask.masked_fill(~allowed, 0)
        added = added if bool(added.any()) else None
        mask = allowed
    return (None if bool(mask.all()) else mask), added


def _softmax(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Rows of weights; one that may attend to nothing (a token of padding) is even."""
    if allowed is None:
        return torch.softmax(logits, -1)
    least = torch.finfo(logits.dtype).min
    return torch.softmax(logits.masked_fill(~allowed, least), -1)


def _of_torch(
    module: nn.MultiheadAttention, name: str, given: dict, y: Tensor, weights: Tensor
) -> Heard:
    """What a MultiheadAttention did."""
    require(
        module.bias_k is None and not module.add_zero_attn,
        f"{name} has add_bias_kv or add_zero_attn: its maps hold tokens that no "
        "sequence holds",
    )
    if weights.dim() == 3:
        weights = weights[None]
    b, h, n, _ = weights.shape
    tokens_first = not module.batch_first and given["query"].dim() == 3
    q, k, v = _projected(module, given, tokens_first)
    width = module.embed_dim // h
    logits = q @ k.mT / width**0.5
    # In torch, True means may not attend.
    mask, added = _allowed(_turned(given["attn_mask"]), n)
    tokens, added_keys = _allowed(_turned(given["key_padding_mask"]), n)
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(-1, h, n, n)
    if tokens is not None:
        tokens = tokens.reshape(b, n)
        mask = both(mask, tokens)
    if added is not None:
        logits = logits + added.reshape(-1, h if added.dim() == 3 else 1, n, n)
    if added_keys is not None:
        logits = logits + added_keys.reshape(b, 1, 1, n)
    weight = _in_weights(module)[2].T
    b_v = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[2]
    biases = [b_v, module.out_proj.bias]
    record = LayerRecord(
        name=name,
        weights=wide(weights),
        logits=wide(logits),
        mask=mask,
        token_mask=tokens,
        w_v=wide(weight.unflatten(1, (h, width)).transpose(0, 1)),
        w_o=wide(module.out_proj.weight.T.unflatten(0, (h, width))),
        biases=any(bias is not None and bool(bias.any()) for bias in biases),
        values=wide(v),
        kv_heads=h,
        head_width=2 * width,
        dtype=given["query"].dtype,
    )
    return Heard(record, x=given["value"], y=y, tokens_first=tokens_first)


def _in_weights(module: nn.MultiheadAttention) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (out, in) of queries, keys and values."""
    if module.in_proj_weight is not None:
        return module.in_proj_weight.chunk(3)
    return module.q_proj_weight, module.k_proj_weight, module.v_proj_weight


def _projected(
    module: nn.MultiheadAttention, given: dict, tokens_first: bool
) -> list[Tensor]:
    """Queries, keys and values (b, h, n, width)."""
    biases = [None] * 3
    if module.in_proj_bias is not None:
        biases = module.in_proj_bias.chunk(3)
    found = []
    names = ("query", "key", "value")
    for name, weight, bias in zip(names, _in_weights(module), biases):
        x = given[name]
        if x.dim() == 2:
            x = x[None]
        elif tokens_first:
            x = x.transpose(0, 1)
        t = F.linear(x, weight, bias)
        found.append(t.unflatten(-1, (module.num_heads, -1)).transpose(1, 2))
    return found


def _turned(mask: Tensor | None) -> Tensor | None:
    """A mask of torch's attention as True = may attend; one of numbers is added."""
    return ~mask if mask is not None and mask.dtype == torch.bool else mask


def _tokens(arguments: dict[str, Any] | tuple) -> tuple[Tensor | None, Tensor | None]:
    """Numbers of the tokens and which are tokens, where the arguments tell."""
    if isinstance(arguments, tuple):
        arguments = {"input_ids": arguments[0]} if arguments else {}
    ids = arguments.get("input_ids")
    if not torch.is_tensor(ids) or ids.is_floating_point():
        ids = None
    given = arguments.get("attention_mask")
    if torch.is_tensor(given) and given.dim() == 2:
        return ids, given.bool()
    return ids, None


def _of_size(t: Tensor | None, size: tuple[int, ...]) -> Tensor | None:
    """A tensor if it has this size."""
    return t if t is not None and tuple(t.shape) == tuple(size) else None


@contextmanager
def _open_attention() -> Iterator[None]:
    """Torch's encoder layers without the fast path, in which no hook is called."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _of_transformers(model: nn.Module) -> list[nn.Module]:
    """The models of transformers within a model, if that is one, too."""
    known = sys.modules.get("transformers")
    kind = () if known is None else known.PreTrainedModel
    return [part for part in model.modules() if isinstance(part, kind)]


@contextmanager
def _our_attention(models: list[nn.Module], listener: _Listener) -> Iterator[None]:
    """Models of transformers made to call our attention in place of their own."""
    if not models:
        yield
        return
    functions, masks, whole_mask = _registries()
    configs = {}
    for model in models:
        if model._can_set_attn_implementation():
            configs[id(model.config)] = model.config
    before = [config._attn_implementation_internal for config in configs.values()]
    functions.register(OURS, listener.of_transformers)
    masks.register(OURS, whole_mask)
    try:
        for config in configs.values():
            config._attn_implementation_internal = OURS
        yield
    finally:
        for config, name in zip(configs.values(), before):
            config._attn_implementation_internal = name
        del functions._global_mapping[OURS]
        del masks._global_mapping[OURS]


def _registries():
    """Where transformers keeps attentions and masks, and a mask that is never left out
    for a causal kernel.
    """
    import transformers

    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    except ImportError:
        raise ValueError(
            f"transformers {transformers.__version__} has no registry of attentions: "
            "the audit needs version 5.4 or later"
        ) from None

    def whole_mask(*args, **kwargs):
        return sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False})

    return ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS, whole_mask
