"""The advice of a report, carried out: heads replaced, and what that changes.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib._require import require, sizes
from attnlib.audit import verdict
from attnlib.audit.measures import Row
from attnlib.audit.modules import Edit
from attnlib.audit.named import OTHER
from attnlib.audit.sources import called_with, seen_in
from attnlib.audit.tiny import TinyModel
from attnlib.lowrank import svd_surrogate

Place = tuple[int, int]  # layer and head
RANDOM = "random"


@dataclass(frozen=True, eq=False)
class Verification:
    """What changed when heads were replaced.

    Args:
        rows: plain dicts: kind (constant, sink, low rank), control (whether the head
            was drawn at random), layer and head (None for all named heads at once),
            rank (of what replaced it, None for a constant), change, loss.
        unit: of change: nats of the Kullback-Leibler divergence of the model's outputs,
            or the share by which its last states moved.
    """

    rows: list[Row]
    unit: str

    def __str__(self) -> str:
        lines = [
            "Heads replaced, one at a time and those named of a kind together (all),",
            "by their mean output on another text; for low rank by the nearest map of",
            f"that rank. Change in {self.unit};",
            "loss in nats a token, + is worse.",
            f"{'kind':>12}{'head':>9}{'change':>12}{'loss':>12}",
        ]
        for row in self.rows:
            where = "all"
            if row["layer"] is not None:
                where = f"{row['layer']}.{row['head']}"
            kind = RANDOM if row["control"] else row["kind"]
            loss = "-" if row["loss"] is None else f"{row['loss']:+.2g}"
            lines.append(f"{kind:>12}{where:>9}{row['change']:12.2g}{loss:>12}")
        return "\n".join([*lines, "", *self.verdict()])

    def verdict(self) -> list[str]:
        """Whether the named heads could go at less cost than random ones, by kind:
        confirmed, if their median is below all of those, refuted if it is above all.
        """
        said = []
        for kind in dict.fromkeys(row["kind"] for row in self.rows):
            ours = self._changes(kind, control=False)
            theirs = self._changes(kind, control=True)
            middle = statistics.median(ours)
            word = "open"
            if middle < min(theirs):
                word = "confirmed"
            elif middle > max(theirs):
                word = "refuted"
            count = f"{len(ours)} head" + ("" if len(ours) == 1 else "s")
            said.append(
                f"{kind}: {word}. The {count} named cost {_span(ours)}, "
                f"{len(theirs)} random ones replaced alike {_span(theirs)}."
            )
        return said

    def _changes(self, kind: str, *, control: bool) -> list[float]:
        found = []
        for row in self.rows:
            one = row["layer"] is not None
            if one and row["kind"] == kind and row["control"] == control:
                found.append(row["change"])
        return found


def _span(values: list[float]) -> str:
    middle = statistics.median(values)
    return f"{middle:.2g} in the median ({min(values):.2g} to {max(values):.2g})"


def verify(
    rows: list[Row], subject: tuple | None, other: Any, *, most: int, seed: int
) -> Verification:
    """See Report.verify.

    Args:
        rows: of the report.
        subject: the model, its inputs and tokenizer.
        other: inputs to take means of, or None.
        most: heads of each kind.
        seed: of the random heads.

    Returns:
        Verification.

    Raises:
        ValueError: if the model cannot run again, or names no head.

    Cost: a forward pass for each head that is replaced, at most 6 most + 5.
    """
    sizes(1, most=most)
    require(
        subject is not None,
        "verify runs the model again, and there are only maps or layers here: give "
        "audit.run a torch module",
    )
    advised = verdict.advised(rows)
    spoken_for: set[Place] = set()
    named = {}
    for kind, heads in advised.items():  # each head counts once
        mine = [place for place in heads if place not in spoken_for]
        spoken_for.update(mine)
        if mine:
            named[kind] = mine[:most]
    require(
        named, "the report names no head that is nearly constant, a sink or low-rank"
    )
    bench = _Bench(*subject, other)
    ranks = {}
    for row in rows:
        if row["quantity"] == "energy rank, 90%" and row["value"] is not None:
            ranks[row["layer"], row["head"]] = int(row["value"])
    places = [(r["layer"], r["head"]) for r in rows if r["quantity"] == "tau"]
    draw = random.Random(seed)
    found = []
    for kind, heads in named.items():
        # random heads are such as no advice names, if there are any
        others = [place for place in places if place not in spoken_for]
        others = others or [place for place in places if place not in heads]
        drawn = draw.sample(others, min(most, len(others)))
        rank = max(ranks[place] for place in heads) if kind == "low rank" else None
        for control, some in ((False, heads), (True, drawn)):
            for place in some:
                found.append(bench.row(kind, [place], rank, control=control))
        if len(heads) > 1:
            found.append(bench.row(kind, heads, rank, control=False))
    return Verification(found, bench.unit)


class _Bench:
    """A model on a text, and the mean output of each head on another text."""

    def __init__(self, model, inputs, tokenizer, other):
        if other is None:
            other = _other(model, tokenizer)
        self.model = model
        self.arguments = called_with(model, inputs, tokenizer)
        self.layers: list[int] = []  # of each call of attention, in order
        told = seen_in(model, self.arguments, self._number)
        self.before = _output(told.output)
        self.logits = getattr(told.output, "logits", None) is not None
        self.logits = self.logits or isinstance(model, TinyModel)
        self.unit = "shares of the length of the last states"
        if self.logits:
            self.unit = "nats (KL)"
        self.means: list[Tensor] = []
        arguments = called_with(model, other, tokenizer)
        tokens = None
        if isinstance(arguments, dict):
            tokens = arguments.get("attention_mask")
        seen_in(model, arguments, None, self._take(tokens))
        require(
            len(self.means) == len(self.layers),
            f"attention was called {len(self.layers)} times, and on the other text "
            f"{len(self.means)} times",
        )

    def _number(self, record) -> None:
        self.layers.append(record.layer)

    def _take(self, tokens: Tensor | None) -> Edit:
        """An edit that changes nothing and keeps the mean output of each head."""

        def take(call: int, weights: Tensor, values: Tensor, heads: Tensor) -> Tensor:
            kept = heads.transpose(1, 2).flatten(0, 1)
            if tokens is not None and tokens.shape == heads.shape[::2]:
                kept = kept[tokens.flatten().bool()]
            self.means.append(kept.mean(0))
            return heads

        return take

    def row(self, kind: str, places: list[Place], rank: int | None, *, control) -> Row:
        """What it costs to replace these heads."""
        told = seen_in(self.model, self.arguments, None, self._put(places, rank))
        after = _output(told.output)
        layer, head = places[0] if len(places) == 1 else (None, None)
        return {
            "kind": kind,
            "control": control,
            "layer": layer,
            "head": head,
            "rank": rank,
            "change": self._change(after),
            "loss": self._loss(after),
        }

    def _put(self, places: list[Place], rank: int | None) -> Edit:
        """An edit that puts means, or maps of low rank, in the place of heads."""

        def put(call: int, weights: Tensor, values: Tensor, heads: Tensor) -> Tensor:
            new = heads.clone()
            for layer, head in places:
                if self.layers[call] != layer:
                    continue
                if rank is None:
                    new[:, head] = self.means[call][head]
                else:
                    shared = head * values.shape[1] // heads.shape[1]
                    near = svd_surrogate(weights[:, head], min(rank, weights.shape[-1]))
                    new[:, head] = near.to(values.dtype) @ values[:, shared]
            return new

        return put

    def _tokens(self) -> Tensor | slice:
        """Where the outputs are those of tokens."""
        mask = None
        if isinstance(self.arguments, dict):
            mask = self.arguments.get("attention_mask")
        if torch.is_tensor(mask) and mask.shape == self.before.shape[:2]:
            return mask.bool()
        return slice(None)

    def _change(self, after: Tensor) -> float:
        kept = self._tokens()
        old, new = self.before[kept], after[kept]
        if not self.logits:
            return float((new - old).norm() / old.norm())
        old, new = old.log_softmax(-1), new.log_softmax(-1)
        return float((old.exp() * (old - new)).sum(-1).mean().clamp_min(0))

    def _loss(self, after: Tensor) -> float | None:
        """By how much the loss of the next token grew, where the model has one."""
        ids = None
        if isinstance(self.arguments, dict):
            ids = self.arguments.get("input_ids")
        causal = type(self.model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        if not causal or not self.logits or ids is None:
            return None
        return _next(after, ids) - _next(self.before, ids)


def _next(logits: Tensor, ids: Tensor) -> float:
    return float(F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))


def _other(model, tokenizer):
    """A text of ours that the model can read."""
    if isinstance(model, TinyModel):
        return model.sample[1][:128]
    require(
        isinstance(tokenizer, Callable),
        "other= is needed: inputs to take the mean outputs of heads on, another text "
        "than that of the report",
    )
    return OTHER


def _output(output) -> Tensor:
    """Logits, or the last states."""
    for name in ("logits", "last_hidden_state"):
        found = getattr(output, name, None)
        if torch.is_tensor(found):
            return found.double()
    found = output[0] if isinstance(output, tuple | list) else output
    require(
        torch.is_tensor(found) and found.is_floating_point() and found.dim() >= 2,
        f"verify compares logits or states, and the model returned "
        f"{type(output).__name__}",
    )
    return found.double()
