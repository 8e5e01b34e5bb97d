"""The theorems of the book on a model of yours.

    from attnlib import audit
    report = audit.run(model, inputs)
    print(report)

Page: notebooks/synthesis/your_model
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnlib import paths
from attnlib._require import is_a
from attnlib.attention import Encoder, Layer
from attnlib.audit import sources
from attnlib.audit.comparison import compare
from attnlib.audit.measures import Collector, Row, measured, uncovered
from attnlib.audit.named import load
from attnlib.audit.records import both
from attnlib.audit.report import Report, with_links

__all__ = ["Report", "compare", "load", "run"]


def run(
    model: Any,
    inputs: Any = None,
    *,
    tokenizer: Any = None,
    states: Any = None,
    layers: list[int] | None = None,
    mask: Tensor | None = None,
    token_mask: Tensor | None = None,
    exact: bool = False,
    progress: bool = False,
) -> Report:
    """What the book's theorems say of each layer and head of a model on some inputs.

    What the model may be, and what inputs then are:

        a model of transformers      the dict that its tokenizer gives, numbers of
                                     tokens (b, n), pixels, or texts and a tokenizer
        a torch.nn.Module            what it is called with: a tensor, a tuple, or a
                                     dict by name
        a TinyModel                  a text, or numbers of characters
        a list of attnlib's Layers   x (n, d) or (b, n, d); there are no skips
        an Encoder of attnlib        x (n, d) or (b, n, d); there are skips
        plain maps                   None: a tensor or array (L, h, n, n) or
                                     (L, b, h, n, n), or a list of one a layer
        a cache of TransformerLens   None

    Args:
        model: one of these.
        inputs: what it attends to. Texts are cut at the longest that their tokenizer
            allows.
        tokenizer: text to tokens; without it tokens are named by their places alone.
        states: for plain maps: the states before the first layer and after each,
            (L + 1, n, d) or (L + 1, b, n, d), or a list.
        layers: numbers of the layers to look at, None for all.
        mask: for Layers and plain maps: True = may attend, broadcastable to
            (b, h, n, n). Maps without it that never look ahead are taken for causal.
        token_mask: for Layers and plain maps: True = a token (b, n). Models of
            transformers have it as attention_mask, torch's as key_padding_mask.
        exact: compute energy ranks for more than 256 tokens too; an eigenvalue problem
            a head.
        progress: show a bar.

    Returns:
        Report: print it; report.rows, verify(), figure(), to_json(path), to_html(path).

    Raises:
        ValueError: for a model without attention that can be seen, and for input that
            does not fit; each says what to change.

    Cost: memory of one layer's maps; a few forward passes. Beyond 256 tokens tau of a
        head without a causal mask may be found between two numbers.
    Claim: synthesis.logits, synthesis.rank, synthesis.depth, patterns.universal,
        escaping.sink
    """
    is_a(bool, exact=exact, progress=progress)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    spell, special = sources.spelling(model, tokenizer)
    collector = Collector(exact=exact, spell=spell, special=special)
    partial = sources.visit(
        model,
        inputs,
        collector,
        tokenizer=tokenizer,
        states=states,
        layers=layers,
        mask=mask,
        token_mask=token_mask,
        progress=progress,
    )
    rows = collector.finish(partial)
    of_network = {name: rows[-1][name] for name in ("layer", "dtype", "measured_in")}
    for row in _path_rows(model, inputs, mask, token_mask, partial):
        rows.append({**of_network, **row})
    texts, tokens = collector.size
    read = sorted({row["layer"] for row in rows if row["layer"] is not None})
    size = f"{texts} x {tokens} tokens" if texts > 1 else f"{tokens} tokens"
    count = f"{len(read)} layer" + ("" if len(read) == 1 else "s")
    rest = f"Not the whole: {partial}."
    if not partial:
        rest = "Nothing else mixes tokens, by the names of the parts."
    seen = f"Read: self-attention of {count}, on {size}. {rest}"
    subject = (model, inputs, tokenizer) if isinstance(model, nn.Module) else None
    return Report(with_links(rows), model=_name(model), read=seen, subject=subject)


def _name(model: Any) -> str:
    """What a reader would call the model."""
    if isinstance(model, nn.Module):
        config = getattr(model, "config", None)
        name = getattr(config, "_name_or_path", "") or type(model).__name__
        return str(name).rstrip("/").rpartition("/")[2]
    return "these maps" if _network(model) is None else "these layers"


def _network(model: Any) -> Encoder | None:
    """The model as an Encoder, whose layers stand apart; None if it is none."""
    if isinstance(model, Encoder):
        return model
    if isinstance(model, list | tuple) and model and isinstance(model[0], Layer):
        return Encoder(list(model), [], [])
    return None


def _path_rows(
    model: Any, x: Any, mask: Tensor | None, token_mask: Tensor | None, partial: str
) -> list[Row]:
    """The share of the output that comes on paths of each length, where the theorem
    covers the network.
    """
    network = _network(model)
    if network is None or _has_parts(network) or partial:
        why = "Theorem 1.5 covers attention and skips alone, and needs the weights"
        return [uncovered("paths", partial or why)]
    mask = both(mask, token_mask)
    skip = isinstance(model, Encoder)
    sums = paths.path_sums(x, network.layers, skip=skip, mask=mask).by_length
    if token_mask is not None:
        sums = sums * token_mask.unsqueeze(-1)
    whole = _sizes(sums.sum(0))
    found = []
    for length, part in enumerate(sums):
        shares = (_sizes(part) / whole).tolist()
        found.append(measured(f"paths of length {length}", shares))
    return found


def _has_parts(network: Encoder) -> bool:
    """Whether a layer has a feed-forward part or a norm."""
    norms = [norm for pair in network.norms for norm in pair]
    return any(part is not None for part in [*network.mlps, *norms])


def _sizes(x: Tensor) -> Tensor:
    """The Frobenius norm of each member of the batch."""
    return x.double().norm(dim=(-2, -1)).flatten()
