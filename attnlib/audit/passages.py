"""The sequences of a batch, each without its padding.

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnlib.audit.records import LayerRecord


@dataclass(frozen=True, eq=False)
class Passage:
    """One sequence of a batch in one layer, its padding taken out.

    Args:
        p: (h, n, n), in float32 or float64.
        logits: (h, n, n) or None.
        allowed: boolean (h, n, n), or None if all pairs are.
        before, after: (n, d) or None.
        ids: (n,) or None.
    """

    p: Tensor
    logits: Tensor | None
    allowed: Tensor | None
    before: Tensor | None
    after: Tensor | None
    ids: Tensor | None

    @property
    def n(self) -> int:
        """Tokens."""
        return self.p.shape[-1]

    @property
    def causal(self) -> bool:
        """Whether no token may read a later one, and there is a later one."""
        if self.allowed is None or self.n == 1:
            return False
        return not bool(self.allowed.triu(1).any())


def passages(record: LayerRecord) -> Iterator[Passage]:
    """The sequences of a batch, without their padding.

    Args:
        record: of one layer.

    Yields:
        a Passage each.
    """
    b, h, n, _ = record.weights.shape
    mask = record.mask
    if mask is not None:
        mask = mask.expand(b, h, n, n)
    for i in range(b):
        keep = None
        if record.token_mask is not None and not bool(record.token_mask[i].all()):
            keep = record.token_mask[i].nonzero().flatten()
        allowed = _pairs(mask, i, keep)
        if allowed is not None and bool(allowed.all()):
            allowed = None
        yield Passage(
            p=_pairs(record.weights, i, keep),
            logits=_pairs(record.logits, i, keep),
            allowed=allowed,
            before=_kept(record.before, i, keep),
            after=_kept(record.after, i, keep),
            ids=_kept(record.ids, i, keep),
        )


def _pairs(maps: Tensor | None, i: int, keep: Tensor | None) -> Tensor | None:
    """(h, n, n) of sequence i, without padding."""
    if maps is None or keep is None:
        return None if maps is None else maps[i]
    return maps[i][:, keep][:, :, keep]


def _kept(tokens: Tensor | None, i: int, keep: Tensor | None) -> Tensor | None:
    """What belongs to the tokens of sequence i, without padding."""
    if tokens is None or keep is None:
        return None if tokens is None else tokens[i]
    return tokens[i][keep]
