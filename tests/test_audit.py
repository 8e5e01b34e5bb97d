"""The audit's numbers: by hand on three tokens, against the kernels on real models, and
what it says where no theorem speaks.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F

from attnbook import data
from attnlib import attention, audit, bridges, collapse, lowrank, paths, patterns
from attnlib.audit import heads, measures, report, verdict
from attnlib.audit.records import LayerRecord, passages

ROOT = Path(__file__).resolve().parents[1]
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "attn_implementation": "eager",
}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def numbers(found: audit.Report, layer=0, head=None) -> dict[str, float | None]:
    """The values of one place by quantity."""
    return {
        row["quantity"]: row["value"]
        for row in found.rows
        if row["layer"] == layer and row["head"] == head
    }


def bert(**changes) -> transformers.BertModel:
    """A small BERT whose logits spread."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**TINY | changes)
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    for block in model.encoder.layer:
        block.attention.self.query.weight.data *= 8
        block.attention.self.key.weight.data *= 8
    return model


def llama(**changes) -> transformers.LlamaModel:
    torch.manual_seed(0)
    sizes = TINY | {"num_key_value_heads": 2, "initializer_range": 0.3}
    return transformers.LlamaModel(transformers.LlamaConfig(**sizes | changes)).eval()


def ids(b: int, n: int) -> torch.Tensor:
    return torch.randint(50, (b, n), generator=generator())


# --- three tokens, by hand ---

# Each token gives itself a half, the others a quarter: logits ln 2 and 0.
MILD = torch.tensor([[2.0, 1, 1], [1, 2, 1], [1, 1, 2]], dtype=torch.float64) / 4
# Each token reads the next one with 19/20, itself with 1/20.
CYCLE = torch.tensor([[1.0, 19, 0], [0, 1, 19], [19, 0, 1]], dtype=torch.float64) / 20
APART = torch.tensor([[0.0, 0], [3, 4], [3, 4]], dtype=torch.float64)
CLOSER = torch.tensor([[1.0, 1], [1, 1], [1, 3]], dtype=torch.float64)

BY_HAND = {
    (0, "R"): math.log(2) / 2,
    (0, "tau"): 1 / 4,
    (0, "tanh R"): 1 / 3,
    (0, "largest tau"): 3 / 10,
    (0, "beta*"): math.log(3) / math.log(2),
    (0, "largest weight"): 1 / 2,
    (0, "energy rank, 90%"): 2,  # the squares are 1, 1/16, 1/16
    (0, "energy rank, 99%"): 3,
    (0, "floor, rank 1"): 1 / 8,
    (0, "connections, 90%"): 1,
    (0, "hops, 90%"): 1,
    (1, "tau"): 19 / 20,
    (1, "connections, 90%"): 3 / 9,
    (1, "connections, 99%"): 6 / 9,
    (1, "hops, 90%"): 2,
    (None, "pairs heard, 90%"): 1,
    (None, "diameter before"): 5,
    (None, "diameter after"): 2,
    (None, "growth of the diameter"): 2 / 5,
    # |res|^2 = 2/3 of 25 over |X|^2 = 50, and 8/3 over 14
    (None, "relative residual before"): math.sqrt(1 / 3),
    (None, "relative residual after"): math.sqrt(4 / 21),
}


def run_by_hand() -> audit.Report:
    maps = torch.stack([MILD, CYCLE]).expand(2, 2, 3, 3)
    states = torch.stack([APART, CLOSER, CLOSER])
    # the zeros of the second head have no logits: the first one stands alone for R
    first = audit.run(maps[:, :1], states=states)
    both = audit.run(maps, states=states)
    kept = [row for row in both.rows if row["head"] == 1]
    return audit.Report(first.rows + kept)


def wrong(found: audit.Report) -> set[tuple]:
    """The numbers that are not those worked out by hand."""
    off = set()
    for (head, quantity), value in BY_HAND.items():
        got = numbers(found, 0, head).get(quantity)
        if got is None or abs(got - value) > 1e-12:
            off.add((head, quantity))
    return off


