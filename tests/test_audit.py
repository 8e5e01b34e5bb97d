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
from attnlib.audit import heads, measures, report
from attnlib.audit.records import LayerRecord

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
    (0, "largest tau"): 3 / 10,
    (0, "beta*"): math.log(3) / math.log(2),
    (0, "largest weight"): 1 / 2,
    (0, "energy rank, 90%"): 2,  # the squares are 1, 1/16, 1/16
    (0, "connections, 90%"): 1,
    (0, "top key"): 1 / 3,
    (0, "looks at"): 1 / 2,  # itself
    (1, "tau"): 19 / 20,
    (1, "connections, 90%"): 3 / 9,
    (1, "looks at"): 2 / 3 * 19 / 20,  # the next one; the last has none behind it
    (None, "pairs heard, 90%"): 1,
    (None, "diameter before"): 5,
    (None, "diameter after"): 2,
    (None, "growth of the diameter"): 2 / 5,
    # |res|^2 = 2/3 of 25 over |X|^2 = 50, and 8/3 over 14
    (None, "relative residual before"): math.sqrt(1 / 3),
    (None, "relative residual after"): math.sqrt(4 / 21),
    (None, "heaviest token before"): 1 / 2,
    (None, "heaviest token after"): 10 / 14,
    # (0, 0) stays; (3, 4) twice: 2/3 of 1 over 2
    (None, "relative residual before, tokens at unit length"): math.sqrt(1 / 3),
    (None, "diameter before, tokens at unit length"): 1,
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


def test_what_is_never_heard_has_no_hops():
    pairs = torch.eye(4, dtype=torch.float64)[[1, 0, 3, 2]]
    found = audit.run(pairs.expand(3, 1, 4, 4))
    assert numbers(found, None)["can hear everything, 90%"] == 0
    assert any("never hears" in sentence for sentence in found.verdict())


def test_a_path_that_is_longer_than_the_network_has_no_hops_yet():
    n = 9  # each token reads the two beside it: 8 hops, and the network has 1 layer
    near = (torch.arange(n)[:, None] - torch.arange(n)).abs() <= 1
    p = near.double() / near.sum(-1, keepdim=True)
    found = audit.run(p[None, None])
    name = "hops of the network, 90%"
    [row] = [r for r in found.rows if r["quantity"] == name]
    assert row["value"] is None and row["covered"] and "not within" in row["why"]
    assert any("more such layers would do" in said for said in found.verdict())
    deep = audit.run(p.expand(10, 1, n, n))
    assert numbers(deep, None)[name] == 8


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
            _, count = literal_pattern(one, 0.9)
            assert close(got["connections, 90%"], count / 24**2)
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
    assert numbers(found, None)["hops of the network, 90%"] == 1  # equals heard alike


def test_padding_changes_no_number():
    model = bert()
    tokens = ids(1, 12)
    alone = audit.run(model, tokens)
    padded = F.pad(tokens, (0, 5))
    mask = F.pad(torch.ones_like(tokens), (0, 5))
    found = audit.run(model, {"input_ids": padded, "attention_mask": mask})
    same(alone.rows, found.rows)
    with pytest.raises(AssertionError):  # control: padding that is attended to
        everything = {"input_ids": padded, "attention_mask": torch.ones_like(padded)}
        same(alone.rows, audit.run(model, everything).rows)


@pytest.mark.bad_input
@pytest.mark.parametrize("side", [(0, 5), (5, 0)])
def test_padding_without_a_mask_is_refused(side):
    padded = F.pad(1 + ids(2, 12) % 49, side)
    with pytest.raises(ValueError, match="2 of 2 sequences begin or end with .* 0,"):
        audit.run(bert(), padded)
    audit.run(bert(pad_token_id=None), padded)  # control: nobody says that 0 is padding


def same(rows, others) -> None:
    assert len(rows) == len(others)
    for row, other in zip(rows, others):
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
    covered = {r["quantity"]: r["covered"] for r in found.rows}
    assert not covered["R"] and not covered["largest tau"]
    assert not covered["can hear everything, 90%"]
    assert 0 < got["heard by the last token, 90%"] <= 1
    maps, _ = by_outputs(llama(), ids(1, 16))
    pattern = torch.zeros(16, 16, dtype=torch.bool)
    for p in maps[0][0]:
        pattern |= literal_pattern(p.double(), 0.9)[0]
    heard = patterns.reach(patterns.from_masks(pattern), 1)
    assert close(got["heard by the last token, 90%"], heard[-1].double().mean())


