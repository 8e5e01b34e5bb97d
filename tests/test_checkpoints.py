"""Public checkpoints in the book's form, on tiny random models of transformers: hidden
states to 1e-10.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from dataclasses import replace

import pytest
import torch

from attnbook import data
from attnlib.attention import forward

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="transformers is not installed (extra `checkpoints`)",
)
IDS = torch.tensor([3, 17, 5, 5, 28, 9, 1])


def model(kind):
    """A tiny model with random weights, in float64; norms and biases too, so that none
    is one or zero.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers, about itself
        import transformers as t

        torch.manual_seed(1)
        tiny = {
            "vocab_size": 30,
            "hidden_size": 24,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "attn_implementation": "eager",  # the others give no attention maps
        }
        made = (
            {
                "bert": lambda: t.BertModel(t.BertConfig(**tiny)),
                "roberta": lambda: t.RobertaModel(
                    t.RobertaConfig(**tiny, max_position_embeddings=40)
                ),
                "albert": lambda: t.AlbertModel(
                    t.AlbertConfig(
                        **tiny,
                        embedding_size=10,
                        num_hidden_groups=2,
                        inner_group_num=2,
                    )
                ),
                "albert, gelu": lambda: t.AlbertModel(
                    t.AlbertConfig(**tiny, embedding_size=10, hidden_act="gelu")
                ),
                "xlnet": lambda: t.XLNetModel(
                    t.XLNetConfig(
                        vocab_size=30, d_model=24, n_layer=4, n_head=3, d_inner=40
                    )
                ),
            }[kind]()
            .double()
            .eval()
        )
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return made


KINDS = ["bert", "roberta", "albert", "albert, gelu", "xlnet"]


@needs_transformers
@pytest.mark.parametrize("kind", KINDS)
def test_the_hidden_states_are_the_models(kind):
    theirs = model(kind)
    ours = data.convert(theirs)
    with torch.no_grad():
        final = theirs(IDS[None], output_hidden_states=True)
        got = data.checkpoint_states(ours, ours.embed(IDS))
        assert (
            got.shape == (ours.depth + 1, 7, 24)
            and (got[-1] - got[0]).abs().max() > 0.1
        )
        assert (got[-1] - final.last_hidden_state[0]).abs().max() < 1e-10
        if kind in (
            "bert",
            "roberta",
            "xlnet",
        ):  # ALBERT reports a state for a group, not for a layer
            assert (got - torch.cat(final.hidden_states)).abs().max() < 1e-10
        if ours.encoder:
            whole = forward(got[0], ours.encoder)
            assert (whole - got[-1]).abs().max() < 1e-10


@needs_transformers
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_attention_maps_are_the_models(kind):
    theirs = model(kind)
    ours = replace(data.convert(theirs), encode=lambda text: IDS)
    maps = data.attention_maps(ours, "seven tokens")
    with torch.no_grad():
        wanted = torch.cat(theirs(IDS[None], output_attentions=True).attentions)
    assert maps.shape == (4, 3, 7, 7) and (maps - wanted).abs().max() < 1e-10


@needs_transformers
@pytest.mark.bad_input
def test_maps_of_relative_positions_are_refused():
    with pytest.raises(ValueError, match="relative positions"):
        data.attention_maps(
            replace(data.convert(model("xlnet")), encode=lambda text: IDS),
            "seven tokens",
        )


@needs_transformers
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_skip_around_the_attention_is_taken_away(kind):
    """Against hooks on the model's own parts: what goes into the norm after the
    attention loses its input.
    """
    theirs = model(kind)
    ours, inputs = data.convert(theirs), []
    with torch.no_grad():
        x = ours.embed(IDS)
        full, none = (data.checkpoint_states(ours, x, skip=s) for s in (True, False))
        assert (full[1:] - none[1:]).abs().amax((1, 2)).min() > 1e-3
        norm = {
            "bert": lambda: theirs.encoder.layer[0].attention.output.LayerNorm,
            "xlnet": lambda: theirs.layer[0].rel_attn.layer_norm,
        }.get(
            "bert" if kind == "roberta" else kind,
            lambda: (
                theirs.encoder.albert_layer_groups[0]
                .albert_layers[0]
                .attention.LayerNorm
            ),
        )()
        norm.register_forward_hook(lambda _, given, out: inputs.append((given[0], out)))
        theirs(IDS[None])
        summed, _ = inputs[0]
        summed = (summed.transpose(0, 1) if kind == "xlnet" else summed)[0]
        short = ours.step(x, 0, False, False)
        wanted = torch.nn.functional.layer_norm(
            summed - x, (24,), norm.weight, norm.bias, norm.eps
        )
        assert (short - wanted).abs().max() < 1e-10


