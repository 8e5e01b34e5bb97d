"""The records of the audit against tensors taken out of each model by hand."""

from __future__ import annotations

import json
import sys
import weakref

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers import modeling_utils

from attnbook import data
from attnlib import attention, audit
from attnlib.audit import __main__ as command
from attnlib.audit import named
from attnlib.audit.records import LayerRecord
from attnlib.audit.sources import visit

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHARED = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
# Configuration, and what is to be seen: skip, norm, heads of keys and values.
MODELS = {
    "bert": (transformers.BertConfig(**SIZES), True, "post", 4),
    "roberta": (transformers.RobertaConfig(**SIZES), True, "post", 4),
    "albert": (
        transformers.AlbertConfig(**SIZES, embedding_size=16),
        True,
        "post",
        4,
    ),
    "distilbert": (
        transformers.DistilBertConfig(
            dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99
        ),
        True,
        "post",
        4,
    ),
    "gpt2": (
        transformers.GPT2Config(
            n_embd=32,
            n_layer=2,
            n_head=4,
            vocab_size=99,
            bos_token_id=1,
            eos_token_id=2,
        ),
        True,
        "pre",
        4,
    ),
    "opt": (
        transformers.OPTConfig(
            **SIZES, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=32
        ),
        True,
        "pre",
        4,
    ),
    "llama": (transformers.LlamaConfig(**SHARED), True, "pre", 2),
    "mistral": (
        transformers.MistralConfig(**SHARED, sliding_window=3),
        True,
        "pre",
        2,
    ),
    "qwen2": (transformers.Qwen2Config(**SHARED), True, "pre", 2),
    "qwen3": (transformers.Qwen3Config(**SHARED), True, "pre", 2),
    "phi3": (transformers.Phi3Config(**SHARED), True, "pre", 2),
    "gpt_neox": (transformers.GPTNeoXConfig(**SIZES), None, "pre", 4),
    "gemma2": (
        transformers.Gemma2Config(**SHARED, attn_logit_softcapping=0.1),
        None,
        "pre",
        2,
    ),
}


def seen(model, inputs, **how) -> list[LayerRecord]:
    records = []
    visit(model, inputs, records.append, **how)
    return records


def built(name: str, **changes) -> nn.Module:
    torch.manual_seed(0)
    config = MODELS[name][0]
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():  # also what begins as zeros or ones
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def batch(side: str = "right") -> dict[str, torch.Tensor]:
    """Two sequences of seven tokens, one of them with two of padding."""
    ids = torch.randint(3, 99, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 7, dtype=torch.int64)
    if side == "right":
        mask[1, 5:] = 0
    else:
        mask[1, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def shown(model, inputs):
    """What the model itself shows of its attention."""
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True, output_hidden_states=True)


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().abs().max())


def check_softmax(record: LayerRecord) -> None:
    """The logits and the mask give the weights, on every row of a token."""
    logits = record.logits
    if record.mask is not None:
        logits = logits.masked_fill(~record.mask, -1e30)
    rows = torch.softmax(logits, -1) - record.weights
    if record.token_mask is not None:
        rows = rows * record.token_mask[:, None, :, None]
    assert float(rows.abs().max()) < 1e-5


def test_as_many_sequences_as_tokens_are_told_apart():
    """Models of transformers have sequences first, so that no size is needed for it."""
    model = built("gpt2")
    inputs = {"input_ids": torch.arange(25).view(5, 5)}
    states = shown(model, inputs).hidden_states
    first, _ = seen(model, inputs)
    assert not first.missing
    assert off(first.before, states[0]) == off(first.after, states[1]) == 0


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", MODELS)
def test_records_are_what_transformers_shows(name, side):
    _, skip, norm, kv_heads = MODELS[name]
    model = built(name)
    inputs = batch(side)
    records = seen(model, inputs)
    theirs = shown(model, inputs)
    assert [record.layer for record in records] == [0, 1]
    tokens = inputs["attention_mask"].bool()
    for record, p, x in zip(records, theirs.attentions, theirs.hidden_states):
        rows = tokens[:, None, :, None]
        assert off(record.weights * rows, p * rows) < 1e-5
        assert off(record.before, x) == 0
        assert torch.equal(record.token_mask, tokens)
        assert torch.equal(record.ids, inputs["input_ids"])
        check_softmax(record)
        assert (record.skip, record.norm) == (skip, norm)
        assert record.feed_forward
        assert record.biases == (name in BIASED)
        assert record.kv_heads == kv_heads
        assert record.head_width == 16  # of a key and a value
        assert record.layers == 2
        assert set(record.missing) == ({"skip"} if skip is None else set())
    assert off(records[0].after, theirs.hidden_states[1]) == 0


BIASED = {"bert", "roberta", "albert", "distilbert", "gpt2", "opt", "qwen2", "gpt_neox"}


def by_head(weight: torch.Tensor, h: int = 4) -> torch.Tensor:
    """Columns of (d, h d_v) as (h, d, d_v)."""
    return weight.unflatten(1, (h, -1)).transpose(0, 1)


def of_bert(model):
    own = model.encoder.layer[1].attention
    return by_head(own.self.value.weight.T), own.output.dense.weight.T


def of_gpt2(model):
    own = model.h[1].attn
    return by_head(own.c_attn.weight[:, 64:]), own.c_proj.weight