def test_under_a_causal_mask_tau_is_what_token_0_lacks():
    tokens = ids(1, 16)
    maps, _ = by_outputs(llama(), tokens)
    found = audit.run(llama(), tokens)
    for layer, p in enumerate(maps):
        for head in range(4):
            got = numbers(found, layer, head)["tau"]
            assert close(got, 1 - p[0, head, :, 0].min())
            assert close(got, bridges.dobrushin(p[0, head], check=False))
    assert "under a causal mask tau is 1 less" in found.verdict()[0]
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
    for quantity in ("pairs heard", "can hear everything, 90%"):
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


def record(n: int) -> LayerRecord:
    p = torch.full((1, 1, n, n), 1 / n, dtype=torch.float64)
    return LayerRecord(layer=0, layers=1, name="own", weights=p)


# --- limits ---


def test_attention_to_padding_is_refused():
    kept = torch.tensor([[True, True, False]])
    leaky = replace(record(3), token_mask=kept)
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
    for name, page in report.PLACES.items():
        assert page == claims[name]["page"]
    assert {row["claim"] for row in tiny.rows} <= {None, *report.PLACES}
    for row in tiny.rows:
        if row["claim"] is None:  # measured, and nothing follows
            assert row["url"] is None
            continue
        page, anchor = report.PLACES[row["claim"]], row["claim"].replace(".", "-")
        assert row["url"].endswith(f"notebooks/{page}.html#claim-{anchor}")


def test_what_is_not_covered_is_no_number(tiny):
    left = [row for row in tiny.rows if not row["covered"]]
    assert left
    for row in left:
        assert row["value"] is None and row["bound"] is None and row["why"]
    said = " ".join(tiny.not_covered())
    assert all(row["quantity"] in said and row["why"] in said for row in left)


def test_each_column_names_its_claim(tiny):
    said = tiny.claims()
    assert "tau, R, at most, heads <=: synthesis.logits;" in said
    assert said.endswith(". The rest is measured.") and "pairs 90%" not in said
    shown = re.findall(r": ([a-z.-]+)[;.](?= |$)", said.removeprefix("Claims"))
    assert len(shown) == len(set(shown)) == 6
    assert set(shown) <= set(report.PLACES)
    assert " ".join(tiny.text().split()).count(said) == 1


@pytest.mark.parametrize("columns", [30, 44, 70])
def test_where_it_is_narrow_the_tables_stand_in_parts(tiny, columns):
    lines = tiny.text(columns).splitlines()
    assert max(map(len, lines)) <= columns < max(map(len, tiny.text().splitlines()))
    shown = {}
    for line in lines:
        if not re.match(r" +(layer|\d+)(  |$)", line):
            continue
        cells = re.split(r" {2,}(?!')", line.strip())
        if cells[0] == "layer":
            headings = cells
            continue
        for heading, cell in zip(headings, cells, strict=True):
            shown.setdefault(heading, []).append(cell)
    for grid in tiny.grids(20):
        for heading, *cells in zip(*grid):
            if heading not in ("layer", "head"):  # these stand in each part
                assert shown[heading] == cells


@pytest.mark.bad_input
def test_a_line_holds_a_column_at_least(tiny):
    with pytest.raises(ValueError, match="width must be an integer of at least 30"):
        tiny.text(29)


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
    assert page.count("<caption>") == page.count("<table>") == 2
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
    [line] = tiny.figure().axes[0].lines
    values = sorted(r["value"] for r in tiny.rows if r["quantity"] == "tau")
    assert sorted(line.get_ydata()) == values
    assert f"tau from {values[0]:.2g} to {values[-1]:.2g}" in tiny.alt
    places = line.get_xdata()
    assert len(set(places)) == 16 and [round(x) for x in places[:5]] == [0, 0, 0, 0, 1]


def test_maps_alone_are_drawn_without_states():
    found = audit.run(MILD.expand(2, 1, 3, 3))
    assert "has heard of whom" in found.alt
    assert len(found.figure().axes[3].lines) == 1


def test_the_address_of_the_book_is_used_once_it_is_known(monkeypatch):
    class Known:
        def get_all(self, _):
            return ["Repository, https://x.org/r", "Book, https://ada.github.io/notes/"]

    monkeypatch.setattr(report.metadata, "metadata", lambda _: Known())
    [row] = report.with_links([{"claim": "synthesis.rank"}])
    assert row["url"].startswith("https://ada.github.io/notes/notebooks/synthesis/")


# --- each sentence: where it is true, and where it must not stand ---