def test_every_number_of_three_tokens_is_the_one_by_hand():
    assert wrong(run_by_hand()) == set()


def twice(function):
    return lambda *args, **more: 2 * function(*args, **more)


MUTANTS = {
    "tau": (F, "pdist", twice),
    "R": (bridges, "radius", twice),
    "largest tau": (bridges, "largest_dobrushin", twice),
    "energy rank, 90%": (torch.linalg, "eigvalsh", lambda f: lambda a: f(a) + 1),
    "floor, rank 1": (bridges, "rank_floor", twice),
    "beta*": (heads, "_sharpness", twice),
    "connections, 90%": (
        heads,
        "_pattern",
        lambda f: (
            lambda scores, ranked, sums, share: f(scores, ranked, sums, share / 2)
        ),
    ),
    "hops, 90%": (heads, "_hops", lambda f: lambda p, most: f(p | p.mT, most)),
    "diameter before": (torch, "cdist", twice),
    "relative residual after": (collapse, "residual", twice),
}


@pytest.mark.parametrize("quantity", MUTANTS)
def test_a_broken_measure_is_noticed(monkeypatch, quantity):
    place, name, broken = MUTANTS[quantity]
    monkeypatch.setattr(place, name, broken(getattr(place, name)))
    assert quantity in {name for _, name in wrong(run_by_hand())}


def test_what_is_never_heard_has_no_hops():
    pairs = torch.eye(4, dtype=torch.float64)[[1, 0, 3, 2]]
    found = audit.run(pairs.expand(3, 1, 4, 4))
    row = next(r for r in found.rows if r["quantity"] == "hops, 90%")
    assert numbers(found, None)["can hear everything, 90%"] == 0
    assert row["value"] is None and row["why"] == "never" and row["covered"]


@pytest.mark.again
def test_hops_are_those_of_the_patterns():
    g = generator()
    for _ in range(200):
        n = int(torch.randint(2, 10, (), generator=g))
        pattern = torch.rand(n, n, generator=g) < torch.rand((), generator=g)
        pattern |= torch.eye(n, dtype=torch.bool)[torch.randperm(n, generator=g)]
        wanted = patterns.hops(patterns.from_masks(pattern))
        found = heads._hops(pattern, 12)
        assert found == wanted or (wanted is None and found == 0)
        short = heads._hops(pattern, 2)
        assert short == wanted if wanted in (1, 2) else not short


def test_a_path_that_is_longer_than_the_network_has_no_hops_yet():
    n = 9  # each token reads the two beside it: 8 hops, and the network has 1 layer
    near = (torch.arange(n)[:, None] - torch.arange(n)).abs() <= 1
    p = near.double() / near.sum(-1, keepdim=True)
    [row] = [r for r in audit.run(p[None, None]).rows if r["quantity"] == "hops, 90%"]
    assert row["value"] is None and row["why"] != "never"
    deep = audit.run(p.expand(10, 1, n, n))
    assert numbers(deep, 0, 0)["hops, 90%"] == 8
    assert numbers(deep, None)["hops of the network, 90%"] == 8


# --- against the kernels, on tensors taken out of a model ---


def by_outputs(model, tokens, **more):
    with torch.no_grad():
        asked = {"output_attentions": True, "output_hidden_states": True}
        out = model(tokens, **asked, **more)
    return out.attentions, out.hidden_states


@torch.no_grad()
def close(a, b) -> bool:
    return math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-5)