def of_llama(model):
    own = model.layers[1].self_attn
    two = by_head(own.v_proj.weight.T, 2)
    return two[[0, 0, 1, 1]], own.o_proj.weight.T


def of_phi3(model):
    own = model.layers[1].self_attn
    two = by_head(own.qkv_proj.weight[48:].T, 2)
    return two[[0, 0, 1, 1]], own.o_proj.weight.T


def of_gpt_neox(model):
    own = model.layers[1].attention
    weight = own.query_key_value.weight.unflatten(0, (4, 3, 8))[:, 2]
    return weight.mT, own.dense.weight.T


@pytest.mark.parametrize("read", [of_bert, of_gpt2, of_llama, of_phi3, of_gpt_neox])
def test_the_weights_of_values_are_found(read):
    model = built(read.__name__.removeprefix("of_"))
    record = seen(model, batch())[1]
    w_v, w_o = read(model)
    assert torch.equal(record.w_v, w_v)
    assert torch.equal(record.w_o, w_o.unflatten(0, (4, 8)))


def test_what_the_record_holds_computes_the_layer():
    """Attention and skip of Llama, from the record alone."""
    model = built("llama")
    record = seen(model, batch())[0]
    caught = []
    norm = model.layers[0].post_attention_layernorm
    handle = norm.register_forward_pre_hook(lambda module, args: caught.append(args[0]))
    with torch.no_grad():
        model(**batch())
        x = model.layers[0].input_layernorm(record.before)
    handle.remove()
    heads = record.weights @ x.unsqueeze(1) @ record.w_v @ record.w_o
    assert off(record.before + heads.sum(1), caught[0]) < 1e-5


def test_vision():
    torch.manual_seed(0)
    sizes = {name: SIZES[name] for name in list(SIZES)[:4]}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    model = transformers.ViTModel(config)
    pixels = torch.randn(2, 3, 32, 32)
    records = seen(model, pixels)
    theirs = shown(model, {"pixel_values": pixels})
    for record, p in zip(records, theirs.attentions):
        assert off(record.weights, p) < 1e-5
        assert (record.mask, record.ids, record.norm) == (None, None, "pre")


def test_half_precision():
    model = built("llama").to(torch.bfloat16)
    record = seen(model, batch())[1]
    theirs = shown(model, batch()).attentions[1]
    rows = record.token_mask[:, None, :, None]
    assert off(record.weights * rows, theirs * rows) < 2**-8
    assert record.weights.dtype == torch.float32
    assert record.w_v.dtype == torch.float32
    assert record.dtype == torch.bfloat16
    assert off(record.weights.sum(-1), torch.ones(())) < 1e-6
    assert record.skip and record.norm == "pre"


OWN_SOFTMAX = {  # models whose attention is their own, and calls softmax
    "Bloom": {"n_layer": 2, "n_head": 4},
    "Mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "expansion_ratio": 2},
    "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
    "DebertaV2": SIZES,
}


@pytest.mark.parametrize("name", OWN_SOFTMAX)
def test_a_softmax_by_hand_is_heard(name):
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 32} | OWN_SOFTMAX[name]
    if name in ("Mpt", "XLNet"):
        del sizes["hidden_size"]
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}Model")(config)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    inputs = batch()
    records = seen(model, inputs)
    theirs = shown(model, inputs)
    assert len(records) == 2
    for record, p in zip(records, theirs.attentions):
        rows = record.token_mask[:, None, :, None]
        assert off(record.weights * rows, p * rows) < 1e-5
        assert (record.values is None) == (name == "XLNet")  # of another order
        assert "keys" in record.missing["head_width"]


class ByHand(nn.Module):
    """Attention of research code: einsum, or products, in some layers only."""

    def __init__(self, how: str):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.how = how

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)) for t in self.qkv(x).chunk(3, -1))
        if self.how == "einsum":
            a = torch.einsum("bihd,bjhd->bhij", q, k) / 2
            p = F.dropout(a.softmax(-1), 0.1, self.training)
            y = torch.einsum("bhij,bjhd->bihd", p, v).flatten(2)
        else:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            a = q @ k.mT / 2
            ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            p = F.softmax(a.masked_fill(ahead, -torch.inf), dim=-1)
            y = (p @ v).transpose(1, 2).flatten(2)
        return x + self.out(y)


@pytest.mark.parametrize("how", ["einsum", "products"])
def test_attention_written_by_hand_is_taken_apart(how):
    torch.manual_seed(0)
    model = nn.Sequential(ByHand(how), ByHand(how)).eval()
    x = torch.randn(2, 5, 8)
    records = seen(model, x)
    layer = model[0]
    w_v = by_head(layer.qkv.weight[16:].T, 2)
    for record in records:
        check_softmax(record)
        assert (record.skip, record.feed_forward) == (True, False)
    assert torch.equal(records[0].w_v, w_v)
    assert torch.equal(records[0].w_o, layer.out.weight.T.unflatten(0, (2, 4)))
    values = layer.qkv(x)[..., 16:].unflatten(-1, (2, 4)).transpose(1, 2)
    assert off(records[0].values, values) < 1e-6
    with torch.no_grad():
        assert off(records[1].after, model(x)) < 1e-6
    if how == "products":
        assert torch.equal(records[0].mask[0, 0], torch.ones(5, 5).tril().bool())
        assert bool(torch.isfinite(records[0].logits).all())