def said(maps, **how) -> str:
    return " ".join(audit.run(maps, **how).verdict())


def looking(key: int, share: float, n: int = 12) -> torch.Tensor:
    """Each row gives one key a share, and the rest to all alike."""
    p = torch.full((n, n), (1 - share) / (n - 1), dtype=torch.float64)
    p[:, key] = share
    return p


def reading(offset: int, n: int = 12) -> torch.Tensor:
    """Each token reads the one at an offset, round the end."""
    return torch.eye(n, dtype=torch.float64).roll(offset, 1)


def test_a_small_tau_is_a_certificate():
    g = generator()
    p = looking(3, 0.6) + 0.02 * torch.rand(12, 12, generator=g, dtype=torch.float64)
    p = p / p.sum(-1, keepdim=True)
    text = said(torch.stack([p, reading(1)])[None])
    tau = bridges.dobrushin(p)
    assert (
        f"1 of 2 heads depends little on the query (tau below 0.5): 0.0 ({tau:.3g})"
        in text
    )
    control = said(reading(1)[None, None])
    assert (
        "little on the query" not in control
        and "the least tau is 1 (head 0.0)" in control
    )


def test_a_search_speaks_by_its_upper_bound(monkeypatch):
    """Where not all pairs of rows were looked at, a tau that may be large is none."""
    maps = looking(3, 0.6)[None, None]
    monkeypatch.setattr(bridges, "dobrushin_between", lambda p, check: (0.3, 0.6))
    monkeypatch.setattr(heads, "CHEAP", 4)
    row = next(r for r in audit.run(maps).rows if r["quantity"] == "tau")
    assert (row["value"], row["bound"]) == (0.3, 0.6)
    assert "little on the query" not in said(maps)
    monkeypatch.setattr(bridges, "dobrushin_between", lambda p, check: (0.3, 0.4))
    assert "1 of 1 head depends little on the query (tau below 0.5): 0.0 (0.4)" in said(
        maps
    )
    monkeypatch.setattr(heads, "CHEAP", 256)
    row = next(r for r in audit.run(maps).rows if r["quantity"] == "tau")
    assert row["value"] < 1e-12 and "found" not in row["over"]


LOOKS = {
    "previous": reading(-1),
    "itself": reading(0),
    "next": reading(1),
    "sink": looking(3, 0.4),
    "diffuse": looking(3, 0.1),
    "content": reading(5),
}


@pytest.mark.parametrize("label", LOOKS)
def test_where_a_head_looks(label):
    found = audit.run(LOOKS[label][None, None])
    rows = {row["quantity"]: row for row in found.rows}
    assert rows["looks at"]["word"] == label
    assert ("sink" in said(LOOKS[label][None, None])) == (label == "sink")
    if label == "sink":
        assert rows["top key"]["word"] == "3" and close(rows["top key"]["value"], 0.4)


def test_delimiters_are_known_by_their_text():
    model = data.load_tiny_model()
    for block in model.blocks:
        block.qkv.weight.data.zero_()  # every weight is alike
    text = "a" + "." * 8
    [row, *_] = [r for r in audit.run(model, text).rows if r["quantity"] == "looks at"]
    assert row["word"] == "delimiter" and close(row["value"], 8 / 9)
    [row, *_] = [
        r for r in audit.run(model, "a" * 8 + ".").rows if r["quantity"] == "looks at"
    ]
    assert row["word"] == "diffuse"  # control
    [top, *_] = [r for r in audit.run(model, text).rows if r["quantity"] == "top key"]
    assert top["word"] == "0 'a'"


class Sink(nn.Module):
    """Attention to token 0, whose value is short, or as long as the others'."""

    def __init__(self, length: float):
        super().__init__()
        self.length = length

    def forward(self, x):
        n = x.shape[-2]
        v = torch.ones(1, 1, n, 4)
        v[..., 0, :] = self.length
        q = torch.ones(1, 1, n, 4)
        k = torch.zeros(1, 1, n, 4)
        k[..., 0, :] = 4
        return F.scaled_dot_product_attention(q, k, v)


def test_a_sink_is_at_rest_if_its_value_is_short():
    x = torch.randn(1, 9, 4)
    text = " ".join(audit.run(Sink(0.1), x).verdict())
    assert "In 1 the value read there is at most half as long" in text
    assert "Proposition 4.11" in text
    text = " ".join(audit.run(Sink(1.0), x).verdict())
    assert "1 of 1 head is a sink" in text and "Proposition 4.11" not in text


