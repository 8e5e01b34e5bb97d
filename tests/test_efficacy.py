"""The room efficacy: paths alone against terms and restricted networks, tasks,
training, and bad input.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from attnbook import data
from attnbook.data.networks import load_reader, train_reader
from attnlib.attention import forward, random_layers
from attnlib.efficacy import (
    accuracy,
    length_bounds,
    logit_parts,
    logits,
    random_reader,
    sorting,
)
from attnlib.paths import path_sums, path_terms, restrict

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "book" / "_experiments"))
import circle  # noqa: E402
import path_efficacy  # noqa: E402
from path_efficacy import (  # noqa: E402
    draw_paths,
    estimate_length,
    hull_labels,
    restricted_forward,
)


def instance(
    L=3, h=2, n=4, d=6, batch=(), seed=0, bias=False, dtype=torch.float64, device="cpu"
):
    g = torch.Generator().manual_seed(seed)
    layers = random_layers(
        L, h, d, 3, bias=bias, generator=g, dtype=dtype, device=device
    )
    return torch.randn(*batch, n, d, generator=g, dtype=torch.float64).to(
        device, dtype
    ), layers


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_frozen_is_the_term(batch):
    x, layers = instance(batch=batch, bias=True)
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    for path, term in path_terms(x, layers, skip=True):
        assert torch.allclose(
            restricted_forward(x, layers, path, attention=attention), term, atol=1e-13
        )


@pytest.mark.parametrize("batch", [(), (2,)])
def test_recomputed_is_the_restricted_network_without_biases(batch):
    x, layers = instance(batch=batch, bias=True)
    layers = [
        layer._replace(b_v=None, b_o=None) for layer in layers
    ]  # queries and keys keep theirs
    for path in [(0, None, 1), (None, 1, None), (1, 1, 0)]:
        wanted = forward(x, restrict(layers, path))
        assert torch.allclose(restricted_forward(x, layers, path), wanted, atol=1e-13)
    assert torch.equal(restricted_forward(x, layers, (None, None, None)), x)


def test_the_estimate_from_every_path_once_is_the_sum():
    x, layers = instance()
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    sums = path_sums(x, layers, skip=True).by_length
    every = list(itertools.product([None, 0, 1], repeat=3))
    for k in range(4):
        paths = [p for p in every if sum(h is not None for h in p) == k]
        assert torch.allclose(
            estimate_length(x, layers, paths, attention=attention), sums[k], atol=1e-13
        )
        assert torch.allclose(
            estimate_length(x, layers, paths * 2, attention=attention),
            sums[k],
            atol=1e-13,
        )


def test_drawn_paths_are_uniform():
    """12 paths of length 1 in 3 layers of 4 heads, 12,000 draws: each within six
    standard deviations of 1,000.
    """
    drawn = Counter(
        draw_paths([4] * 3, 1, 12000, generator=torch.Generator().manual_seed(0))
    )
    assert len(drawn) == 12 and all(abs(c - 1000) < 6 * 30.3 for c in drawn.values())
    again = draw_paths([4] * 3, 2, 5, generator=torch.Generator().manual_seed(3))
    assert again == draw_paths(
        [4] * 3, 2, 5, generator=torch.Generator().manual_seed(3)
    )
    assert all(sum(h is not None for h in path) == 2 for path in again)
    skips = draw_paths([4] * 3, 0, 2, generator=torch.Generator().manual_seed(0))
    assert skips == [(None, None, None)] * 2


def elementary(s, k):
    return float(
        sum(
            torch.tensor(c, dtype=torch.float64).prod()
            for c in itertools.combinations(s, k)
        )
    )


def test_bounds_against_the_definition():
    x, layers = instance(batch=(2,))
    attention = forward(x, layers, skip=True, return_attention=True)[1]
    found = length_bounds(x, layers)

    def norm(m):
        return torch.linalg.svdvals(m)[..., 0]

    for b in range(2):
        s = [
            float((norm(p[b]) * norm(l.w_v @ l.w_o)).sum())
            for l, p in zip(layers, attention)
        ]
        for k in range(4):
            assert float(found[k, b]) == pytest.approx(
                elementary(s, k) * float(x[b].norm()), rel=1e-12
            )


def test_parts_and_accuracy_by_hand():
    scores = torch.tensor([[[1.0, 2.0], [3.0, 0.0]], [[5.0, 2.0], [3.0, 0.0]]])
    labels = torch.tensor([1, 0])
    assert accuracy(scores, labels).tolist() == [1.0, 0.5]
    assert float(accuracy(scores[0], labels)) == 1.0


def test_labels_of_the_tasks():
    u, y = sorting(20, n=5, letters=7, generator=torch.Generator().manual_seed(0))
    assert u.shape == (20, 5, 7) and (u.sum(-1) == 1).all()
    for word, label in zip(u.argmax(-1).tolist(), y.tolist()):
        assert sorted(word) == label
    square = torch.tensor([[0.0, 0.0], [4.0, 0.1], [4.1, 4.0], [0.1, 4.2], [2.0, 1.9]])
    assert hull_labels(square).tolist() == [1, 1, 1, 1, 0]


def crossed(p, q, r):
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def test_corners_against_exact_half_planes():
    """A point is a corner if some line through it and another point has all points on
    one side, in Fractions.
    """
    points = torch.rand(20, 7, 2, generator=torch.Generator().manual_seed(0))
    for cloud, found in zip(points.tolist(), hull_labels(points).tolist()):
        exact = [[Fraction(v) for v in p] for p in cloud]
        for i, p in enumerate(exact):
            sides = [
                [crossed(p, q, r) for r in exact if r not in (p, q)]
                for q in exact
                if q != p
            ]
            assert found[i] == any(
                all(v > 0 for v in s) or all(v < 0 for v in s) for s in sides
            )


def test_a_reader_learns_no_positions_unless_asked():
    """So that it reads sequences of any length."""
    g = torch.Generator().manual_seed(0)
    reader = random_reader(3, 2, L=1, h=2, d=4, generator=g)
    assert reader.position.shape == (1, 4)
    for n in (1, 5):
        assert logits(reader, torch.ones(n, 3)).shape == (n, 2)


def test_training_learns_and_leaves_the_start_alone():
    g = torch.Generator().manual_seed(0)
    u, y = sorting(200, n=3, letters=3, generator=g)
    start = random_reader(3, 3, L=2, h=2, d=16, n=3, generator=g)
    before = start.embed.clone()
    net, losses = train_reader(start, u, y, steps=150, batch=50, rate=5e-3, generator=g)
    assert torch.equal(start.embed, before) and len(losses) == 150
    assert (
        float(accuracy(logits(net, u), y)) > 0.9 > float(accuracy(logits(start, u), y))
    )
    assert not any(w.requires_grad for layer in net.layers for w in layer)
    parts = logit_parts(net, u)
    assert torch.allclose(
        parts.by_length.sum(0) + parts.constant, logits(net, u), atol=1e-4
    )


def test_training_without_biases():
    g = torch.Generator().manual_seed(0)
    u, y = sorting(50, n=3, letters=3, generator=g)
    start = random_reader(3, 3, L=2, h=2, d=8, n=3, generator=g)
    start = start._replace(
        layers=[
            layer._replace(b_q=None, b_k=None, b_v=None, b_o=None)
            for layer in start.layers
        ]
    )
    net, losses = train_reader(start, u, y, steps=3, batch=20, generator=g)
    assert len(losses) == 3 and all(layer.b_v is None for layer in net.layers)
    assert not torch.equal(net.layers[0].w_v, start.layers[0].w_v)


def test_the_stored_network_is_the_one_of_the_experiment():
    stored = data.load_result("path_efficacy_network")["result"]
    assert (
        data.load_result("path_efficacy")["result"]["network sha256"]
        == stored["sha256"]
    )
    reader = load_reader("path_efficacy_network")
    u, y = sorting(500, generator=torch.Generator().manual_seed(1000))
    found = path_efficacy.by_length(reader, u, y)
    assert found["whole"] == pytest.approx(stored["trained"]["whole"], abs=2e-3)
    assert found["length"] == pytest.approx(stored["trained"]["length"], abs=2e-3)


def test_packing_and_reading_agree(monkeypatch):
    reader = path_efficacy.rounded(
        random_reader(
            3, 2, L=2, h=2, d=4, n=5, generator=torch.Generator().manual_seed(0)
        )
    )
    stored = {"result": path_efficacy.pack(reader)}
    monkeypatch.setattr("attnbook.data.networks.load_result", lambda name: stored)
    got = load_reader("any")

    def flat(r):
        return [
            r.embed,
            r.position,
            r.readout,
            r.bias,
            *(w for layer in r.layers for w in layer),
        ]

    assert all(torch.equal(a, b) for a, b in zip(flat(got), flat(reader), strict=True))
    raw = bytearray(base64.b64decode(stored["result"]["float16"]))
    raw[0] ^= 1
    stored["result"]["float16"] = base64.b64encode(raw).decode()
    assert hashlib.sha256(raw).hexdigest() != stored["result"]["sha256"]
    with pytest.raises(ValueError, match="damaged"):
        load_reader("any")
    stored["result"] = json.loads("{}")
    with pytest.raises(ValueError, match="holds no network"):
        load_reader("any")


def test_the_scripts_run(capsys):
    """A few steps of each: what comes out has the form that the page reads."""
    size = path_efficacy.SMALL["hull"] | {"train": 60, "test": 20, "steps": 2, "d": 6}
    found, net = path_efficacy.one("hull", size, 0.5, True, 0, "cpu")
    assert (
        len(found["trained"]["length"]) == 7
        and found["sampled"] is None
        and len(net.layers) == 6
    )
    g = torch.Generator().manual_seed(0)
    x, y = circle.pairs(8, g)
    assert x.shape == y.shape == (8, 2, 2)
    assert torch.allclose(
        x.norm(dim=-1), torch.full((8, 2), 0.3)
    ) and not torch.allclose(x, y)
    for variant in circle.VARIANTS:
        assert circle.network(circle.weights(variant, g), x, variant).shape == x.shape


@pytest.mark.bad_input
def test_heads_share_the_width():
    with pytest.raises(ValueError, match="multiple of the number"):
        random_reader(3, 2, L=1, h=2, d=5, generator=torch.Generator())


@pytest.mark.cuda
def test_cuda_agrees():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x, layers = instance(batch=(2,))
    y, there = instance(batch=(2,), device="cuda")
    for path in [(0, None, 1), (1, 1, 0)]:
        assert torch.allclose(
            restricted_forward(y, there, path).cpu(),
            restricted_forward(x, layers, path),
            atol=1e-12,
        )
    assert torch.allclose(
        length_bounds(y, there).cpu(), length_bounds(x, layers), rtol=1e-12
    )
