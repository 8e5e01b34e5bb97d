"""The small model that ships with the package: its loss, its maps, its weights, its
licence.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from attnbook import data
from attnlib.attention import attention_matrix
from attnlib.audit.tiny import (
    CHARACTERS,
    MASK,
    UNKNOWN,
    TinyModel,
    _rotated,
    encode,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def model():
    return data.load_tiny_model()


def script(name):
    """A script of book/_experiments as a module."""
    folder = ROOT / "book" / "_experiments"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def test_it_ships_with_the_package(model):
    for name in ("tiny_model.npz", "tiny_model.json"):
        file = files("attnlib.audit").joinpath(name)
        assert file.is_file() and len(file.read_bytes()) < 2_500_000
    assert '"*.npz"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not model.training and not any(p.requires_grad for p in model.parameters())
    assert all(
        p.dtype == torch.float32 and torch.isfinite(p).all() for p in model.parameters()
    )
    about = files("attnlib.audit").joinpath("tiny_model.json").read_text("utf-8")
    assert (
        "PSF License Agreement" in about
        and model.log["script"] == "book/_experiments/train_tiny_model.py"
    )


def test_the_loss_is_the_logged_one(model):
    passages = torch.stack([encode(text) for text in model.sample])
    assert passages.shape == (8, 256)
    train = script("train_tiny_model")
    loss = train.masked_loss(
        model, passages, generator=torch.Generator().manual_seed(1)
    )
    assert abs(float(loss) - model.log["sample_loss"]) < 0.05
    untrained = train.masked_loss(
        data.load_tiny_model(trained=False),
        passages,
        generator=torch.Generator().manual_seed(1),
    )
    assert float(untrained.detach()) > 3 > 2 * model.log["loss"] - 0.5


def test_the_script_measures_the_same_on_the_modules_held_out(model):
    train = script("train_tiny_model")
    assert train.CONFIG == {"layers": 4, "heads": 4, "width": 96, "seed": 0}
    assert not set(train.TRAINED_ON) & set(train.HELD_OUT)
    assert abs(train.loss_on(model, train.held_out()) - model.log["loss"]) < 0.05
    assert (
        model.log["trained_on"] == train.TRAINED_ON
        and model.log["steps"] == train.STEPS
    )


def test_the_first_weights_are_the_same_each_time():
    one, other = (data.load_tiny_model(trained=False).state_dict() for _ in range(2))
    assert all(torch.equal(w, other[name]) for name, w in one.items())


def test_maps_are_stochastic_and_the_same_each_time(model):
    text = model.sample[0]
    maps = data.attention_maps(model, text)
    assert maps.shape == (4, 4, 256, 256) and (maps >= 0).all()
    assert (maps.sum(-1) - 1).abs().max() < 1e-5
    assert torch.equal(maps, data.attention_maps(data.load_tiny_model(), text))
    assert data.attention_maps(model, "x").flatten().tolist() == [1.0] * 16


def test_maps_are_those_of_the_forward_pass(model):
    """The first layer, from the weights: P by the kernel of the book on rotated queries
    and keys, then the block.
    """
    tokens = encode(model.sample[1][:40])
    q, k, v = model.heads(tokens)
    assert q.shape == k.shape == v.shape == (4, 4, 40, 24)
    block, x = model.blocks[0], model.embed(tokens)
    eye = torch.eye(24)
    p = torch.stack(
        [
            attention_matrix(
                torch.cat([q[0, h], k[0, h]], -1),
                torch.cat([eye, 0 * eye]),
                torch.cat([0 * eye, eye]),
            )
            for h in range(4)
        ]
    )
    assert (p - data.attention_maps(model, model.sample[1][:40])[0]).abs().max() < 1e-6
    x = x + block.out((p @ v[0]).transpose(0, 1).flatten(-2))
    x = x + block.down(torch.nn.functional.gelu(block.up(block.norm_2(x))))
    assert (x - block(model.embed(tokens))).abs().max() < 1e-5


def test_rotation_sees_distances_alone():
    g = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, generator=g, dtype=torch.float64)
    turned = _rotated(q.expand(10, 8)) @ _rotated(k.expand(10, 8)).T
    for shift in range(-5, 6):
        assert (
            torch.diagonal(turned, shift) - torch.diagonal(turned, shift)[0]
        ).abs().max() < 1e-12
    assert torch.allclose(_rotated(q.expand(10, 8)).norm(dim=-1), q.norm().expand(10))


def test_characters():
    assert len(CHARACTERS) == 96 and encode("\n~ é").tolist() == [0, 95, 1, UNKNOWN]
    hidden, chosen = script("train_tiny_model").hide(
        encode("a" * 20000), generator=torch.Generator().manual_seed(0)
    )
    assert abs(float(chosen.double().mean()) - 0.15) < 0.01
    assert abs(float((hidden == MASK).double().mean()) - 0.12) < 0.01
    assert (hidden == encode("a"))[~chosen].all()


def test_devices_agree(model, device):
    there = data.load_tiny_model().to(device)
    maps = data.attention_maps(there, model.sample[0])
    assert maps.device.type == device.type
    assert (maps.cpu() - data.attention_maps(model, model.sample[0])).abs().max() < 1e-3


@pytest.mark.bad_input
def test_bad_input():
    model = data.load_tiny_model()
    for text, message in (
        ("", "at least one character"),
        (b"x", "must be a str"),
        (None, "must be a str"),
    ):
        for run in (data.attention_maps, data.attention_heads):
            with pytest.raises(ValueError, match=message):
                run(model, text)
    for sizes in ((0, 4, 96), (4, 4, 90), (4, 32, 96)):
        with pytest.raises(ValueError, match="layers must be|even multiple"):
            TinyModel(*sizes)