def test_a_bert_has_the_numbers_of_the_kernels():
    model = bert()
    tokens = ids(1, 24)
    found = audit.run(model, tokens)
    maps, states = by_outputs(model, tokens)
    for layer, p in enumerate(maps):
        p = p[0].double()
        for head, one in enumerate(p):
            got = numbers(found, layer, head)
            assert close(got["tau"], bridges.dobrushin(one, check=False))
            r = bridges.radius(one.log())
            assert close(got["R"], r)
            assert close(got["largest tau"], bridges.largest_dobrushin(24, float(r)))
            beta = bridges.critical_beta(one.log()).sort().values[11]
            assert close(got["beta*"], beta)
            sigma = torch.linalg.svdvals(one)
            assert got["energy rank, 90%"] == int(lowrank.effective_rank(sigma, 0.9))
            floors = bridges.rank_floor(one, check=False)
            assert close(got["floor, rank n/4"], floors[6])
            pattern, count = literal_pattern(one, 0.9)
            assert close(got["connections, 90%"], count / 24**2)
            hops = patterns.hops(patterns.from_masks(pattern))
            assert got["hops, 90%"] == (hops if hops is None or hops <= 2 else None)
        got = numbers(found, layer)
        x = states[layer][0].double()
        y = states[layer + 1][0].double()
        assert close(got["diameter before"], collapse.diameter(x))
        assert close(got["diameter after"], collapse.diameter(y))
        share = collapse.residual(y).norm() / y.norm()
        assert close(got["relative residual after"], share)
        merged = merged_values(model.encoder.layer[layer].attention)
        norms = torch.linalg.matrix_norm(merged, 2)
        bound = (bridges.dobrushin(p, check=False) * norms).sum()
        assert close(got["factor of the heads"], bound)
    seen = {head for row in found.rows for head in [row["head"]] if head is not None}
    assert seen == {0, 1, 2, 3}


def literal_pattern(p, share):
    """The fewest entries of each row by Python's sort."""
    mask = torch.zeros_like(p, dtype=torch.bool)
    for i, row in enumerate(p.tolist()):
        mass = 0.0
        for j in sorted(range(len(row)), key=lambda j: -row[j]):
            if mass >= share * sum(row):
                break
            mask[i, j] = True
            mass += row[j]
    return mask, int(mask.sum())


def merged_values(block) -> torch.Tensor:
    w_v = block.self.value.weight.double().T.unflatten(1, (4, 8)).movedim(1, 0)
    w_o = block.output.dense.weight.double().T.unflatten(0, (4, 8))
    return w_v @ w_o


def test_ties_in_a_row_give_the_smallest_pattern():
    p = torch.full((1, 1, 10, 10), 0.1, dtype=torch.float64)
    found = audit.run(p)
    assert numbers(found, 0, 0)["connections, 90%"] == 0.9
    assert numbers(found, 0, 0)["hops, 90%"] == 1  # equals are heard alike


def test_padding_changes_no_number():
    model = bert()
    tokens = ids(1, 12)
    alone = audit.run(model, tokens)
    padded = F.pad(tokens, (0, 5))
    mask = F.pad(torch.ones_like(tokens), (0, 5))
    found = audit.run(model, {"input_ids": padded, "attention_mask": mask})
    same(alone.rows, found.rows)
    with pytest.raises(AssertionError):  # control: padding that is attended to
        same(alone.rows, audit.run(model, padded).rows)


def same(rows, others) -> None:
    assert len(rows) == len(others)
    for row, other in zip(rows, others):
        if row["quantity"] == "closest equal tokens":
            continue  # floats apart, which rounding may change by many
        assert (row["quantity"], row["why"]) == (other["quantity"], other["why"])
        if row["value"] is not None:
            assert close(row["value"], other["value"]), row


def test_of_a_batch_the_worst_counts_and_the_mean_is_told():
    model = bert()
    tokens = ids(2, 12)
    singles = [numbers(audit.run(model, tokens[i : i + 1]), 1, 2) for i in (0, 1)]
    both = audit.run(model, tokens)
    taus = [single["tau"] for single in singles]
    assert not close(*taus)
    [row] = [
        r for r in both.rows if (r["layer"], r["head"], r["quantity"]) == (1, 2, "tau")
    ]
    assert close(row["value"], max(taus)) and close(row["mean"], sum(taus) / 2)
    bounds = [single["largest tau"] for single in singles]
    assert close(row["bound"], bounds[taus.index(max(taus))])


# --- causal, shared heads, half precision ---


