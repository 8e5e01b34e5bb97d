"""Public checkpoints (BERT, RoBERTa, ALBERT, XLNet) in the book's form. Needs the extra
`checkpoints`, that is transformers.

Page: notebooks/path_decomposition/escaping_collapse
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib._blocks import read_linears, read_mlp, read_norm
from attnlib._require import floating, require
from attnlib.attention import Encoder, forward
from attnlib.audit import tiny


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A public model, from token ids to the tokens after each layer.

    Args:
        name: of the checkpoint.
        encoder: attnlib.attention.Encoder, post-LN, or None for a model with relative
            positions.
        embed: token ids (n,) -> (n, d), the input of the first layer.
        encode: text -> token ids (n,), or None if no tokeniser was loaded.
        step: (x, layer number from 0, skip, feed_forward) -> x, one layer.
        depth: number of layers.
    """

    name: str
    encoder: Encoder | None
    embed: Callable[[Tensor], Tensor]
    encode: Callable[[str], Tensor] | None
    step: Callable[[Tensor, int, bool, bool], Tensor]
    depth: int


def load_checkpoint(
    name: str,
    *,
    download: bool = True,
    pretrained: bool = True,
    dtype: torch.dtype = torch.float64,
) -> Checkpoint:
    """A public checkpoint by its name on the Hugging Face hub.

    Args:
        name: such as "bert-base-cased", "roberta-base", "albert-base-v2" or
            "xlnet-base-cased".
        download: fetch what is missing; if False, only look at what this machine holds
            already.
        pretrained: with the trained weights, else as they are drawn before training
            (from torch's global seed).
        dtype: of the weights.

    Returns:
        Checkpoint.

    Raises:
        RuntimeError: with a sentence for the reader, if transformers is not installed,
            if the checkpoint is neither here nor to be had, or if it lacks weights.
        ValueError: for a model that is of no known kind, or a dtype that is not
            floating.
    """
    require(
        isinstance(name, str) and name,
        f"name must be the name of a checkpoint, got {name!r}",
    )
    floating(dtype)
    try:
        with warnings.catch_warnings():
            # tqdm's, about widgets, with a path of the machine
            warnings.simplefilter("ignore")
            import transformers
    except ImportError:
        raise RuntimeError(
            f"{name}: transformers is not installed; pip install 'transformers>=5.4'"
        ) from None
    here = {"local_files_only": not download, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(name, **here)
        require(
            config.model_type in KINDS,
            f"{name} is of kind {config.model_type!r}; known are {sorted(KINDS)}",
        )
        if pretrained:
            model, report = transformers.AutoModel.from_pretrained(
                name, use_safetensors=True, output_loading_info=True, **here
            )
            _check_complete(name, report)
        else:
            model = transformers.AutoModel.from_config(config)
        tokeniser = transformers.AutoTokenizer.from_pretrained(name, **here)
    except ImportError as error:
        raise RuntimeError(
            f"{name}: a package that its tokeniser needs is not installed: {error}"
        ) from error
    except OSError as error:
        why = "not on this machine; download=True fetches it"
        if download:
            why = "could not be fetched: is there a network, and are there safetensors?"
        raise RuntimeError(f"{name}: {why}") from error

    def encode(text):
        return torch.tensor(tokeniser(text)["input_ids"])

    return replace(convert(model.to(dtype), name=name), encode=encode)


def _check_complete(name: str, report: dict) -> None:
    """No weight was drawn at random for want of a stored one; the pooler is unused."""
    missing = [key for key in report["missing_keys"] if not key.startswith("pooler.")]
    missing += [str(key) for key in report["mismatched_keys"]]
    if missing:
        raise RuntimeError(
            f"{name} lacks {len(missing)} weights of its model, such as {missing[0]}"
        )


def convert(model: Any, *, name: str = "") -> Checkpoint:
    """The weights of a BertModel, RobertaModel, AlbertModel or XLNetModel of
    transformers; nothing is trained or copied.

    Args:
        model: the model itself, without a head; it is put into evaluation mode, so
            without dropout, and its weights are frozen.
        name: kept for the reader.

    Returns:
        Checkpoint with views of the weights.

    Raises:
        ValueError: for another kind of model, and for what the book's layers do not
            have (a decoder, positions other than absolute ones in BERT).
    """
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    require(kind in KINDS, f"model must be one of {sorted(KINDS)}, got {kind!r}")
    bare = hasattr(model, "layer") or hasattr(model, "encoder")
    require(
        bare,
        f"{type(model).__name__} has a head: convert the model inside it, "
        "such as model.base_model",
    )
    plain = not getattr(model.config, "is_decoder", False)
    require(plain, "a decoder masks its tokens: only encoders are converted")
    positions = getattr(model.config, "position_embedding_type", None) or "absolute"
    require(
        positions == "absolute",
        f"only absolute positions are converted, got {positions!r}",
    )
    with torch.no_grad():
        return KINDS[kind](model.eval().requires_grad_(False), name)


def checkpoint_states(
    checkpoint: Checkpoint,
    x: Float[Tensor, "n d"],
    *,
    skip: bool = True,
    feed_forward: bool = True,
) -> Float[Tensor, "layers n d"]:
    """The tokens after each layer.

        X <- N_1([X +] SA(X)),   then X <- N_2(X + M(X)) with feed_forward

    Args:
        checkpoint: Checkpoint.
        x: (n, d), what checkpoint.embed returned.
        skip: keep the skip around the attention; the one around the feed-forward part
            always stays.
        feed_forward: keep the feed-forward parts, with their skips and norms.

    Returns:
        (depth + 1, n, d), the input first.

    Cost: one forward pass.
    """
    states = [x]
    for layer in range(checkpoint.depth):
        states.append(checkpoint.step(states[-1], layer, skip, feed_forward))
    return torch.stack(states)


def attention_maps(
    model: tiny.TinyModel | Checkpoint, text: str
) -> Float[Tensor, "layers h n n"]:
    """The attention matrix of every head on a text.

    Args:
        model: by load_tiny_model, or by load_checkpoint.
        text: n characters for the tiny model, else a text for the tokeniser of the
            checkpoint, cut at 512 tokens.

    Returns:
        (layers, heads, n, n), rows sum to one.

    Raises:
        ValueError: for what is no text, or an empty one, and for a checkpoint whose
            attention is not the book's (XLNet: its logits hold relative positions).
    """
    if not isinstance(model, Checkpoint):
        return tiny.attention_maps(model, text)
    require(
        isinstance(text, str) and text != "",
        f"text must be a str with at least one character, got {text!r}",
    )
    require(
        model.encoder is not None,
        f"{model.name}: its logits hold relative positions, "
        "which the book's layers do not have",
    )
    x = model.embed(model.encode(text)[:512])
    _, maps = forward(x, model.encoder, return_attention=True)
    return torch.stack(maps)


def _of_encoder(encoder: Encoder, embed: Callable, name: str) -> Checkpoint:
    def step(x: Tensor, l: int, skip: bool, feed_forward: bool) -> Tensor:
        layer = [encoder.layers[l]]
        first, second = encoder.norms[l]
        if not feed_forward:
            return forward(x, layer, skip=skip, norms=[(first, None)], check=False)
        return forward(
            x,
            layer,
            skip=skip,
            mlps=[encoder.mlps[l]],
            mlp_skip=True,
            norms=[(first, second)],
            check=False,
        )

    depth = len(encoder.layers)
    return Checkpoint(name, encoder, embed, encode=None, step=step, depth=depth)


def _bert(model, name: str) -> Checkpoint:
    encoder = Encoder([], [], [])
    for block in model.encoder.layer:
        own = block.attention.self
        after = block.attention.output
        into = block.intermediate
        heads = model.config.num_attention_heads
        layer = read_linears(own.query, own.key, own.value, after.dense, heads)
        mlp = read_mlp(into.dense, block.output.dense, into.intermediate_act_fn)
        encoder.layers.append(layer)
        encoder.mlps.append(mlp)
        norms = read_norm(after.LayerNorm), read_norm(block.output.LayerNorm)
        encoder.norms.append(norms)

    def embed(ids):
        return model.embeddings(ids[None])[0]

    return _of_encoder(encoder, embed, name)


def _albert(model, name: str) -> Checkpoint:
    c = model.config
    groups = model.encoder.albert_layer_groups
    encoder = Encoder([], [], [])
    for i in range(c.num_hidden_layers):  # layers share the weights of their group
        group = groups[int(i * c.num_hidden_groups / c.num_hidden_layers)]
        for block in group.albert_layers:
            own = block.attention
            heads = c.num_attention_heads
            layer = read_linears(own.query, own.key, own.value, own.dense, heads)
            mlp = read_mlp(block.ffn, block.ffn_output, block.activation)
            encoder.layers.append(layer)
            encoder.mlps.append(mlp)
            norms = read_norm(own.LayerNorm), read_norm(block.full_layer_layer_norm)
            encoder.norms.append(norms)

    def embed(ids):
        narrow = model.embeddings(ids[None])
        return model.encoder.embedding_hidden_mapping_in(narrow)[0]

    return _of_encoder(encoder, embed, name)


def _xlnet(model, name: str) -> Checkpoint:
    """Its logits hold relative positions, which the book's layers do not have: a step
    runs the model's own parts.
    """
    require(
        model.config.attn_type == "bi",
        f"only two-sided attention is converted, got {model.config.attn_type!r}",
    )

    def by_head(t: Tensor, w: Tensor) -> Tensor:
        return torch.einsum("ibh,hnd->ibnd", t, w)

    def step(x: Tensor, l: int, skip: bool, feed_forward: bool) -> Tensor:
        block = model.layer[l]
        own = block.rel_attn
        n = len(x)
        h = x[:, None]  # tokens, batch, width
        places = model.relative_positional_encoding(n, n, bsz=1).to(x)
        q = by_head(h, own.q)
        k = by_head(h, own.k)
        v = by_head(h, own.v)
        moved = own.rel_attn_core(q, k, v, by_head(places, own.r))
        y = own.post_attention(h, moved, residual=skip)
        if feed_forward:
            y = block.ff(y)
        return y[:, 0]

    def embed(ids):
        return model.word_embedding(ids)

    depth = len(model.layer)
    return Checkpoint(name, None, embed, encode=None, step=step, depth=depth)


KINDS = {"bert": _bert, "roberta": _bert, "albert": _albert, "xlnet": _xlnet}