@needs_transformers
def test_weights_are_views_and_take_no_gradient():
    theirs = model("bert")
    ours = data.convert(theirs)
    assert (
        ours.encoder.layers[1].w_q.untyped_storage().data_ptr()
        == theirs.encoder.layer[1]
        .attention.self.query.weight.untyped_storage()
        .data_ptr()
    )
    assert not ours.encoder.mlps[0].w_1.requires_grad


@pytest.mark.bad_input
def test_other_models_are_refused():
    with pytest.raises(
        ValueError,
        match="model must be one of .*'albert', 'bert', 'roberta', 'xlnet'"
        ".* got 'Linear'",
    ):
        data.convert(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="name must be"):
        data.load_checkpoint("")


@pytest.mark.bad_input
@needs_transformers
def test_decoders_and_one_sided_attention_are_refused():
    theirs = model("bert")
    with pytest.raises(ValueError, match="BertForMaskedLM has a head"):
        data.convert(pytest.importorskip("transformers").BertForMaskedLM(theirs.config))
    theirs.config.is_decoder = True
    with pytest.raises(ValueError, match="only encoders"):
        data.convert(theirs)
    theirs = model("xlnet")
    theirs.config.attn_type = "uni"
    with pytest.raises(ValueError, match="two-sided"):
        data.convert(theirs)


# --- what a reader is told when something is missing


def test_without_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        RuntimeError,
        match=r"bert-base-cased: transformers is not installed; "
        "pip install 'transformers>=5.4'",
    ):
        data.load_checkpoint("bert-base-cased")


class Nowhere:
    """Stands in for transformers on a machine without network: nothing can be had."""

    @staticmethod
    def from_pretrained(name, **how):
        raise OSError(f"We couldn't connect to fetch {name}, {how}")


@pytest.mark.parametrize(
    ("download", "words"),
    [
        (True, "could not be fetched: is there a network"),
        (False, "not on this machine; download=True"),
    ],
)
def test_without_a_network(monkeypatch, download, words):
    away = type(sys)("transformers")
    away.AutoConfig = away.AutoModel = away.AutoTokenizer = Nowhere
    monkeypatch.setitem(sys.modules, "transformers", away)
    with pytest.raises(RuntimeError, match=f"albert-base-v2: {words}"):
        data.load_checkpoint("albert-base-v2", download=download)


@needs_transformers
@pytest.mark.parametrize("pretrained", [True, False])
def test_loading_from_a_folder(tmp_path, pretrained, monkeypatch):
    """The real loader, without network; the tokeniser is a stand-in."""
    import transformers

    theirs = model("bert")
    theirs.save_pretrained(tmp_path)
    monkeypatch.setattr(
        transformers.AutoTokenizer,
        "from_pretrained",
        lambda name, **how: lambda text: {"input_ids": IDS.tolist()},
    )
    ours = data.load_checkpoint(str(tmp_path), download=False, pretrained=pretrained)
    ids = ours.encode("words")
    assert torch.equal(ids, IDS) and ours.encoder.layers[0].w_q.dtype == torch.float64
    with torch.no_grad():
        same = (ours.embed(ids) - theirs.embeddings(ids[None])[0]).abs().max() < 1e-6
    assert bool(same) == pretrained


@needs_transformers
def test_missing_weights_are_an_error_and_no_code_is_run(tmp_path, monkeypatch):
    """Without its last layer the folder is refused; the pooler, which is unused, may be
    missing.
    """
    import transformers
    from safetensors.torch import load_file, save_file

    asked = []

    def tokeniser(name, **how):
        asked.append(how["trust_remote_code"])

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokeniser)
    theirs = model("bert")
    theirs.save_pretrained(tmp_path)
    stored = tmp_path / "model.safetensors"
    weights = load_file(stored)
    for name in [name for name in weights if name.startswith("pooler.")]:
        del weights[name]
    save_file(weights, stored, {"format": "pt"})
    data.load_checkpoint(str(tmp_path), download=False)
    assert asked == [False]
    for name in [name for name in weights if ".layer.3." in name]:
        del weights[name]
    save_file(weights, stored, {"format": "pt"})
    with pytest.raises(RuntimeError, match="lacks 16 weights of its model, such as"):
        data.load_checkpoint(str(tmp_path), download=False)


@needs_transformers
@pytest.mark.bad_input
def test_pickled_weights_are_not_read(tmp_path):
    theirs = model("bert")
    theirs.config.save_pretrained(tmp_path)
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(RuntimeError, match="not on this machine"):
        data.load_checkpoint(str(tmp_path), download=False)