def test_a_causal_model_with_shared_heads():
    found = audit.run(llama(), ids(1, 16))
    got = numbers(found)
    assert got["cache a token"] == 2 * 2 * 8 * 32  # two heads of keys, eight wide
    [row] = [r for r in found.rows if r["quantity"] == "cache a token"][:1]
    assert close(row["bound"], math.log2(50))
    covered = {r["quantity"]: r["covered"] for r in found.rows}
    assert not covered["tanh R"] and "largest tau" not in covered
    assert not covered["hops"] and not covered["can hear everything, 90%"]
    assert 0 < got["heard by the last token, 90%"] <= 1
    maps, _ = by_outputs(llama(), ids(1, 16))
    pattern = torch.zeros(16, 16, dtype=torch.bool)
    for p in maps[0][0]:
        pattern |= literal_pattern(p.double(), 0.9)[0]
    heard = patterns.reach(patterns.from_masks(pattern), 1)
    assert close(got["heard by the last token, 90%"], heard[-1].double().mean())


def test_under_a_causal_mask_tau_says_little():
    tokens = ids(1, 16)
    first = audit.run(llama(), tokens).verdict()[0]
    least = min(
        row["value"]
        for row in audit.run(llama(), tokens).rows
        if row["quantity"] == "tau"
    )
    assert first.startswith("Under the causal mask") and f"{least:.3g}" in first
    assert "causal" not in " ".join(audit.run(bert(), tokens).verdict())


def test_half_precision_says_so_and_stays_near():
    tokens = ids(1, 16)
    full = numbers(audit.run(llama(), tokens), 0, 1)
    half = audit.run(llama().bfloat16(), tokens)
    assert {row["dtype"] for row in half.rows} == {"bfloat16"}
    assert {row["measured_in"] for row in half.rows} == {"float32"}
    assert abs(numbers(half, 0, 1)["tau"] - full["tau"]) < 0.05
    assert numbers(half)["cache a token"] == 2 * 2 * 8 * 16


# --- own modules, Layers, and where the theorems cover the network ---