def test_texts(tokenizer):
    model = built("bert")
    texts = ["one two", "three"]
    records = seen(model, texts, tokenizer=tokenizer)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    assert off(records[0].weights, seen(model, inputs)[0].weights) == 0
    assert records[0].token_mask.sum(1).tolist() == [4, 3]


@pytest.fixture
def tokenizer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(words), encoding="utf-8")
    return transformers.BertTokenizer(str(path))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_encoder_of_torch(norm_first, batch_first):
    model = encoder(batch_first=batch_first, norm_first=norm_first)
    x = torch.randn(2, 5, 16)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
    given = x if batch_first else x.transpose(0, 1)
    inputs = {"src": given, "mask": ahead, "src_key_padding_mask": padding}
    records = seen(model, inputs)
    first = model.layers[0]
    entering = first.norm1(given) if norm_first else given
    how = {"key_padding_mask": padding, "attn_mask": ahead}
    parts = (entering, entering, entering)
    _, p = first.self_attn.eval()(*parts, average_attn_weights=False, **how)
    assert off(records[0].weights, p) < 1e-6
    assert off(records[0].before, x) == 0
    with torch.no_grad():
        y = model.eval()(**inputs)
    y = y if batch_first else y.transpose(0, 1)
    tokens = ~padding[..., None]
    assert off(records[1].after * tokens, y * tokens) < 1e-5
    for record in records:
        check_softmax(record)
        assert torch.equal(record.token_mask, ~padding)
        pairs = record.mask.expand(2, 2, 5, 5)
        assert torch.equal(pairs[1, 0], ~ahead & ~padding[1])
        assert (record.skip, record.norm) == (True, "pre" if norm_first else "post")
        assert record.feed_forward and record.biases


def test_tokens_first_where_sequences_are_as_many_as_tokens():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2)
    x = torch.randn(3, 3, 8)
    _, p = model(x, x, x, average_attn_weights=False)
    record = seen(model, {"query": x, "key": x, "value": x})[0]
    assert off(record.weights, p) < 1e-6
    assert off(torch.softmax(record.logits, -1), p) < 1e-6


def test_which_states_are_whose_is_not_guessed():
    """As many sequences as tokens, and tokens first: five of five, or two of five."""
    model = encoder(batch_first=False)
    for record in seen(model, torch.randn(5, 5, 16)):
        assert record.before is None and record.after is None
        assert "which is which cannot be told" in record.missing["before"]
    for record in seen(model, torch.randn(5, 2, 16)):
        assert not {"before", "after"} & set(record.missing)
        assert record.before.shape == record.after.shape == (2, 5, 16)
    x = torch.randn(5, 5, 16)
    first = seen(encoder(batch_first=True), x)[0]  # sequences first: nothing to guess
    assert "before" not in first.missing
    assert off(first.before, x) == 0


def encoder(**how) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, **how)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def test_the_encoder_of_torch_is_the_encoder_of_attnlib():
    model = encoder(batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    for theirs, ours in zip(seen(model, x), seen(attention.from_torch(model), x)):
        for name in ("weights", "logits", "before", "after", "w_v", "w_o"):
            assert off(getattr(theirs, name), getattr(ours, name)) < 1e-5
        for name in ("biases", "skip", "norm", "feed_forward", "kv_heads"):
            assert getattr(theirs, name) == getattr(ours, name)


class Own(nn.Module):
    """A network of somebody's own, with attention inside."""

    def __init__(self, scale: float = 1.0, skip: bool = True, asks: bool = False):
        super().__init__()
        self.embed = nn.Embedding(9, 16)
        self.layers = nn.ModuleList(OwnLayer(scale, skip, asks) for _ in range(2))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class OwnLayer(nn.Module):
    def __init__(self, scale: float, skip: bool, asks: bool):
        super().__init__()
        self.attend = nn.MultiheadAttention(16, 4, batch_first=True)
        self.scale = scale
        self.skip = skip
        self.asks = asks
        self.got = None

    def forward(self, x):
        y, self.got = self.attend(x, x, x, need_weights=self.asks)
        if self.scale != 1:
            y = self.scale * y
        return x + y if self.skip else y


@pytest.mark.parametrize(
    "how, skip",
    [({}, True), ({"skip": False}, False), ({"scale": 0.5}, None)],
    ids=["skip", "none", "scaled"],
)
def test_a_skip_is_seen_and_never_guessed(how, skip):
    torch.manual_seed(0)
    model = Own(**how)
    ids = torch.tensor([[1, 2, 3, 1], [4, 4, 5, 6]])
    for record in seen(model, ids):
        assert record.skip is skip
        assert record.norm is None
        # Without a skip that is known, nobody can say what the rest is.
        assert record.feed_forward is (None if skip is None else False)
        lost = {"skip", "norm", "feed_forward"} if skip is None else set()
        assert set(record.missing) == lost
        assert torch.equal(record.ids, ids)


class InPlace(OwnLayer):
    def forward(self, x):
        x += self.attend(x, x, x)[0]
        return x


def test_states_are_those_before_a_layer_adds_in_place():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16)
    (record,) = seen(nn.Sequential(InPlace(1.0, True, False)), x.clone())
    assert off(record.before, x) == 0
    assert record.skip is True