def test_a_massive_token_is_named_and_hides_nothing():
    states = torch.randn(2, 9, 4, generator=generator(), dtype=torch.float64)
    maps = looking(3, 0.3, 9)[None, None]
    assert "massive" not in said(maps, states=states)
    states[1, 2] *= 1000
    found = audit.run(maps, states=states)
    got = numbers(found)
    assert "Token 2 is massive: after layer 0" in " ".join(found.verdict())
    assert got["heaviest token after"] > 0.99
    unit = states[1] / states[1].norm(dim=-1, keepdim=True)
    wanted = collapse.residual(unit).norm() / unit.norm()
    name = "relative residual after, tokens at unit length"
    assert close(got[name], wanted) and got["relative residual after"] < wanted + 0.2


def test_what_constrains_nothing_is_said_once_and_not_shown():
    """Large logits allow every tau; uniform maps have no floor."""
    logits = 40 * torch.randn(1, 1, 12, 12, generator=generator(), dtype=torch.float64)
    sharp = audit.run(logits.softmax(-1))
    assert sharp.idle("at most") and not sharp.idle("floor n/4")
    assert "at most" not in sharp.grids()[0][0]
    assert "No constraint on this model: at most." in sharp.text()
    dull = audit.run((logits / 400).softmax(-1))
    assert not dull.idle("at most") and dull.idle("floor n/4")
    assert "floor n/4" not in dull.grids()[0][0]


def test_words_on_low_rank_and_sharpness():
    text = said(looking(3, 0.999)[None, None])
    assert "1 of 1 head is sharp" in text and "1 sink, by where they look" in text
    assert "1 of 1 map holds 90% of the energy in 3 singular values" in text
    text = said(reading(5)[None, None])
    assert "0 of 1 map hold 90%" in text
    assert "No head is sharp" in said(MILD[None, None])
    # Zipf's row is just sharp, and its leader has 1 / (1 + 1/2 + 1/3 + 1/4), no more
    zipf = 1 / torch.arange(1, 5, dtype=torch.float64)
    heads = [(row / row.sum()).expand(4, 4) for row in (zipf, zipf.square())]
    assert "2 of 2 heads are sharp" in said(torch.stack(heads)[None])
    assert "has at least 48% of its row" in said(torch.stack(heads)[None])
    assert "has at least 70% of its row" in said(heads[1][None, None].clone())


def test_words_on_states_name_the_first_the_last_and_the_least():
    """At unit length the relative residuals squared are 2/3, 1/3, 1/15 and 1."""
    mixed = torch.tensor([[1.0, 0], [0, 1], [0, 0]], dtype=torch.float64)
    centred = torch.tensor([[1.0, 0], [1, 0], [-2, 0]], dtype=torch.float64)
    states = torch.stack([mixed, APART, CLOSER, centred])
    text = said(MILD.expand(3, 1, 3, 3), states=states)
    got = audit.run(MILD.expand(3, 1, 3, 3), states=states)
    name = "relative residual after, tokens at unit length"
    shares = [numbers(got, layer)[name] for layer in range(3)]
    assert "of them before layer 0" in text
    least = min(shares)
    assert f"least after layer {shares.index(least)}, {100 * least:.3g}%" in text


def test_words_on_the_cache():
    """Two heads of keys and values, eight wide, of 32 bits: 128 bytes a layer."""
    last = audit.run(llama(), ids(1, 16)).verdict()[-1]
    assert "take 0.25 KiB a token in float32, 2 layers together" in last
    assert "KiB" not in " ".join(audit.run(bert(), ids(1, 16)).verdict())


def test_the_table_shows_the_heads_with_the_least_tau():
    p = torch.stack([looking(3, 0.9 - 0.02 * i) for i in range(30)])
    p[:, 0] = 1 / 12
    found = audit.run(p[None])
    heads, _ = found.grids(20)
    assert len(heads) == 21 and len(found.grids()[0]) == 31
    taus = [float(bridges.dobrushin(one)) for one in p]
    order = sorted(range(30), key=taus.__getitem__)
    assert [int(line[1]) for line in heads[1:]] == order[:20]
    assert "20 of 30 heads, the least tau first" in found.text()
    assert "least tau first" not in found.text(top=None)


# --- a part is not the whole ---