class Mine(nn.Module):
    """A module of a reader's own."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return x + self.attention(x, x, x)[0]


def test_a_module_of_ones_own():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 8)
    model = Mine().eval()
    found = audit.run(model, x)
    layer = attention.from_torch(model.attention)
    _, [p] = attention.forward(x, [layer], return_attention=True)
    tau = bridges.dobrushin(p).amax(0)
    for head in range(2):
        assert close(numbers(found, 0, head)["tau"], tau[head])


def test_an_encoder_with_padding():
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(block, 2, enable_nested_tensor=False).eval()
    x = torch.randn(1, 6, 8)
    alone = audit.run(model, x)
    longer = torch.cat([x, torch.randn(1, 2, 8)], 1)
    hidden = torch.tensor([[False] * 6 + [True] * 2])
    padded = audit.run(model, {"src": longer, "src_key_padding_mask": hidden})
    same(alone.rows, padded.rows)


def plain(skip: bool):
    layers = attention.random_layers(
        3, 2, 8, 4, dtype=torch.float64, generator=generator(), gain=1.2
    )
    x = torch.randn(2, 7, 8, generator=generator(), dtype=torch.float64)
    parts = attention.Encoder(layers, [None] * 3, [(None, None)] * 3)
    return x, layers, parts if skip else layers


@pytest.mark.parametrize("skip", [False, True])
def test_certified_factors_hold_where_the_network_is_covered(skip):
    x, layers, model = plain(skip)
    found = audit.run(model, x)
    product = 1.0
    for layer in range(3):
        got = numbers(found, layer)
        assert got["growth of the diameter"] <= got["factor of the layer"]
        assert close(got["factor of the layer"], got["factor of the heads"] + skip)
        product *= got["factor of the layer"]
    whole = numbers(found, None)
    assert close(whole["factor of all layers"], product)
    y = attention.forward(x, layers, skip=skip)
    grown = collapse.diameter(y) / collapse.diameter(x)
    assert float(grown.max()) <= product
    sums = paths.path_sums(x, layers, skip=skip).by_length
    sizes = sums.norm(dim=(-2, -1)) / sums.sum(0).norm(dim=(-2, -1))
    for length in range(4):
        share = whole[f"paths of length {length}"]
        assert close(share, sizes[length].max())


def test_without_a_skip_nothing_is_heard_by_the_theorem():
    x, _, layers = plain(False)
    found = audit.run(layers, x)
    why = {r["quantity"]: r["why"] for r in found.rows if not r["covered"]}
    for quantity in ("hops", "pairs heard", "can hear everything, 90%"):
        assert "skip" in why[quantity]
    assert not any("heard of" in sentence for sentence in found.verdict())
    x, _, encoder = plain(True)
    assert numbers(audit.run(encoder, x))["pairs heard, 90%"] > 0


def test_norms_and_feed_forward_parts_end_the_theorems():
    found = audit.run(bert(), ids(1, 8))
    left = {r["quantity"]: r for r in found.rows if not r["covered"]}
    assert "a norm and a feed-forward part" in left["factor of the layer"]["why"]
    assert {"factor of all layers", "paths"} <= set(left)


def test_a_reason_is_said_once():
    several = dict.fromkeys(("skip", "norm", "feed_forward"), "nobody knows")
    weights = torch.eye(3, dtype=torch.float64)[None]
    collector = measures.Collector()
    given = LayerRecord(
        layer=0,
        layers=1,
        name="own",
        weights=MILD[None, None],
        w_v=weights,
        w_o=weights,
        missing=several,
    )
    collector(given)
    why = {row["quantity"]: row["why"] for row in collector.finish()}
    assert why["factor of the layer"] == "nobody knows"


def test_tokens_that_have_collapsed_have_no_growth():
    _, layers, _ = plain(False)
    x = torch.randn(1, 7, 8, generator=generator(), dtype=torch.float64)
    collapsed = x.mean(-2, keepdim=True).expand(1, 7, 8)
    [row] = [
        r
        for r in audit.run(layers[:1], collapsed).rows
        if r["quantity"] == "growth of the diameter"
    ]
    assert row["value"] is None and "rounding" in row["why"]


def test_a_record_is_equal_to_itself_alone():
    """== of two tensors has no one truth value."""
    whole = record(torch.zeros(1, 2).long(), None)
    passage = next(passages(whole))
    for part in (whole, passage, next(passage.heads())):
        assert replace(part) != part


# --- equal tokens ---


def record(tokens, after, *, causal=False) -> LayerRecord:
    b, n = tokens.shape
    mask = torch.ones(n, n, dtype=torch.bool).tril() if causal else None
    p = torch.ones(b, 1, n, n, dtype=torch.float64).tril()
    p = p if causal else torch.ones_like(p)
    p = p / p.sum(-1, keepdim=True)
    return LayerRecord(
        layer=0, layers=1, name="own", weights=p, mask=mask, after=after, ids=tokens
    )


def told_apart(tokens, after, **more):
    collector = measures.Collector()
    collector(record(tokens, after, **more))
    rows = {row["quantity"]: row for row in collector.finish()}
    found = rows["equal tokens not told apart"]
    return found["value"], rows.get("closest equal tokens", found)["value"]


def test_equal_tokens_in_different_company():
    tokens = torch.tensor([[1, 2, 3], [1, 2, 4]])
    after = torch.randn(2, 3, 4, generator=generator(), dtype=torch.float64)
    equal, floats = told_apart(tokens, after)
    gap = (after[0, :2] - after[1, :2]).abs().amax(-1)
    scale = after[:, :2].abs().amax((0, 2))
    eps = torch.finfo(torch.float64).eps
    assert equal == 0 and close(floats * eps, (gap / scale).min())
    after[1, 1] = after[0, 1]
    assert told_apart(tokens, after) == (1, 0)
    # Under a causal mask both have heard the same so far: no company differs.
    assert told_apart(tokens, after, causal=True) == (None, None)
    # The same sequence twice tells nothing.
    assert told_apart(tokens[[0, 0]], after) == (None, None)
    # In one sequence two places are told apart, or not.
    once = torch.tensor([[5, 5, 6]])
    assert told_apart(once, after[:1])[0] == 0
    assert told_apart(once, after[:1, [0, 0, 2]])[0] == 1


# --- refusals ---

UNEVEN = torch.full((1, 1, 3, 3), 0.3)
REFUSED = {
    "rows that do not sum to one": (UNEVEN, {}, "must sum to one"),
    "NaN": (torch.full((1, 1, 3, 3), math.nan), {}, "NaN"),
    "a shape": (torch.ones(3, 3), {}, r"\(layers, h, n, n\)"),
    "a layer that is not there": (MILD[None, None], {"layers": [7]}, "layer 7"),
    "states of another length": (
        MILD[None, None],
        {"states": APART[None]},
        "one more than layers",
    ),
    "no attention": (nn.Linear(3, 3), {"inputs": torch.ones(1, 3)}, "attention"),
    "exact": (MILD[None, None], {"exact": "yes"}, "exact"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_audited_is_refused_with_a_sentence(what):
    model, more, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        audit.run(model, **more)


@pytest.mark.bad_input
def test_text_needs_a_tokenizer():
    with pytest.raises(ValueError, match="tokenizer"):
        audit.run(bert(), "some text")


def test_attention_to_padding_is_refused():
    leaky = record(torch.tensor([[1, 2, 3]]), None)
    kept = torch.tensor([[True, True, False]])
    leaky = LayerRecord(
        layer=0, layers=1, name="own", weights=leaky.weights, token_mask=kept
    )
    with pytest.raises(ValueError, match="padding"):
        measures.Collector()(leaky)


def test_long_sequences_leave_the_eigenvalues_out_unless_asked():
    p = torch.full((1, 1, 256, 256), 1 / 256, dtype=torch.float64)
    assert numbers(audit.run(p), 0, 0)["energy rank, 90%"] == 1
    p = torch.full((1, 1, 257, 257), 1 / 257, dtype=torch.float64)
    rows = [r for r in audit.run(p).rows if r["quantity"] == "energy rank"]
    assert [row["covered"] for row in rows] == [False]
    assert "exact=True" in rows[0]["why"]
    assert numbers(audit.run(p, exact=True), 0, 0)["energy rank, 90%"] == 1


# --- the report ---


@pytest.fixture(scope="module")
def tiny() -> audit.Report:
    model = data.load_tiny_model()
    return audit.run(model, [model.sample[0][:64], model.sample[1][:64]])


def registry() -> dict[str, dict]:
    text = (ROOT / "book" / "claims.toml").read_text(encoding="utf-8")
    return {claim["id"]: claim for claim in tomllib.loads(text)["claim"]}


def test_claims_stand_where_the_report_links_to(tiny):
    claims = registry()
    for name, place in report.PLACES.items():
        claim = claims[name]
        assert place == f"{claim['page']}#{claim['anchor']}"
    assert {row["claim"] for row in tiny.rows} <= {None, *report.PLACES}
    for row in tiny.rows:
        if row["claim"] is None:  # measured, and nothing follows
            assert row["url"] is None
            continue
        page, anchor = report.PLACES[row["claim"]].split("#")
        assert row["url"].endswith(f"notebooks/{page}.html#{anchor}")


def test_what_is_not_covered_is_no_number(tiny):
    left = [row for row in tiny.rows if not row["covered"]]
    assert left
    for row in left:
        assert row["value"] is None and row["bound"] is None and row["why"]
    said = " ".join(tiny.not_covered())
    assert all(row["quantity"] in said and row["why"] in said for row in left)


def test_each_column_names_its_claim(tiny):
    said = tiny.claims()
    assert "R, tau, at most, heads <=: synthesis.logits;" in said
    assert said.endswith(". The rest is measured.") and "pairs 90%" not in said
    shown = re.findall(r": ([a-z.-]+)[;.](?= |$)", said.removeprefix("Claims"))
    assert len(shown) == len(set(shown)) == 6
    assert set(shown) <= set(report.PLACES)
    assert " ".join(tiny.text().split()).count(said) == 1


def test_the_printed_report(tiny):
    text = tiny.text()
    assert 80 < max(map(len, text.splitlines())) <= 88
    assert 5 <= len(tiny.verdict()) <= 8
    lines = [line for line in text.splitlines() if re.match(r"\s+\d+\s+\d+\s", line)]
    assert len(lines) == 16
    for sentence in tiny.verdict():
        assert sentence.endswith((".", ")"))
    assert "Not covered" in text


@pytest.mark.parametrize("columns", [30, 44, 70])
def test_where_it_is_narrow_the_tables_stand_in_parts(tiny, columns):
    lines = tiny.text(columns).splitlines()
    assert max(map(len, lines)) <= columns < max(map(len, tiny.text().splitlines()))
    shown = {}
    for line in lines:
        if not re.match(r" +(layer|\d+)(  |$)", line):
            continue
        cells = re.split(r" {2,}", line.strip())
        if cells[0] == "layer":
            headings = cells
            continue
        for heading, cell in zip(headings, cells, strict=True):
            shown.setdefault(heading, []).append(cell)
    for grid in tiny.grids():
        for heading, *cells in zip(*grid):
            if heading not in ("layer", "head"):  # these stand in each part
                assert shown[heading] == cells


@pytest.mark.bad_input
def test_a_line_holds_a_column_at_least(tiny):
    with pytest.raises(ValueError, match="width must be an integer of at least 30"):
        tiny.text(29)


def test_words_follow_the_numbers():
    rows = audit.run(MILD.expand(2, 1, 3, 3)).rows
    text = " ".join(verdict.sentences(rows))
    assert "within 25% of the diameter" in text
    assert "0 of 2 heads can keep more than 99%" in text
    saturated = torch.eye(3, dtype=torch.float64).roll(1, 0).expand(2, 1, 3, 3)
    text = " ".join(verdict.sentences(audit.run(saturated).rows))
    assert "In no head does 90% of the energy take more than 3 singular values" in text
    assert "None of the 2 heads has to forget" in text


def test_words_on_states_name_the_first_the_last_and_the_least():
    """Relative residuals of 2/3, 1/3, 4/21 and 1, all squared, around three layers."""
    mixed = torch.tensor([[1.0, 0], [0, 1], [0, 0]], dtype=torch.float64)
    centred = torch.tensor([[1.0, 0], [1, 0], [-2, 0]], dtype=torch.float64)
    states = torch.stack([mixed, APART, CLOSER, centred])
    said = audit.run(MILD.expand(3, 1, 3, 3), states=states).verdict()
    assert (
        "What differs between tokens is 81.6% of them before layer 0 and 100% after "
        "layer 2; it is least after layer 1, 43.6%." in said
    )


def test_words_on_the_cache_of_a_single_layer():
    """Two heads of keys and values, eight wide, of 32 bits; one token of 50."""
    last = audit.run(llama(num_hidden_layers=1), ids(1, 16)).verdict()[-1]
    assert last.startswith("The cache keeps 1024 bits of each token in 1 layer;")
    assert last.endswith("to read a token back later takes 5.64 (Proposition 8.11).")


@pytest.mark.parametrize("power", [-900, -100, 0, 100, 900])
def test_the_size_of_states_does_not_matter(power):
    """Squares of 2^100 leave float32, those of 2^900 leave float64."""
    dtype = torch.float32 if abs(power) == 100 else torch.float64
    states = (torch.stack([APART, CLOSER]) * 2.0**power).to(dtype)
    got = numbers(audit.run(MILD.to(dtype).expand(1, 1, 3, 3), states=states))
    assert got["diameter before"] == pytest.approx(5 * 2.0**power, abs=0, rel=1e-5)
    assert got["growth of the diameter"] == pytest.approx(2 / 5, rel=1e-5)
    assert got["relative residual before"] == pytest.approx(math.sqrt(1 / 3), rel=1e-5)


def test_json_holds_all_rows(tiny, tmp_path):
    path = tmp_path / "report.json"
    tiny.to_json(path)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["rows"] == tiny.rows and found["verdict"] == tiny.verdict()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.bad_input
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_has_no_word_for_what_is_no_number(tiny, tmp_path, value):
    """A reader would stumble over it; so nothing is written."""
    found = replace(tiny, rows=[*tiny.rows, tiny.rows[0] | {"mean": value}])
    with pytest.raises(ValueError, match="not JSON compliant"):
        found.to_json(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_html_needs_nothing_else(tiny, tmp_path):
    path = tmp_path / "report.html"
    tiny.to_html(path)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)\b|src=|@import|url\(http", page)
    assert "prefers-color-scheme: dark" in page and '<html lang="en">' in page
    assert f'<svg role="img" aria-label="{tiny.alt}"' in page
    assert page.count("<caption>") == page.count("<table>") == 3
    assert page.count('<th scope="row">') == 2 * 16 + 4


@pytest.mark.wide
@pytest.mark.browser
def test_the_html_report_is_for_everyone(browser, tmp_path):
    """On a phone, where tables have least room; control: the alt text taken out."""
    from axe_playwright_python.sync_playwright import Axe

    def violations(*rules) -> list[str]:
        options = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = list(rules)
        found = Axe().run(page, options=options).response["violations"]
        return [violation["id"] for violation in found]

    path = tmp_path / "report.html"
    audit.run(MILD.expand(2, 1, 3, 3)).to_html(path)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    try:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert violations() == []
        page.emulate_media(color_scheme="dark")
        assert violations("color-contrast", "link-in-text-block") == []
        page.evaluate("document.querySelector('svg').removeAttribute('aria-label')")
        assert violations("svg-img-alt") == ["svg-img-alt"]
    finally:
        page.close()


@pytest.mark.parametrize("kind", ["json", "html"])
def test_a_file_is_written_whole_or_not_at_all(tiny, tmp_path, monkeypatch, kind):
    path = tmp_path / f"report.{kind}"
    path.write_text("old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        getattr(tiny, f"to_{kind}")(path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.bad_input
def test_a_file_needs_a_folder(tiny, tmp_path):
    with pytest.raises(ValueError, match="folder that exists"):
        tiny.to_json(tmp_path / "none" / "report.json")


def test_the_figure_has_a_mark_for_each_head(tiny):
    figure = tiny.figure()
    tau = figure.axes[0]
    marks = {line.get_label(): len(line.get_xdata()) for line in tau.lines}
    assert marks == {"allowed by R": 16, "tau": 16}
    values = sorted(r["value"] for r in tiny.rows if r["quantity"] == "tau")
    line = next(line for line in tau.lines if line.get_label() == "tau")
    assert sorted(line.get_ydata()) == values
    assert f"from {values[0]:.2g} to {values[-1]:.2g}" in tiny.alt
    places = line.get_xdata()
    assert len(set(places)) == 16 and [round(x) for x in places[:5]] == [0, 0, 0, 0, 1]


def test_the_legends_are_written_alike(tiny):
    legends = [ax.get_legend() for ax in tiny.figure().axes[:3]]
    assert {text.get_fontsize() for one in legends for text in one.get_texts()} == {8}
    assert not any(legend.get_frame_on() for legend in legends)


def test_maps_alone_are_drawn_without_states():
    found = audit.run(MILD.expand(2, 1, 3, 3))
    assert "pairs heard" in found.alt
    assert len(found.figure().axes[3].lines) == 1


def test_the_address_of_the_book_is_used_once_it_is_known(monkeypatch):
    class Known:
        def get_all(self, _):
            return ["Repository, https://x.org/r", "Book, https://ada.github.io/notes/"]

    monkeypatch.setattr(report.metadata, "metadata", lambda _: Known())
    [row] = report.with_links([{"claim": "synthesis.rank"}])
    assert row["url"].startswith("https://ada.github.io/notes/notebooks/synthesis/")