def test_a_module_gets_the_weights_that_it_asked_for():
    ids = torch.tensor([[1, 2, 3]])
    model = Own(asks=True)
    record = seen(model, ids)[0]
    assert off(model.layers[0].got, record.weights.mean(1)) < 1e-7
    model = Own(asks=False)
    seen(model, ids)
    assert model.layers[0].got is None


def test_numbers_in_a_mask_of_torch_are_added_to_the_logits():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 3, 8)
    bias = torch.tensor([[0.0, 2.0, -torch.inf], [0.0, 0.0, 1.0], [3.0, 0.0, 0.0]])
    how = {"query": x, "key": x, "value": x, "attn_mask": bias}
    record = seen(model, how)[0]
    plain = seen(model, {**how, "attn_mask": None})[0]
    check_softmax(record)
    assert bool(record.mask[0, 1]) and not bool(record.mask[0, 2])
    assert off(record.logits, plain.logits + bias.clamp_min(0)) < 1e-6
    assert "before" in record.missing


def test_numbers_in_a_mask_of_padding_are_added_to_the_logits():
    """Each sequence has its own: numbers for keys, and minus infinity for padding."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    keys = torch.tensor([[0.0, 2.0, -1.0], [3.0, 0.0, -torch.inf]])
    how = {"query": x, "key": x, "value": x}
    plain = seen(model, how)[0]
    record = seen(model, {**how, "key_padding_mask": keys})[0]
    check_softmax(record)
    assert record.token_mask.tolist() == [[True] * 3, [True, True, False]]
    added = torch.tensor([[0.0, 2.0, -1.0], [3.0, 0.0, 0.0]])  # what is hidden: nothing
    assert off(record.logits, plain.logits + added[:, None, None]) < 1e-6


class Masked(nn.Module):
    """Somebody's module, in which True hides a token."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, attention_mask):
        return self.attend(x, x, x, key_padding_mask=attention_mask)[0]


def test_what_a_mask_means_is_told_by_the_attention_alone():
    hidden = torch.tensor([[False, False, True]])
    how = {"x": torch.randn(1, 3, 8), "attention_mask": hidden}
    record = seen(Masked(), how)[0]
    assert torch.equal(record.token_mask, ~hidden)
    how["attention_mask"] = None
    assert seen(Masked(), how)[0].token_mask is None


class Product(nn.Module):
    """A layer in the style of small public code: one matrix for all, torch's own
    product.
    """

    def __init__(self, **how):
        super().__init__()
        self.qkv = nn.Linear(8, 24, bias=False)
        self.out = nn.Linear(8, 8)
        self.how = {"is_causal": True, **how}

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, **self.how)
        return x + self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("scale", [None, 0.1])
def test_the_product_of_torch_is_heard_wherever_it_is_called(scale):
    torch.manual_seed(0)
    model = nn.Sequential(Product(scale=scale), Product(scale=scale))
    x = torch.randn(2, 5, 8)
    records = seen(model, x)
    layer = model[0]
    w_q, w_k, w_v = (w.T for w in layer.qkv.weight.chunk(3))
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
    p = attention.attention_matrix(
        x, by_head(w_q, 2), by_head(w_k, 2), scale=scale, mask=~ahead
    )
    assert off(records[0].weights, p) < 1e-6
    assert torch.equal(records[0].mask, ~ahead)
    assert torch.equal(records[0].w_v, by_head(w_v, 2))
    assert (records[0].skip, records[0].feed_forward) == (True, False)
    assert [record.name for record in records] == ["0", "1"]
    with torch.no_grad():
        assert off(records[1].after, model(x)) < 1e-6


def test_the_tiny_model():
    model = data.load_tiny_model()
    text = model.sample[0][:24]
    records = seen(model, text)
    maps = data.attention_maps(model, text)
    assert [record.layers for record in records] == [4] * 4
    for record, p in zip(records, maps):
        assert off(record.weights[0], p) < 1e-5
        assert not record.missing
    two = seen(model, [text, text[::-1]])[3]
    assert off(two.weights[:1], records[3].weights) < 1e-5


def test_layers_of_attnlib():
    g = torch.Generator().manual_seed(0)
    layers = attention.random_layers(
        2, 3, 6, 4, dtype=torch.float64, generator=g, bias=True
    )
    x = torch.randn(2, 5, 6, generator=g, dtype=torch.float64)
    tokens = torch.ones(2, 5, dtype=torch.bool)
    tokens[0, 4] = False
    ahead = torch.ones(5, 5, dtype=torch.bool).tril()
    records = seen(layers, x, token_mask=tokens, mask=ahead)
    pairs = ahead & tokens[:, None, None, :]
    y, maps = attention.forward(x, layers, mask=pairs, return_attention=True)
    for record, p in zip(records, maps):
        assert off(record.weights, p) == 0
        assert torch.equal(record.mask, pairs)
        assert (record.skip, record.feed_forward) == (False, False)
        check_softmax(record)
    assert off(records[1].after, y) < 1e-12
    values = records[0].w_v @ records[0].w_o
    assert off(values, attention.merged(layers[0])[0]) < 1e-12
    skips = attention.Encoder(layers, [None] * 2, [(None, None)] * 2)
    added = seen(skips, x)
    assert off(added[1].after, attention.forward(x, layers, skip=True)) < 1e-12
    assert added[0].skip
    norms = [(attention.Norm(), None), (None, None)]
    with_norm = attention.Encoder(layers, [None] * 2, norms)
    assert [record.norm for record in seen(with_norm, x)] == ["post", None]