def test_some_layers_are_not_the_network():
    x, _, encoder = plain(True)
    whole = audit.run(encoder, x)
    part = audit.run(encoder, x, layers=[1])
    assert "layers= looked at layer 1 alone" in part.read
    assert "Nothing else mixes tokens" in whole.read
    for quantity in ("factor of all layers", "paths", "can hear everything, 90%"):
        [row] = [r for r in part.rows if r["quantity"] == quantity]
        assert row["value"] is None and "alone" in row["why"]
    assert not any("heard" in said or "All layers" in said for said in part.verdict())
    assert numbers(part, 1, 0) == numbers(whole, 1, 0)
    assert numbers(whole, None)["factor of all layers"] > 0


# --- two reports beside each other ---


def test_two_reports_are_compared():
    model = data.load_tiny_model()
    text = model.sample[0][:64]
    one = audit.run(model, text)
    assert audit.compare(one, one).rows[0]["change"] == 0
    assert "0 of" in str(audit.compare(one, one))
    block = model.blocks[1]
    width = block.qkv.in_features
    block.qkv.weight.data[: width // 4] = 0  # the queries of head 1.0
    other = audit.run(model, text)
    found = audit.compare(one, other)
    first = found.rows[0]
    assert (first["layer"], first["head"]) == (1, 0) and first["change"] == 1
    assert not any(row["change"] for row in found.rows if row["layer"] == 0)
    changes = [row["change"] for row in found.rows]
    assert changes == sorted(changes, reverse=True)
    assert "TinyModel -> TinyModel" in str(found)


@pytest.mark.bad_input
def test_reports_of_two_texts_are_not_compared():
    one = audit.run(MILD[None, None])
    with pytest.raises(ValueError, match="on the same inputs"):
        audit.compare(one, audit.run(reading(1)[None, None]))
    with pytest.raises(ValueError, match="the same layers and heads"):
        audit.compare(one, audit.run(MILD.expand(1, 2, 3, 3)))


# --- the advice, carried out ---


class Reader(nn.Module):
    """Four heads: one gives a constant, one averages all, two read by content."""

    def __init__(self, masked: bool):
        super().__init__()
        torch.manual_seed(0)
        self.attend = nn.MultiheadAttention(16, 4, batch_first=True)
        weight = self.attend.in_proj_weight.data
        weight[:16] *= 12
        weight[:4] = 0  # queries of head 0
        self.masked = masked

    def forward(self, x):
        return x + self.attend(x, x, x)[0]


def test_verify_confirms_a_constant_head():
    g = generator()
    x = torch.randn(1, 24, 16, generator=g)
    found = audit.run(Reader(False), x).verify(torch.randn(1, 24, 16, generator=g))
    alone = [r for r in found.rows if r["kind"] == "constant" and r["layer"] == 0]
    named = [row for row in alone if not row["control"]]
    assert [row["head"] for row in named] == [0]
    drawn = [row for row in alone if row["control"]]
    assert named[0]["change"] < min(row["change"] for row in drawn)
    assert "constant: confirmed" in str(found)
    swapped = [row | {"control": not row["control"]} for row in found.rows]
    assert "constant: refuted" in str(replace(found, rows=swapped))


def test_verify_puts_in_what_it_says():
    """By hand: head 0 replaced by its mean over another input."""
    g = generator()
    model = Reader(False).eval()
    x, other = torch.randn(2, 1, 24, 16, generator=g).unbind()
    found = audit.run(model, x).verify(other)
    [row] = [r for r in found.rows if r["kind"] == "constant" and not r["control"]]
    layer = attention.from_torch(model.attend)

    def heads(x):
        _, [p] = attention.forward(x, [layer], return_attention=True)
        return p @ (x.unsqueeze(-3) @ layer.w_v + layer.b_v.unsqueeze(-2))

    with torch.no_grad():
        wanted = heads(x)
        wanted[:, 0] = heads(other)[:, 0].mean(-2)
        moved = (wanted - heads(x)) @ layer.w_o
        share = moved.sum(1).norm() / model(x).norm()
    assert row["change"] == pytest.approx(float(share), rel=1e-4)


@pytest.mark.bad_input
def test_what_cannot_be_verified_says_why():
    x = torch.randn(1, 8, 16)
    with pytest.raises(ValueError, match="other= is needed"):
        audit.run(Reader(False), x).verify()
    with pytest.raises(ValueError, match="only maps or layers"):
        audit.run(looking(3, 0.9)[None, None]).verify()


def test_verify_on_a_language_model():
    model = data.load_tiny_model()
    found = audit.run(model, model.sample[0][:64]).verify(most=1)
    assert found.unit == "nats (KL)"
    assert all(row["change"] >= 0 for row in found.rows)
    assert {row["kind"] for row in found.rows} <= {"constant", "sink", "low rank"}