def maps(*size: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.rand(*size, generator=g).softmax(-1)


@pytest.mark.parametrize(
    "form", ["tensor", "array", "list", "tuple", "cache", "whole cache", "one"]
)
def test_plain_maps_in_every_form(form):
    p = maps(3, 2, 4, 5, 5)
    x = torch.randn(4, 2, 5, 7)
    states = {"states": x}
    given = p
    if form == "array":
        given = p.numpy()
        states = {"states": x.numpy()}
    elif form == "list":
        given = [layer.numpy() for layer in p]
        states = {"states": list(x)}
    elif form == "tuple":
        given = tuple(p)
    elif form in ("cache", "whole cache"):
        given = {f"blocks.{l}.attn.hook_pattern": p[l] for l in range(3)}
        given |= {f"blocks.{l}.hook_resid_pre": x[l] for l in range(3)}
        needed = range(3) if form == "whole cache" else [2]
        given |= {f"blocks.{l}.hook_resid_post": x[l + 1] for l in needed}
        states = {}
    elif form == "one":
        given = p[:, 0]
        states = {"states": x[:, 0]}
        p, x = p[:, :1], x[:, :1]
    records = seen(given, None, **states)
    assert len(records) == 3
    for l, record in enumerate(records):
        assert off(record.weights, p[l]) == 0
        assert off(record.before, x[l]) == 0
        assert off(record.after, x[l + 1]) == 0
        assert (record.logits, record.mask, record.w_v) == (None, None, None)
        assert {"logits", "w_v", "skip"} <= set(record.missing)


def test_plain_maps_with_masks():
    p = maps(1, 2, 4, 5, 5)
    past = p.tril() / p.tril().sum(-1, keepdim=True)
    for sequences in (past, past[:, :1], past[:, 0]):  # two, one, and one by itself
        mask = seen(sequences, None)[0].mask
        assert torch.equal(mask, torch.ones(5, 5, dtype=torch.bool).tril())
    tokens = torch.ones(2, 5, dtype=torch.bool)
    tokens[1, 3:] = False
    p = p * tokens[:, None, None, :]
    p = p / p.sum(-1, keepdim=True)
    p[0, 1, :, 3:] = torch.nan  # what a row of padding holds does not matter
    record = seen(p, None, token_mask=tokens)[0]
    assert off(record.weights[1, :, :3], p[0, 1, :, :3]) == 0
    assert off(record.weights.sum(-1), torch.ones(())) < 1e-6


def test_plain_maps_in_half_precision():
    p = maps(1, 2, 64, 64).to(torch.bfloat16)
    record = seen(p, None)[0]
    assert off(record.weights.sum(-1), torch.ones(())) < 1e-6
    assert off(record.weights[0], p[0]) < 2**-8
    assert (record.weights.dtype, record.dtype) == (torch.float32, torch.bfloat16)


def test_only_the_layers_asked_for():
    model = data.load_tiny_model()
    assert [r.layer for r in seen(model, "some text", layers=[0, 2])] == [0, 2]
    ran = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, args, y: ran.append(module))
    seen(model, "some text", layers=[1])
    assert ran == list(model.blocks[:2])


@pytest.mark.parametrize("form", ["bert", "tiny", "torch"])
def test_one_layer_at_a_time_is_in_memory(form):
    held = []
    alive = []

    def visitor(record):
        alive.append(sum(weights() is not None for weights in held))
        held.append(weakref.ref(record.weights))

    if form == "bert":
        visit(built("bert"), batch(), visitor)
    elif form == "tiny":
        visit(data.load_tiny_model(), "some text", visitor)
    else:
        visit(encoder(batch_first=True), torch.randn(1, 4, 16), visitor)
    assert len(alive) >= 2
    assert set(alive) == {0}


def state(model: nn.Module) -> tuple:
    """All that a visit might leave behind."""
    hooks = [
        (len(module._forward_hooks), len(module._forward_pre_hooks), module.training)
        for module in model.modules()
    ]
    return (
        hooks,
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
        list(modeling_utils.ALL_ATTENTION_FUNCTIONS),
        list(transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS),
        getattr(getattr(model, "config", None), "_attn_implementation", None),
        torch._C._len_torch_function_stack(),
    )


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("form", ["bert", "bloom", "torch"])
def test_the_model_is_left_as_it_was(form, fails):
    if form == "bert":
        model, inputs = built("bert"), batch()
        model.train()
        model.encoder.layer[0].eval()
    elif form == "bloom":
        config = transformers.BloomConfig(
            hidden_size=32, n_layer=2, n_head=4, vocab_size=99
        )
        model, inputs = transformers.BloomModel(config), batch()
        model.train()
        model.h[0].eval()
    else:
        model, inputs = encoder(batch_first=True), torch.randn(1, 4, 16)
    before = state(model)

    def visitor(record):
        if fails:
            raise KeyError("stop")

    if fails:
        with pytest.raises(KeyError):
            visit(model, inputs, visitor)
    else:
        visit(model, inputs, visitor)
    assert state(model) == before


def test_attention_to_another_sequence_is_left_out():
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerDecoder(layer, 1)
    inputs = {"tgt": torch.randn(1, 4, 16), "memory": torch.randn(1, 4, 16)}
    (record,) = seen(model, inputs)
    assert record.name == "layers.0.self_attn"
    assert record.before is None
    assert "another attention" in record.missing["before"]


class Crossed(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attend(x, x + 1, x)[0]


NAN = maps(1, 2, 3, 3)
NAN[0, 0, 0, 0] = torch.nan
X = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))


Y = torch.randn(1, 4, 16)
TOWERS = {
    "input_ids": torch.ones(1, 4).long(),
    "pixel_values": torch.ones(1, 3, 32, 32),
}


def swin():
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=8,
        depths=[1],
        num_heads=[2],
        window_size=4,
    )
    return transformers.SwinModel(config)


def clip():
    text = SIZES | {"projection_dim": 8}
    vision = text | {"image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision)
    return transformers.CLIPModel(config)


class Pooled(nn.Module):
    """An encoder that pools: half as many tokens in its second layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(OwnLayer(1.0, True, False) for _ in range(2))

    def forward(self, x):
        x = self.layers[0](x)
        return self.layers[1](x.unflatten(1, (-1, 2)).mean(2))


def plain(**how):
    return lambda: ((maps(1, 2, 3, 3), None), how)


def given(model, inputs, **how):
    return lambda: ((model() if callable(model) else model, inputs), how)


def bert():
    return built("bert")


def other(name: str):
    config = getattr(transformers, f"{name}Config")(**SIZES, d_model=32)
    return lambda: getattr(transformers, f"{name}Model")(config)


ONES = torch.ones(1, 3, dtype=torch.int64)


class Flat(nn.Module):
    """One head, whose axis is left out of queries, keys or values."""

    def __init__(self, which: int):
        super().__init__()
        self.which = which

    def forward(self, x):
        parts = [x.unsqueeze(1)] * 3
        parts[self.which] = x
        return F.scaled_dot_product_attention(*parts)


def flat(which: int):
    return given(lambda: nn.Sequential(Flat(which)), X)


REFUSED = {
    "no attention": (given(lambda: nn.Linear(8, 8), X), "no attention was found"),
    "only cross-attention": (given(Crossed, X), "only cross-attention"),
    "text, no tokenizer": (given(bert, "some text"), "pass tokenizer="),
    "text to a module": (given(Own, "some text"), "text, which only"),
    "a name": (given("bert-base-cased", "some text"), "not a name"),
    "an empty batch": (given(bert, ONES[:0]), "empty"),
    "no texts": (given(bert, []), "empty list"),
    "an empty tensor": (given(Own, ONES[:0]), "empty"),
    "tokens in floats": (given(bert, X[0]), "must be integers"),
    "an unknown token": (given(bert, 100 * ONES), "from 0 to 99 - 1"),
    "no token at all": (
        given(bert, {"input_ids": ONES, "attention_mask": 0 * ONES}),
        "1 sequences without a token",
    ),
    "encoder and decoder": (given(other("Bart"), ONES), "get_encoder"),
    "two stacks of torch": (
        given(lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True), (Y, Y)),
        "two stacks of layers, encoder.layers and decoder.layers.0",
    ),
    "two stacks of other tokens": (
        given(lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True), (Y, Y[:, 1:])),
        "two stacks of layers",
    ),
    "windows": (given(swin, torch.randn(1, 3, 32, 32)), "attends in windows: 4 of 16"),
    "two towers": (given(clip, TOWERS), "no layers of one stack"),
    "a pool": (given(Pooled, Y), "among 2 tokens of 1 sequences"),
    "weights": (given({"embed.weight": X}, ONES), "load them into their model"),
    "NaN inside": (given(lambda: nn.Sequential(Product()), X * torch.nan), "NaN"),
    "dropout": (
        given(lambda: nn.Sequential(Product(dropout_p=0.5)), X),
        "drops weights",
    ),
    "queries without heads": (flat(0), r"got queries \(\d, \d, 8\): the audit needs"),
    "keys without heads": (flat(1), r"got keys \(\d, \d, 8\): the audit needs"),
    "values without heads": (flat(2), r"got values \(\d, \d, 8\): the audit needs"),
    "added tokens": (
        given(lambda: nn.MultiheadAttention(8, 2, add_zero_attn=True), (X, X, X)),
        "add_zero_attn",
    ),
    "states of a module": (given(bert, ONES, states=X), "leave out states"),
    "a mask for a module": (given(bert, ONES, mask=X > 0), "leave out mask"),
    "inputs for maps": (given(maps(1, 2, 3, 3), X), "read no inputs"),
    "maps of NaN": (given(NAN, None), "NaN"),
    "logits for maps": (given(-maps(1, 2, 3, 3), None), "negative"),
    "rows of two": (given(2 * maps(1, 2, 3, 3), None), "sum to one"),
    "integers": (given(maps(1, 2, 3, 3).long(), None), "floating"),
    "two dimensions": (given(maps(3, 3), None), "must be"),
    "no square": (given(maps(1, 2, 3, 4), None), "must be"),
    "no layer": (given([], None), "no layer"),
    "no map": (given(["map"], None), "must be a torch tensor"),
    "an object": (given(object(), None), "must be a torch module"),
    "another dict": (given({"a": X}, None), "TransformerLens"),
    "too few states": (plain(states=X), "one more than layers"),
    "states of other tokens": (plain(states=[X, X]), "to fit the maps"),
    "states of other tokens at the end": (
        plain(states=[X[:, :3], X]),
        r"states\[1\] must be .*, got \(1, 4, 8\)",
    ),
    "a mask that is broken": (
        plain(mask=torch.eye(3, dtype=torch.bool)),
        "the masks forbid",
    ),
    "a mask that hides": (
        plain(mask=torch.zeros(3, 3, dtype=torch.bool)),
        "hides a whole row",
    ),
    "a mask of tokens": (
        plain(token_mask=torch.tensor([[True, True, False]])),
        "the masks forbid",
    ),
    "exact": (plain(exact="yes"), "exact"),
    "no such layer": (plain(layers=[1]), "asks for layer 1"),
    "no layer asked": (plain(layers=[]), "names no layer"),
    "one number": (plain(layers=0), "layers must be a list"),
    "half a layer": (plain(layers=[0.5]), "layers must be an integer"),
    "four dimensions": (
        lambda: ((data.load_tiny_model(), ONES[None]), {}),
        "must be numbers of characters",
    ),
    "texts of two lengths": (
        lambda: ((data.load_tiny_model(), ["one", "three"]), {}),
        "one length",
    ),
    "Layers without x": (
        lambda: ((layers_of_two(), None), {}),
        "inputs must be a torch tensor",
    ),
    "Layers of too many dimensions": (
        lambda: ((layers_of_two(), torch.ones(1, 1, 3, 2)), {}),
        r"inputs must be \(n, d\) or \(b, n, d\), got \(1, 1, 3, 2\)",
    ),
}


def layers_of_two():
    return attention.random_layers(
        1, 1, 2, 2, dtype=torch.float64, generator=torch.Generator()
    )


@pytest.mark.bad_input
@pytest.mark.parametrize("call, words", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_audited_is_refused(call, words):
    (model, inputs), how = call()
    with pytest.raises(ValueError, match=words):
        audit.run(model, inputs, **how)


@pytest.mark.bad_input
def test_attention_sinks_are_refused():
    config = transformers.GptOssConfig(
        **SHARED, num_local_experts=2, num_experts_per_tok=1
    )
    with pytest.raises(ValueError, match="attention sinks"):
        seen(transformers.GptOssModel(config), batch())


@pytest.mark.bad_input
def test_a_visitor_that_cannot_be_called():
    with pytest.raises(ValueError, match="visitor must be a function"):
        visit(maps(1, 2, 3, 3), None, "visitor")


def test_command_line(tmp_path, capsys, monkeypatch):
    """In a terminal of 50 columns."""
    monkeypatch.setenv("COLUMNS", "50")
    page = tmp_path / "report.html"
    command.main(["--text", "some text", "--layers", "0,3", "--html", str(page)])
    printed = capsys.readouterr().out
    assert "TinyModel" in printed and 40 < max(map(len, printed.splitlines())) <= 50
    assert page.read_text(encoding="utf-8").startswith("<!")


def test_command_line_reads_a_folder(tmp_path, tokenizer, capsys):
    built("bert").save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    rows = tmp_path / "rows.json"
    command.main([str(tmp_path), "--text", "one two three", "--json", str(rows)])
    assert "Read: self-attention of 2 layers" in capsys.readouterr().out
    assert rows.stat().st_size > 100


@pytest.mark.parametrize(
    "given, words",
    [
        (["--layers", "one"], "must be numbers"),
        (["--layers", "7"], "read in 4 layers"),
        (["--figure", "x.xyz"], "must end in one of .png, .svg, .pdf"),
        (["--top", "none"], "must be a number or all"),
        (["--dtype", "int8"], "must be one of float16"),
        (["--file", "not there"], "No such file"),
        (["--text", ""], "at least one character"),
    ],
)
def test_command_line_says_what_is_wrong(given, words):
    with pytest.raises(SystemExit, match=words):
        command.main(given)


@pytest.mark.parametrize("here", [True, False])
def test_a_model_is_fetched_only_if_it_is_not_here(monkeypatch, here):
    asked = []

    model = built("bert")

    def fetch(transformers, name, local_files_only=False, **where):
        asked.append(local_files_only)
        if local_files_only and not here:
            raise OSError("not here")
        return "tokenizer", model, {"missing_keys": ["pooler.weight"]}

    monkeypatch.setattr(named, "_fetch", fetch)
    assert named.load("gpt2")[:2] == (model, "tokenizer")
    assert asked == ([True] if here else [True, False])


def test_code_of_a_repository_is_never_run(tmp_path, tokenizer, monkeypatch):
    """Not even for somebody who answers yes when transformers asks."""
    tokenizer.save_pretrained(tmp_path)
    theirs = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "theirs", "auto_map": theirs}), encoding="utf-8"
    )
    witness = tmp_path / "it ran"
    (tmp_path / "code.py").write_text(f"open({str(witness)!r}, 'w')", encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ValueError, match="execute"):
        named.load(str(tmp_path))
    assert not witness.exists()


def test_command_line_without_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SystemExit, match="not installed"):
        command.main(["gpt2"])


def test_command_line_without_a_network(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    with pytest.raises(SystemExit, match="is there a network"):
        command.main(["gpt2"])


def test_command_line_reads_a_file_and_shows_so_many_heads(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("for row in table: print(row)", encoding="utf-8")
    command.main(["--file", str(path), "--top", "3", "--dtype", "float64", "--exact"])
    printed = capsys.readouterr().out
    assert "on 28 tokens" in printed and "3 of 16 heads" in printed
    command.main(["--file", str(path), "--top", "all"])
    assert "of 16 heads, the least" not in capsys.readouterr().out


def test_command_line_has_a_picture_for_a_model_of_pictures(tmp_path, capsys):
    sizes = {name: SIZES[name] for name in list(SIZES)[:4]}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    command.main([str(tmp_path), "--layers", "0,1"])
    assert "on 17 tokens" in capsys.readouterr().out


# --- what was not read is said, and nothing follows of the whole ---


class Hybrid(nn.Module):
    """Layers of which some do not attend, or attend in a way that nobody hears."""

    def __init__(self, kinds: str):
        super().__init__()
        self.layers = nn.ModuleList()
        for kind in kinds:
            self.layers.append(
                OwnLayer(1.0, True, False) if kind == "a" else MUTE[kind]
            )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class LinearAttention(nn.Module):
    def forward(self, x):
        return x + x.cumsum(1)


class MambaMixer(LinearAttention):
    pass


class Mlp(nn.Module):
    def forward(self, x):
        return x + x.relu()


MUTE = {"l": LinearAttention(), "m": MambaMixer(), "-": Mlp()}
UNREAD = {
    "laal": ("LinearAttention ran unread", [1, 2]),
    "mma": ("MambaMixer ran unread", [2]),
    "a-a": ("", [0, 2]),
    "aa": ("", [0, 1]),
}


@pytest.mark.parametrize("kinds", UNREAD)
def test_what_was_not_read_is_said(kinds):
    words, numbers = UNREAD[kinds]
    found = audit.run(Hybrid(kinds), Y)
    layers = {row["layer"] for row in found.rows} - {None}
    assert sorted(layers) == numbers
    whole = [row for row in found.rows if row["quantity"] == "can hear everything, 90%"]
    assert words in found.read and (whole[0]["value"] is None) == bool(words)
    assert any("heard of" in said for said in found.verdict()) == (not words)


def test_a_cache_of_some_layers_is_no_cache_of_all():
    found = audit.run(built("llama"), batch())
    assert any("KiB a token" in said for said in found.verdict())
    part = audit.run(built("llama"), batch(), layers=[0])
    assert not any("KiB a token" in said for said in part.verdict())


def test_a_decoder_that_heard_no_encoder_is_not_the_whole():
    config = transformers.BartConfig(**SIZES, d_model=32, decoder_layers=2)
    decoder = transformers.BartModel(config).get_decoder()
    found = audit.run(decoder, batch()["input_ids"])
    assert "BartAttention did not run, such as layers.0.encoder_attn" in found.read
    encoder = transformers.BartModel(config).get_encoder()
    assert "Nothing else" in audit.run(encoder, batch()["input_ids"]).read


def test_values_of_a_latent_certify_nothing():
    config = transformers.DeepseekV3Config(
        **SIZES,
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=12,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
        first_k_dense_replace=2,
    )
    torch.manual_seed(0)
    found = audit.run(transformers.DeepseekV3Model(config), batch()["input_ids"])
    why = {row["quantity"]: row["why"] for row in found.rows if not row["covered"]}
    for quantity in ("factor of the heads", "cache a token"):
        assert "latent" in why[quantity]
    covered = {row["quantity"] for row in audit.run(built("llama"), batch()).rows}
    assert {"factor of the heads", "cache a token"} <= covered


def test_a_mask_of_minus_100_hides():
    """A mask of two numbers, as Swin has it; control: a bias of many."""
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
    x = torch.randn(1, 5, 8)
    flat = -100.0 * ahead
    record = seen(nn.Sequential(Product(is_causal=False, attn_mask=flat)), x)[0]
    assert torch.equal(record.mask, ~ahead)
    slope = -100.0 * (torch.arange(5)[:, None] - torch.arange(5)).abs()
    record = seen(nn.Sequential(Product(is_causal=False, attn_mask=slope)), x)[0]
    assert record.mask is None


@pytest.mark.parametrize("form", ["blocks", "compile"])
def test_compiled_models_run_as_they_are_written(form):
    torch.manual_seed(0)
    model = nn.Sequential(Product(), Product())
    x = torch.randn(1, 5, 8)
    wanted = seen(model, x)
    if form == "blocks":
        for i in range(2):
            model[i] = torch.compile(model[i], backend="eager")
    else:
        model.compile(backend="eager")
    for ours, theirs in zip(seen(model, x), wanted, strict=True):
        assert off(ours.weights, theirs.weights) == 0
        assert (ours.skip, ours.feed_forward) == (True, False)
