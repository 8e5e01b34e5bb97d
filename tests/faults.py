"""Ways to break attnlib: for each kernel some mutations, and what must notice them.

A mutation replaces a piece of code, wherever its shape stands (shapes.py), in a process
of its own, forked from one that has the library. test_teeth asks the claims,
test_teeth_pages the pages.
"""

from __future__ import annotations

import ast
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

from shapes import replaced

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # module of attnbook.theorems -> its page
    "paths": "path_decomposition/paths",
    "rank_collapse": "path_decomposition/rank_collapse",
    "price_of_dimension": "sparse_patterns/price_of_dimension",
    "what_is_enough": "sparse_patterns/what_is_enough",
    "four_questions": "path_decomposition/four_questions",
    "escaping_collapse": "path_decomposition/escaping_collapse",
    "random_projections": "jl_low_rank/random_projections",
    "path_efficacy": "path_decomposition/path_efficacy",
    "spectra_and_linformer": "jl_low_rank/spectra_and_linformer",
    "complexity_table": "jl_low_rank/complexity_table",
    "contextual_mapping": "one_layer_memorization/contextual_mapping",
    "boltzmann_and_hardmax": "one_layer_memorization/boltzmann_and_hardmax",
    "logarithmic_dimension": "sparse_patterns/logarithmic_dimension",
    "patterns_and_conditions": "sparse_universality/patterns_and_conditions",
    "copying_task": "sparse_universality/copying_task",
    "the_proof_executed": "sparse_universality/the_proof_executed",
    "from_integers_to_softmax": "sparse_universality/from_integers_to_softmax",
    "memorization": "one_layer_memorization/memorization",
    "reviewers_questions": "one_layer_memorization/reviewers_questions",
    "sharpness": "what_came_after/sharpness",
    "cache": "what_came_after/cache",
    "layers_or_steps": "what_came_after/layers_or_steps",
    "bits_of_a_tile": "what_came_after/bits_of_a_tile",
    "five_theorems_one_matrix": "synthesis/five_theorems_one_matrix",
}

# Forked from a process that has these already: most of a mutation's time would
# otherwise go into importing torch.
METHOD = (
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)
CONTEXT = multiprocessing.get_context(METHOD)
if METHOD == "forkserver":
    CONTEXT.set_forkserver_preload(
        [
            "torch",
            "mpmath",
            "flint",
            "matplotlib",
            "pytest",
            "IPython.display",
            "jaxtyping",
            "yaml",
        ]
    )
SECONDS = 900


def load() -> None:
    """Import the library, and use one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    places = ("", "/tests", "/book", "/book/_tools")
    sys.path[:0] = [f"{ROOT}{place}" for place in places]
    import torch

    torch.set_num_threads(1)


class Mutation(NamedTuple):
    kernel: str
    old: str
    new: str
    claims: str  # of attnbook.theorems; they hold while nothing is broken
    page: bool  # does a checked cell of the page depend on it?
    module: str  # of attnbook.theorems


def room(module: str, kernel: str = "{}") -> Callable[..., Mutation]:
    """What makes the mutations of one page, of kernels that go by short names."""

    def mutation(
        name: str, old: str, new: str, claims: str, page: bool = True
    ) -> Mutation:
        return Mutation(kernel.format(name), old, new, claims, page, module)

    return mutation


paths = room("paths")
collapse = room("rank_collapse")
questions = room("four_questions")
escaping = room("escaping_collapse")
efficacy = partial(room("path_efficacy"), "efficacy")
jl = room("random_projections")
lowrank = room("spectra_and_linformer")
efficient = room("complexity_table", "efficient/{}")
codes = room("price_of_dimension")
enough = room("what_is_enough")
expressive = room("logarithmic_dimension", "expressive/{}")
patterns = room("patterns_and_conditions", "patterns/{}")
tiles = room("patterns_and_conditions", "sparse/_{}")
averages = partial(room("patterns_and_conditions"), "attention")
ramps_of_blocks = partial(room("patterns_and_conditions"), "universal/standard")
copying = partial(room("copying_task"), "copying")
mixers = partial(room("copying_task"), "data/mixers")
universal = room("the_proof_executed", "universal/{}")
softened = partial(room("from_integers_to_softmax"), "universal/standard")
ids = room("contextual_mapping", "memorize/{}")
told = partial(room("contextual_mapping"), "theorems/contextual_mapping")
boltzmann = room("boltzmann_and_hardmax")
memorizer = room("memorization", "memorize/{}")
memorized = partial(room("memorization"), "theorems/memorization")
reviewers = room("reviewers_questions")
tile_kernel = room("bits_of_a_tile")
tile = partial(tile_kernel, "theorems/bits_of_a_tile")
sharp = partial(room("sharpness"), "bridges")
cache = room("cache")
hops = room("layers_or_steps")
bridges = partial(room("five_theorems_one_matrix"), "bridges")


MUTATIONS = {
    "attention_matrix: axis": paths(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(a, -2)",
        "paths.decomposition",
    ),
    "attention_matrix: scale": paths(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.shape[-1]",
        "paths.recomputed",
    ),
    "forward: sign of the skip": paths(
        "_blocks",
        "x + y if skip else y",
        "x - y if skip else y",
        "paths.skip",
    ),
    "forward: order of the heads": paths(
        "attention",
        "heads.transpose(-3, -2).flatten(-2)",
        "heads.flip(-3).transpose(-3, -2).flatten(-2)",
        "paths.decomposition",
    ),
    "merged: order of heads": paths(
        "attention",
        "return layer.w_v @ layer.w_o, b",
        "return layer.w_v @ layer.w_o.flip(0), b",
        "paths.order",
    ),
    "merged: value biases": paths(
        "attention",
        "        b = b + rows.sum((0, 1))\n",
        "        b = b - rows.sum((0, 1))\n",
        "paths.decomposition",
    ),
    "path_term: scale": paths(
        "paths",
        "w = layer.w_v[h] @ layer.w_o[h]",
        "w = 2 * layer.w_v[h] @ layer.w_o[h]",
        "paths.skip",
    ),
    "path_term: head of the values": paths(
        "paths",
        "w = layer.w_v[h] @ layer.w_o[h]",
        "w = layer.w_v[0] @ layer.w_o[h]",
        "paths.decomposition",
    ),
    "path_terms: a head too few": paths(
        "paths",
        "list(range(h))",
        "list(range(1, h))",
        "paths.sums",
    ),
    "restrict: wrong head": paths(
        "paths",
        "w[h : h + 1]",
        "w[:1]",
        "paths.recomputed",
    ),
    "_by_length: sign": paths(
        "paths",
        "stays + one_longer",
        "stays - one_longer",
        "paths.sums",
    ),
    "_by_length: lengths do not shift": paths(
        "paths",
        "one_longer = pad(y, (0, 0, 0, 0, 1, 0))",
        "one_longer = pad(y, (0, 0, 0, 0, 0, 1))",
        "paths.sums",
    ),
    "_by_length: order of the heads": paths(
        "paths",
        "y.unflatten(-1, v.shape[-3:])",
        "y.unflatten(-1, v.shape[-3:]).flip(-5)",
        "paths.sums",
    ),
    "_by_length: a state that is zero": paths(
        "paths",
        "    t = x[..., None, None, :]",
        "    t = pad(x[..., None, None, :], (0, 0, 0, 0, 0, 1))",
        "paths.cost",
    ),
    "_bias: not carried": paths(
        "paths",
        "values = b @ layer.w_v\n",
        "values = 0 * b @ layer.w_v\n",
        "paths.sums",
    ),
    "path_counts: no skip": paths(
        "paths",
        "counts + [0] if skip else [0] * (len(counts) + 1)",
        ("[0 * c for c in counts] + [0] if skip else [0] * (len(counts) + 1)"),
        "paths.lengths",
    ),
    "path_norms: one sign a layer": paths(
        "paths",
        "size = (len(layer.w_q), signs)",
        "size = (1, signs)",
        "paths.signs",
        page=False,
    ),
    "certify.network: sign of z": paths(
        "certify/__init__",
        "_scaled(z, _add(*_heads(x, p, w, u)))",
        "_scaled(-z, _add(*_heads(x, p, w, u)))",
        "paths.row-sums",
    ),
    "certify.path_sum: sign of a node": paths(
        "certify/__init__",
        "(a - b) / (node - other)",
        "(a - b) / (node + other)",
        "paths.row-sums",
    ),
    "certify.decomposition_gap: bias": paths(
        "certify/__init__",
        "[*carried, *value_biases[layer]]",
        "[*value_biases[layer]]",
        "paths.row-sums",
    ),
    "_layer: sign of the first order": collapse(
        "collapse", "s * (e - e @ s.mT)", "s * (e + e @ s.mT)", "collapse.recursion"
    ),
    "_difference: log of the sum": collapse(
        "collapse",
        "torch.log1p(v.clamp_max(1).expm1() @ s.mT)",
        "v.clamp_max(1).expm1() @ s.mT",
        "collapse.recursion",
    ),
    "_layer: linear scale": collapse(
        "collapse",
        "torch.where(linear, 3 * size, size)",
        "torch.where(linear, 2 * size, size)",
        "collapse.recursion",
    ),
    "_layer: first row": collapse(
        "collapse", "e = e - first", "", "collapse.recursion"
    ),
    "_layer: pivot": collapse(
        "collapse",
        "values - values.gather(-2, row)",
        "values - 2 * values.gather(-2, row)",
        "collapse.recursion",
    ),
    "_recentre: the mean is lost": collapse(
        "collapse",
        "x + _scaled(mean, size)",
        "x",
        "collapse.recursion",
    ),
    "composite_norm: axis": collapse(
        "collapse",
        "return _norm_1(x).sqrt() * _norm_inf(x).sqrt()",
        "return x.abs().sum(-2).amin(-1).sqrt() * _norm_inf(x).sqrt()",
        "collapse.recursion",
    ),
    "log_bound: square in place of cube": collapse(
        "collapse",
        "torch.where(zero, -math.inf, c + 3 * u)",
        "torch.where(zero, -math.inf, c + 4 * u)",
        "collapse.multi-head",
    ),
    "_log_norms: the least spread of a head": collapse(
        "collapse",
        "spread = w_qk.max()",
        "spread = w_qk.min()",
        "collapse.multi-head",
    ),
    "_log_norms: the largest head alone": collapse(
        "collapse",
        "b_1 = (w_qk * one).sum()",
        "b_1 = (w_qk * one).max()",
        "collapse.multi-head",
    ),
    "_log_norms: no root of d_qk": collapse(
        "collapse",
        "_norm_1(layer.w_q @ layer.w_k.mT).double() / root",
        "_norm_1(layer.w_q @ layer.w_k.mT).double() / root**2",
        "collapse.multi-head",
    ),
    "_log_norms: rows for columns": collapse(
        "collapse",
        "_norm_1(layer.w_q @ layer.w_k.mT)",
        "_norm_inf(layer.w_q @ layer.w_k.mT)",
        "collapse.multi-head",
    ),
    "_log_factor: a half for a quarter": collapse(
        "collapse",
        "log_omega - math.log(4)",
        "log_omega - math.log(2)",
        "collapse.cube",
    ),
    "_log_factor: one factor of the distance": collapse(
        "collapse",
        "2 * u.unsqueeze(-1)",
        "1 * u.unsqueeze(-1)",
        "collapse.cube",
    ),
    "log_diameter_bound: no root of d_qk": collapse(
        "collapse",
        "omega = torch.linalg.matrix_norm(w_qk, 2) / root",
        "omega = torch.linalg.matrix_norm(w_qk, 2) / root**4",
        "collapse.cube questions.contraction",
    ),
    "_diameter: the mean distance": collapse(
        "collapse",
        "distances.amax((-2, -1))",
        "distances.mean((-2, -1))",
        "questions.contraction",
    ),
    "_log_g: sign": collapse(
        "collapse",
        "y + (-torch.expm1(-y)).log() - log_y",
        "y + (-torch.expm1(-y)).log() - 3 * log_y - 2 * y",
        "collapse.multi-head",
        page=False,
    ),
    "attention_matrix: one root too many": collapse(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.shape[-1]",
        "collapse.cubic",
    ),
    "attention_matrix: softmax of other logits": collapse(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(1.1 * a, -1)",
        "collapse.spread",
    ),
    "around: a skip where none is": collapse(
        "_blocks",
        "x + y if skip else y",
        "x + y if not skip else y",
        "collapse.one-layer",
    ),
    "forward: who is heard, not who hears": collapse(
        "attention",
        "p @ _project(x.unsqueeze(-3), layer.w_v, layer.b_v)",
        "p.mT @ _project(x.unsqueeze(-3), layer.w_v, layer.b_v)",
        "collapse.rows",
    ),
    "forward: outputs doubled": collapse(
        "attention",
        "y = side_by_side @ layer.w_o.flatten(0, 1)",
        "y = 2 * side_by_side @ layer.w_o.flatten(0, 1)",
        "collapse.half-two",
    ),
    "merged: values of another head": collapse(
        "attention",
        "return layer.w_v @ layer.w_o, b",
        "return layer.w_v.flip(0) @ layer.w_o, b",
        "collapse.frozen",
    ),
    "_recentre: a size that is not carried": collapse(
        "collapse",
        "size + norm.log()",
        "size",
        "collapse.bound",
    ),
    "_layer: one root too many": collapse(
        "collapse",
        "keys = r @ layer.w_k / root",
        "keys = r @ layer.w_k / root**2",
        "collapse.toy",
    ),
    "_layer: no root": collapse(
        "collapse",
        "keys = r @ layer.w_k / root",
        "keys = r @ layer.w_k",
        "collapse.sharp",
    ),
    "_difference: twice": collapse(
        "collapse",
        "s * log_ratio.clamp_max(1).expm1()",
        "2 * s * log_ratio.clamp_max(1).expm1()",
        "collapse.half",
    ),
    "certify.log_residuals: scale": collapse(
        "certify/collapse",
        "q * k.T / mpmath.sqrt(q.cols)",
        "q * k.T / q.cols",
        "collapse.recursion",
    ),
    "certify.family_residual: sign": collapse(
        "certify/collapse",
        "(plus - minus) / total",
        "(plus + minus) / total / 2",
        "collapse.family",
    ),
    "linformer_attention: axis": lowrank(
        "lowrank",
        "torch.softmax(logits, -1) @ values",
        "torch.softmax(logits, -2) @ values",
        "lowrank.pairs",
    ),
    "linformer_attention: scale": lowrank(
        "lowrank",
        "scale = 1 / math.sqrt(q.shape[-1])",
        "scale = 1 / q.shape[-1]",
        "lowrank.pairs",
    ),
    "linformer_attention: sign": lowrank(
        "lowrank", "q * scale @ keys.mT", "q * scale @ -keys.mT", "lowrank.pairs"
    ),
    "linformer_attention: e for f": lowrank(
        "lowrank", "f[..., :n] @ v", "e[..., :n] @ v", "lowrank.kernel"
    ),
    "linformer_attention: a causal mask on the mixtures": lowrank(
        "lowrank", "f[..., :n] @ v", "f[..., :n].tril() @ v", "lowrank.causal"
    ),
    "linformer_attention: the tokens, unmixed": lowrank(
        "lowrank",
        ("keys = e[..., :n] @ k\nvalues = f[..., :n] @ v"),
        ("keys = k\nvalues = v"),
        "lowrank.covering",
    ),
    "certify.rank: without the last row": lowrank(
        "certify/matrices",
        (
            "for row in exact(matrix):\n"
            "    rows.append([QQ(entry.numerator, entry.denominator) "
            "for entry in row])"
        ),
        (
            "for row in exact(matrix)[:-1]:\n"
            "    rows.append([QQ(entry.numerator, entry.denominator) "
            "for entry in row])"
        ),
        "lowrank.full-rank",
    ),
    "svd_surrogate: one value too few": lowrank(
        "lowrank",
        "columns @ vh[..., :k, :]",
        "columns[..., 1:] @ vh[..., 1:k, :]",
        "lowrank.svd",
    ),
    "sampled_product: scale": lowrank(
        "lowrank", "(k * c[drawn])", "c[drawn]", "lowrank.products"
    ),
    "sampled_product: chances": lowrank(
        "lowrank",
        "p.detach().norm(dim=0) * v.detach().norm(dim=1)",
        "p.detach().norm(dim=0)",
        "lowrank.products",
    ),
    "effective_rank: power": lowrank(
        "lowrank",
        "relative.pow(power).cumsum(-1)",
        "relative.cumsum(-1)",
        "lowrank.metric",
    ),
    "chance: standard deviation": lowrank(
        "theorems/spectra_and_linformer",
        "target * math.exp(delta) / math.sqrt(n)",
        "target * math.exp(delta) / n",
        "lowrank.theorem-2",
    ),
    "share_of_the_circle: sign": lowrank(
        "theorems/spectra_and_linformer",
        "-(n - m) * (2 + m)",
        "(n - m) * (2 + m)",
        "lowrank.winners",
    ),
    "moment_queries: sign of the sine": codes(
        "codes/__init__",
        "torch.stack([f.real, -f.imag], -1)",
        "torch.stack([f.real, f.imag], -1)",
        "codes.moment",
    ),
    "moment_queries: scale of the bump": codes(
        "codes/__init__",
        "2 * torch.sin(angles).square()",
        "4 * torch.sin(angles).square()",
        "codes.moment",
    ),
    "moment_queries: axis of the product": codes(
        "codes/__init__",
        "ratios.amax(1)",
        "ratios.amax(0)",
        "codes.moment",
    ),
    "moment_keys: scale": codes(
        "codes/__init__",
        "pairs.flatten(1) / math.sqrt(k)",
        "pairs.flatten(1) / k",
        "codes.moment",
    ),
    "margins: least of the others": codes(
        "codes/__init__",
        (
            "others = logits.scatter(1, own, -math.inf)\n"
            "found.append(least - others.amax(1))"
        ),
        (
            "others = logits.scatter(1, own, math.inf)\n"
            "found.append(least - others.amin(1))"
        ),
        "codes.circle",
    ),
    "code_from: the radius": codes(
        "codes/__init__",
        "along.square() + 4",
        "along.square() + 9",
        "codes.law",
    ),
    "code_from: axis": codes(
        "codes/__init__",
        "u = q / q.norm(dim=1, keepdim=True)",
        "u = q / q.norm(dim=0, keepdim=True)",
        "codes.law",
    ),
    "coherence: the diagonal": codes(
        "codes/__init__",
        "products.fill_diagonal_(-math.inf)",
        "products.fill_diagonal_(math.inf)",
        "codes.law",
    ),
    "cap: power": codes(
        "expressive/dimensions",
        ("mpmath.betainc((d - 1) / 2, 0.5, 0, square_sine, regularized=True)"),
        ("mpmath.betainc(d / 2, 0.5, 0, square_sine, regularized=True)"),
        "codes.factor-four",
    ),
    "price: the angle is not doubled": codes(
        "codes/__init__",
        "low = 0.5 / math.sin(theta) ** 2",
        "low = 0.5 / math.sin(theta / 4) ** 2",
        "codes.factor-four",
    ),
    "settle: level": enough(
        "expressive/redraw",
        "gap + 3 * rounding",
        "gap / 2 + 3 * rounding",
        "codes.redraw",
    ),
    "settle: rows whose worst key is redrawn": enough(
        "expressive/redraw",
        "new_worst | new_on_row",
        "new_on_row",
        "codes.redraw",
        page=False,
    ),
    "settle: rows with a redrawn key": enough(
        "expressive/redraw",
        "new_worst | new_on_row",
        "new_worst",
        "codes.redraw",
    ),
    "settle: redrawn keys are compared with no row": enough(
        "expressive/redraw",
        (
            "worst = torch.where(found > top, which, worst)\n"
            "top = torch.maximum(top, found)"
        ),
        "pass",
        "codes.redraw",
    ),
    "settle: bad rows": enough(
        "expressive/redraw",
        "allowed = 1 / (2 * columns.shape[1])",
        "allowed = 2 / columns.shape[1]",
        "codes.redraw",
        page=False,
    ),
    "spiral_keys: height": codes(
        "codes/__init__", "1 - (2 * j + 1) / n", "1 - 2 * j / n", "codes.spiral"
    ),
    "radon: sign": codes(
        "codes/exact", "c[i] = -rows[i][j]", "c[i] = rows[i][j]", "codes.radon"
    ),
    "e8: parity": codes(
        "codes/exact",
        "math.prod(v) > 0",
        "math.prod(v) > -2",
        "codes.kissing",
    ),
    "golay: generator": codes(
        "codes/exact",
        "[0, 2, 4, 5, 6, 10, 11]",
        "[0, 2, 4, 5, 7, 10, 11]",
        "codes.kissing",
    ),
    "leech: sign of the threes": codes(
        "codes/exact",
        "1 - 4 * torch.eye(24, dtype=torch.int64)",
        "1 + 2 * torch.eye(24, dtype=torch.int64)",
        "codes.kissing",
    ),
    "line_order: complement": enough(
        "codes/exact",
        "s if x in s else everything - s",
        "s if x in s else s",
        "codes.line",
    ),
    "price: the upper bound": codes(
        "codes/__init__",
        "high = 0.5 / math.sin(theta / 2) ** 2",
        "high = 0.45 / math.sin(theta / 2) ** 2",
        "codes.factor-four",
    ),
    "code_from: pushed away from the origin": codes(
        "codes/__init__",
        "return (x + t[:, None] * u) / 2",
        "return x / x.norm(dim=1, keepdim=True)",
        "codes.law",
    ),
    "lemma_dimension: one row in place of a pair": enough(
        "theorems/what_is_enough",
        "return 2 * k * k / (k + 1)",
        "return 2 * k",
        "codes.redraw",
    ),
    "enough_dimensions: the sine": codes(
        "theorems/price_of_dimension",
        "2 * math.log(n / 2)",
        "math.log(n / 2) / 2",
        "codes.log",
    ),
    "packed_logits: the diameter for the radius": codes(
        "theorems/price_of_dimension",
        "math.log1p(2 * radius / gap)",
        "math.log1p(radius / gap / 8)",
        "synthesis.packing",
    ),
    "full_rank: the gap's sign": codes(
        "theorems/price_of_dimension",
        "1 - 2 * (n - 1) * math.exp(-gap)",
        "1 - math.exp(-gap) / n",
        "codes.rank",
    ),
    "bits: natural logarithm": enough(
        "theorems/what_is_enough",
        "math.ceil(math.log2(paid))",
        "math.ceil(math.log(paid))",
        "codes.bits",
    ),
    "sign_rank: sign of the change of basis": enough(
        "theorems/what_is_enough",
        "a[i] - Fraction(a[at] * plus[i], plus[at])",
        "a[i] + Fraction(a[at] * plus[i], plus[at])",
        "codes.sign-rank",
    ),
    "counting_signs: one row's variables": enough(
        "theorems/what_is_enough",
        "n * (2 * d + 1)",
        "n",
        "codes.counting",
    ),
    "certify.norms: axis": questions(
        "certify/matrices",
        "max(map(sum, zip(*sizes)))",
        "max(map(sum, sizes))",
        "questions.quasi-norm",
    ),
    "certify.norms: largest entry": questions(
        "certify/matrices",
        "one = max(map(sum, zip(*sizes)))",
        "one = max(map(max, sizes))",
        "questions.centre",
    ),
    "certify.norms: sign": questions(
        "certify/matrices",
        "[list(map(abs, row)) for row in exact(matrix)]",
        "exact(matrix)",
        "questions.centre",
    ),
    "composite_norm: an axis": questions(
        "collapse",
        "return x.abs().sum(-2).amax(-1)",
        "return x.abs().sum(-1).amax(-1)",
        "questions.keeps",
    ),
    "residual: the mean of the features": questions(
        "collapse",
        "return x - x.mean(-2, keepdim=True)",
        "return x - x.mean(-1, keepdim=True)",
        "questions.centre",
    ),
    "attention_matrix: scale of a star": questions(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.shape[-1]",
        "questions.lipschitz",
    ),
    "attention_matrix: a sharper softmax": questions(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(1.1 * a, -1)",
        "questions.lemma",
    ),
    "attention_matrix: sign of the logits": questions(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(-a, -1)",
        "questions.chain",
    ),
    "log_printed: half of the constant": questions(
        "theorems/rank_collapse",
        "log_c = (4 * most * max(beta)).log()",
        "log_c = (2 * most * max(beta)).log()",
        "questions.right-side",
    ),
    "attention_matrix: divided by the weights": questions(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.norm()",
        "questions.scale",
    ),
    "forward: outputs twice": questions(
        "attention",
        "y = side_by_side @ layer.w_o.flatten(0, 1)",
        "y = 2 * side_by_side @ layer.w_o.flatten(0, 1)",
        "questions.residual",
    ),
    "attention_matrix: times the root": questions(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "math.sqrt(w_q.shape[-1])",
        "questions.normalise",
    ),
    "certify.product: rows for columns": questions(
        "certify/matrices",
        "columns = list(zip(*right))",
        "columns = list(right)",
        "questions.sides",
    ),
    "required_dimension: two logarithms": questions(
        "lowrank",
        "logarithm = math.log(2 * union / delta)",
        "logarithm = math.log(2 * union / delta) ** 2",
        "questions.rank-order",
    ),
    "feed_forward: sign of the bias": escaping(
        "_blocks", "hidden + mlp.b_1", "hidden - mlp.b_1", "escaping.clip"
    ),
    "feed_forward: scale": escaping(
        "_blocks",
        "y = y @ mlp.w_2",
        "y = 2 * y @ mlp.w_2",
        "escaping.mlp",
    ),
    "layer_norm: axis": escaping(
        "_blocks",
        ("F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)"),
        ("F.layer_norm(x, x.shape[-2:], norm.gain, norm.bias, norm.eps)"),
        "escaping.norm-side",
    ),
    "layer_norm: features": escaping(
        "_blocks",
        "F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)",
        "F.layer_norm(x.mT, x.mT.shape[-1:], eps=norm.eps).mT",
        "escaping.norm-side",
    ),
    "layer_norm: eps": escaping(
        "_blocks",
        ("F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)"),
        ("F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, 2 * norm.eps)"),
        "escaping.norm-centre",
    ),
    "around: order of the norm": escaping(
        "_blocks",
        "return y if norm_first else normed(y, norm)",
        "return normed(y, norm) if norm_first else y",
        "escaping.norm-centre",
    ),
    "around: sign of the skip": escaping(
        "_blocks",
        "x + y if skip else y",
        "x - 2 * y if skip else y",
        "escaping.skip",
    ),
    "attention_matrix: side of the mask": escaping(
        "attention",
        "a.masked_fill(~mask, -math.inf)",
        "a.mT.masked_fill(~mask, -math.inf)",
        "escaping.causal",
    ),
    "certificate: half of a row's distance": escaping(
        "theorems/escaping_collapse",
        ("torch.cdist(attention, attention, p=1).amax((-2, -1)) / 2"),
        "torch.cdist(attention, attention, p=1).amax((-2, -1))",
        "collapse.relative",
    ),
    "certificate: where the mean leans": escaping(
        "theorems/escaping_collapse",
        "(mean_row - 1 / attention.shape[-1])",
        "(mean_row - mean_row.mean() / 2)",
        "collapse.relative",
    ),
    "certificate: the largest head alone": escaping(
        "theorems/escaping_collapse",
        "one_by_one = float((value_norms(layer) * factors).sum())",
        "one_by_one = float(value_norms(layer).max() * factors.norm())",
        "collapse.relative",
    ),
    "certificate: side of the sink": escaping(
        "theorems/escaping_collapse",
        "side = above if float(along[0, 0]) >= 0 else below",
        "side = below if float(along[0, 0]) >= 0 else above",
        "escaping.sink",
    ),
    "attention_matrix: columns that sum to one": escaping(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(a, -2)",
        "escaping.silent",
    ),
    "attention_matrix: a thin mask": escaping(
        "attention",
        "a.masked_fill(~mask, -math.inf)",
        "a.masked_fill(~mask, -1)",
        "escaping.uniform",
    ),
    "around: heads speak twice": escaping(
        "_blocks",
        "x + y if skip else y",
        "x + 2 * y if skip else y",
        "escaping.depth",
    ),
    "layer_norm: half of eps": escaping(
        "_blocks",
        ("F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)"),
        ("F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps / 2)"),
        "escaping.norm",
    ),
    "projection: scale of Gaussian entries": jl(
        "lowrank",
        "return normal / math.sqrt(k)",
        "return normal / k",
        "jl.norm-law",
    ),
    "projection: scale of signs": jl(
        "lowrank",
        "return _signs((k, n), g) / math.sqrt(k)",
        "return _signs((k, n), g) / math.sqrt(2 * k)",
        "jl.signs",
    ),
    "projection: scale of Achlioptas": jl(
        "lowrank",
        "math.sqrt(3 / k)",
        "math.sqrt(2 / k)",
        "jl.families",
        page=False,
    ),
    "projection: signs of sparse columns": jl(
        "lowrank",
        "_signs((s, n), g) / math.sqrt(s)",
        "_signs((s, n), g).abs() / math.sqrt(s)",
        "jl.families",
        page=False,
    ),
    "projection: axis of sparse columns": jl(
        "lowrank",
        "places.argsort(0)[:s]",
        "places.argsort(1)[:s].clamp(max=k - 1)",
        "jl.countsketch",
    ),
    "projection: signs of srht": jl(
        "lowrank",
        "signs * _sylvester(rows, columns)",
        "_sylvester(rows, columns)",
        "jl.families",
    ),
    "_sylvester: sign": jl(
        "lowrank",
        "2.0 * (common & 1).double()",
        "1.0 * (common & 1).double()",
        "jl.families",
    ),
    "hadamard: sign": jl(
        "lowrank",
        "[left + right, left - right]",
        "[left + right, right - left]",
        "jl.families",
    ),
    "_failures: upper tail": jl(
        "lowrank",
        "torch.special.gammaincc(a, a * (1 + eps))",
        "torch.special.gammaincc(a, a * (1 + 2 * eps))",
        "jl.norm-law",
    ),
    "_failures: sign": jl(
        "lowrank",
        "return upper + lower",
        "return upper - lower",
        "jl.norm-law",
    ),
    "failure_bound: half of the rate is lost": jl(
        "lowrank",
        "(eps - math.log1p(eps)) / 2",
        "(eps - math.log1p(eps))",
        "jl.tail",
    ),
    "failure_bound: a rate that is a hundredth too small": jl(
        "lowrank",
        "(eps - math.log1p(eps)) / 2",
        "(eps - math.log1p(eps)) / 2.02",
        "jl.tail",
    ),
    "failure_bound: sign of the cube": jl(
        "lowrank",
        "(eps**2 - eps**3) / 4",
        "(eps**2 + eps**3) / 4",
        "jl.tail",
    ),
    "required_dimension: no union": jl(
        "lowrank",
        "math.log(2 * union / delta)",
        "math.log(2 / delta)",
        "jl.floor",
    ),
    "required_dimension: no union in the exact law": jl(
        "lowrank",
        "union * _failures(block, eps) > delta",
        "_failures(block, eps) > delta",
        "jl.floor",
    ),
    "jl_surrogate: scale": jl(
        "lowrank",
        "return (p @ r.mT) @ r\n",
        "return 2 * (p @ r.mT) @ r\n",
        "jl.worse-than-zero",
    ),
    "jl_surrogate: sign with values": jl(
        "lowrank",
        "return p @ (r.mT @ (r @ v))",
        "return -p @ (r.mT @ (r @ v))",
        "jl.mean-square",
    ),
    "projection: the first tokens": jl(
        "lowrank",
        "return normal / math.sqrt(k)",
        "return torch.eye(k, n, dtype=normal.dtype)",
        "jl.root",
    ),
    "projection: one row for all": jl(
        "lowrank",
        "return normal / math.sqrt(k)",
        "return normal[:1].repeat(k, 1) / math.sqrt(k)",
        "jl.rank",
    ),
    "jl_surrogate: values as they are": jl(
        "lowrank", "return p @ (r.mT @ (r @ v))", "return p @ v", "jl.relative"
    ),
    "jl_surrogate: nothing is projected": jl(
        "lowrank",
        "r = projection(k, n, family, generator=generator).to(p)",
        "r = torch.eye(n, dtype=p.dtype)",
        "jl.rank-one",
    ),
    "jl_surrogate: scale with values": jl(
        "lowrank",
        "return p @ (r.mT @ (r @ v))",
        "return p @ (r.mT @ (2 * r @ v))",
        "jl.normalised",
    ),
    "svd_surrogate: a rank too many": jl(
        "lowrank",
        "(columns @ vh[..., :k, :]).to(p.dtype)",
        "(p @ vh.mT[..., : k + 1] @ vh[..., : k + 1, :]).to(p.dtype)",
        "jl.uniform",
    ),
    "attention_matrix: sums of columns": jl(
        "_normalizers",
        "torch.softmax(a, -1)",
        "torch.softmax(a, -2)",
        "jl.normaliser",
    ),
    "length_bounds: sign": efficacy(
        "(s * v for v in e)",
        "(-s * v for v in e)",
        "efficacy.weight",
    ),
    "length_bounds: one head": efficacy(
        "(p_norms * w_norms).sum",
        "(p_norms * w_norms).amin",
        "efficacy.weight",
    ),
    "length_bounds: Frobenius norms of W": efficacy(
        "torch.linalg.matrix_norm(layer.w_v @ layer.w_o, 2)",
        "torch.linalg.matrix_norm(layer.w_v @ layer.w_o)",
        "efficacy.weight",
    ),
    "length_bounds: Frobenius norms of P": efficacy(
        "torch.linalg.matrix_norm(p, 2)",
        "torch.linalg.matrix_norm(p)",
        "efficacy.weight",
    ),
    "logit_parts: sign of the bias": efficacy(
        "sums.bias @ reader.readout + reader.bias",
        "sums.bias @ reader.readout - reader.bias",
        "efficacy.margins",
    ),
    "logits: no skip": efficacy(
        "y = forward(_embedded(reader, u), reader.layers, skip=True)",
        "y = forward(_embedded(reader, u), reader.layers, skip=False)",
        "efficacy.margins",
    ),
    "restrict: a layer too many": Mutation(
        "paths",
        (
            "for layer, h in zip(layers, path):\n"
            "    if h is None:\n"
            "        continue\n"
            "    weights = layer._asdict()\n"
            "    for name, w in weights.items():\n"
            "        if w is not None and name != 'b_o':\n"
            "            weights[name] = w[h:h + 1]\n"
            "    kept.append(Layer(**weights))"
        ),
        (
            "for layer, h in zip(layers, path):\n"
            "    if h is None:\n"
            "        continue\n"
            "    weights = layer._asdict()\n"
            "    for name, w in weights.items():\n"
            "        if w is not None and name != 'b_o':\n"
            "            weights[name] = w[h:h + 1]\n"
            "    kept += [Layer(**weights), layer]"
        ),
        "efficacy.first-order",
        True,
        "path_efficacy",
    ),
    "restrict: without b_q": Mutation(
        "paths",
        "kept.append(Layer(**weights))",
        "kept.append(Layer(**weights | {'b_q': None}))",
        "efficacy.first-order",
        True,
        "path_efficacy",
    ),
    "path_term: a scale": Mutation(
        "paths",
        "    return _term(x, layers, path, attention)",
        "    return 2 * _term(x, layers, path, attention)",
        "efficacy.first-order",
        True,
        "path_efficacy",
    ),
    "path_counts: heads of a layer": Mutation(
        "paths",
        "[h * count for count in counts]",
        "[(h + 1) * count for count in counts]",
        "efficacy.lengths",
        True,
        "path_efficacy",
    ),
    "certify.rank: the first row alone": questions(
        "certify/matrices",
        (
            "for row in exact(matrix):\n"
            "    rows.append([QQ(entry.numerator, entry.denominator) "
            "for entry in row])"
        ),
        (
            "for row in exact(matrix)[:1]:\n"
            "    rows.append([QQ(entry.numerator, entry.denominator) "
            "for entry in row])"
        ),
        "questions.low-rank",
    ),
    "bit_product: the last table alone": patterns(
        "_bits",
        "out |= table[a[:, byte]]",
        "out = table[a[:, byte]]",
        "patterns.checker",
    ),
    "hops: steps backwards": patterns(
        "conditions",
        "period = bit_product(step, period)",
        "period = bit_product(period, step)",
        "patterns.fixed",
    ),
    "hops: one layer less": patterns(
        "conditions",
        "return s, heard",
        "return s - 1, heard",
        "patterns.strided",
    ),
    "Window: a ring without the token itself": patterns(
        "parts",
        "torch.arange(-self.left, self.right + 1, device=k.device)",
        "torch.arange(-self.left, self.right, device=k.device)",
        "patterns.fewest",
    ),
    "Rows: axis": patterns(
        "parts",
        "return _among(self.tokens, n, k)",
        "return _among(self.tokens, n, j)",
        "patterns.star",
    ),
    "is_path: axis": patterns(
        "hamilton",
        "pattern.reads(step, reader, read)",
        "pattern.reads(step, read, reader)",
        "patterns.checker",
    ),
    "exact: ends of a window": patterns(
        "exact",
        "left * (left + 1) // 2",
        "left * left // 2",
        "patterns.window",
    ),
    "hops: too few squares": patterns(
        "conditions",
        "(n - 1) ** 2 + 1",
        "n",
        "patterns.checker",
    ),
    "exact: pairs of global tokens": patterns(
        "exact",
        "2 * g * (n - 1 - h) - g * (g - 1)",
        "2 * g * (n - 1 - h) + g * (g - 1)",
        "patterns.longformer",
        page=False,
    ),
    "hops: the skip": patterns(
        "conditions",
        "mask | _eye(pattern.n) if skip else mask",
        "mask",
        "patterns.universal",
    ),
    "reach: heard from two": patterns(
        "conditions",
        "heard = at_hand.float() @ heard.float() > 0",
        "heard = at_hand.float() @ heard.float() > 1",
        "patterns.universal",
    ),
    "crossing: the readers' own side": patterns(
        "conditions",
        "(read & ~B)",
        "(read & B)",
        "patterns.cut",
    ),
    "check: self-loops of the first step alone": patterns(
        "conditions",
        (
            "for step in range(pattern.p):\n"
            "    missing = (~pattern.reads(step, i, i)).nonzero()\n"
            "    if len(missing):\n"
            "        return (int(missing[0]), step)"
        ),
        (
            "for step in range(1):\n"
            "    missing = (~pattern.reads(step, i, i)).nonzero()\n"
            "    if len(missing):\n"
            "        return (int(missing[0]), step)"
        ),
        "patterns.checker",
        page=False,
    ),
    "random: one draw for all": patterns(
        "families",
        "torch.randperm(n, generator=generator, device=device)",
        ("torch.randperm(n, generator=generator.manual_seed(1), device=device)"),
        "patterns.random",
    ),
    "hops: the last layer of a period": patterns(
        "conditions",
        "(periods + 1) * pattern.p",
        "(periods + 1) * pattern.p - 1",
        "patterns.hops",
    ),
    "causal: the future stays": patterns(
        "families",
        "replace(step, causal=True)",
        "replace(step, causal=False)",
        "patterns.causal",
    ),
    "_centred: dilation": patterns(
        "families",
        "Window(w // 2, w // 2, dilation)",
        "Window(w // 2, w // 2)",
        "patterns.classes",
    ),
    "dilation_cycle: back alone": patterns(
        "families",
        "Window(1, 1, distance)",
        "Window(1, 0, distance)",
        "patterns.dilation-cycle",
    ),
    "logsparse: both signs": patterns(
        "families",
        "Window(1, int(both), far)",
        "Window(1, 1, far)",
        "patterns.logsparse",
    ),
    "Blocks: readers alone are moved": patterns(
        "parts",
        "read = (j + self.shift) // self.size",
        "read = j // self.size",
        "patterns.shifted-blocks",
    ),
    "blockwise: the token itself": patterns(
        "families",
        "[[Window(0, 0), Blocks(b, turn=q)] for q in turns]",
        "[Blocks(b, turn=q) for q in turns]",
        "patterns.blockwise",
    ),
    "star: never bare": patterns(
        "families",
        "reach = int(local)",
        "reach = 1",
        "patterns.bare-star",
    ),
    "_attention_matrix: what is hidden is read": averages(
        "a = a.masked_fill(~mask, -math.inf)",
        "a = a.masked_fill(~mask, 0.0)",
        "patterns.continuous",
    ),
    "_softmax: scale": tiles(
        "kernel",
        "_flash(q, k, v, attn_mask=mask, scale=1.0)",
        "_flash(q, k, v, attn_mask=mask, scale=2.0)",
        "sparse.exact",
    ),
    "_merge_: sign": tiles(
        "kernel",
        "l - _finite(total)",
        "lse - _finite(total)",
        "sparse.merge",
    ),
    "_merge_: maximum for the sum": tiles(
        "kernel",
        "torch.logaddexp(lse, l)",
        "torch.maximum(lse, l)",
        "sparse.merge",
    ),
    "attend: weight of nothing": tiles(
        "kernel",
        "lse = lse.masked_fill(nothing, -math.inf)",
        "lse = lse + 0",
        "sparse.merge",
        page=False,
    ),
    "_masks: overlaps twice": tiles(
        "tiles",
        "mask &= ~other.reads(n, k, j)",
        "mask &= mask",
        "sparse.merge",
    ),
    "_masks: the key before": tiles(
        "tiles",
        "j = keys[start : start + size, None]",
        "j = keys[start : start + size, None] - 1",
        "sparse.exact",
    ),
    "Side.of: step of a residue class": tiles(
        "tiles",
        "(batch, hop * row, step * row, number)",
        "(batch, hop * row, row, number)",
        "sparse.exact",
    ),
    "gradients: sign of the part of lse": tiles(
        "kernel",
        "dots - g_lse[..., None]",
        "dots + g_lse[..., None]",
        "sparse.gradient",
        page=False,
    ),
    "_add_tiles: sign of the drift": tiles(
        "kernel",
        "torch.baddbmm(-drift, g, v.mT)",
        "torch.baddbmm(drift, g, v.mT)",
        "sparse.gradient",
        page=False,
    ),
    "_add_tiles: base of the logits": tiles(
        "kernel",
        "(s * LOG2E).exp2()",
        "s.exp2()",
        "sparse.gradient",
        page=False,
    ),
    "_dots: scale": tiles(
        "kernel",
        "torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0)",
        ("torch.sparse.sampled_addmm(zero, x, y.mT, beta=0.0, alpha=2.0)"),
        "sparse.merge",
        page=False,
    ),
    "attend_pairs: sum for the weighted mean": tiles(
        "kernel",
        "sums / divisor[:, None]",
        "sums",
        "sparse.merge",
        page=False,
    ),
    "entries_of: rows for columns": tiles(
        "tiles",
        "Entries(crow, rows, columns, crow_t, rows[turn], turn)",
        "Entries(crow, rows, rows, crow_t, rows[turn], turn)",
        "sparse.merge",
        page=False,
    ),
    "_add_pairs: sign of the drift": tiles(
        "kernel",
        "_dots(entries, g, v) - drift_i",
        "_dots(entries, g, v) + drift_i",
        "sparse.gradient",
        page=False,
    ),
    "_add_tiles: overlapping tiles": tiles(
        "kernel",
        "dk.index_add_(0, read, (ds.mT @ q).flatten(0, 1))",
        "dk.index_copy_(0, read, (ds.mT @ q).flatten(0, 1))",
        "sparse.gradient",
        page=False,
    ),
    "_last_rows: the row before": tiles(
        "tiles",
        "step.reads(n, i[:, None], j)",
        "step.reads(n, i[:, None] - 1, j)",
        "sparse.exact",
        page=False,
    ),
    "lsh_attention: sign of the correction": efficient(
        "hashing", "logits - N.log()", "logits + N.log()", "efficient.union"
    ),
    "lsh_attention: rounds by their mean": efficient(
        "hashing", "(share_of_round * out).sum(0)", "out.mean(0)", "efficient.union"
    ),
    "lsh_attention: keys not of length one": efficient(
        "hashing", "F.normalize(qk, dim=-1)", "qk", "efficient.union"
    ),
    "lsh_attention: chunks across buckets": efficient(
        "hashing",
        "seat = _seats(ids, chunk, causal)",
        "seat = _seats(ids, chunk, False)",
        "efficient.causal",
    ),
    "lsh_sets: within": efficient(
        "hashing",
        ("if not within:\n    sorts_before = sorts_before | (bucket_j < bucket_i)"),
        ("if True:\n    sorts_before = sorts_before | (bucket_j < bucket_i)"),
        "efficient.leak",
    ),
    "lsh_sets: alone in one round": efficient(
        "hashing",
        "~others.any(-1, keepdim=True).any(0)",
        "~others.any(-1, keepdim=True)",
        "efficient.union",
    ),
    "lsh_buckets: one factor more": efficient(
        "hashing",
        "(rounds, *one_for_all, d, b // 2)",
        "(rounds, *one_for_all, d, b)",
        "efficient.hash",
    ),
    "lsh_sets: a token always sees itself": efficient(
        "hashing",
        "itself = (i == j) & (attend_self | lonely)",
        "itself = i == j",
        "efficient.rounds",
    ),
    "strided: half of the reach": room("complexity_table")(
        "patterns/families",
        "near = Window(reach, reach)",
        "near = Window(reach // 2, reach)",
        "efficient.two-hops",
    ),
    "reach: layers in the other order": room("complexity_table")(
        "patterns/conditions",
        "heard = at_hand.float() @ heard.float() > 0",
        "heard = heard.float() @ at_hand.float() > 0",
        "efficient.order",
    ),
    "positive_features: half": efficient(
        "features",
        "x.square().sum(-1, keepdim=True) / 2",
        "x.square().sum(-1, keepdim=True)",
        "efficient.performer",
    ),
    "_causal_sums: own chunk not masked": efficient(
        "features",
        "(phi_q @ phi_k.mT).tril()",
        "(phi_q @ phi_k.mT)",
        "efficient.causal",
    ),
    "_causal_sums: the past one chunk late": efficient(
        "features",
        "past = _before(sums)",
        "past = sums",
        "efficient.causal",
    ),
    "linear_step: the sum starts anew": efficient(
        "features",
        "state + _outer(F.elu(k) + 1, v)",
        "_outer(F.elu(k) + 1, v)",
        "efficient.state",
    ),
    "flops: a factor": efficient(
        "table", "lambda k: 2 * each * k", "lambda k: each * k", "efficient.flops"
    ),
    "flops: a gated row meets one key": efficient(
        "table",
        "each * (m + d)",
        "each * (1 + d)",
        "efficient.newer",
    ),
    "flops: steps of an inverse": efficient(
        "table", "8 * iterations", "4 * iterations", "efficient.newer"
    ),
    "decoding: no column of ones": efficient(
        "table",
        "width * written",
        "width * d",
        "efficient.state",
    ),
    "gated_linear_step: the gate on the new token": efficient(
        "recurrent",
        "state = gate[..., None, None] * state + _outer(k, v)",
        "state = state + gate[..., None, None] * _outer(k, v)",
        "efficient.state",
        page=False,
    ),
    "delta_attention: all of the error": efficient(
        "recurrent",
        "meets = beta * (k @ k.mT * decay)",
        "meets = k @ k.mT * decay",
        "efficient.state",
        page=False,
    ),
    "delta_step: nothing is taken out": efficient(
        "recurrent",
        "off = v - _read(state, k)",
        "off = v",
        "efficient.state",
        page=False,
    ),
    "selective_scan: what came before is lost": efficient(
        "recurrent",
        "torch.stack(inside, -2) + carried",
        "torch.stack(inside, -2)",
        "efficient.state",
        page=False,
    ),
    "traffic: keys outside": efficient(
        "traffic", "math.ceil(n / rows)", "math.ceil(n / columns)", "efficient.io"
    ),
    "tiled_attention: the sum does not shrink": efficient(
        "traffic",
        "shrink * mass + p.sum(-1, keepdim=True)",
        "mass + p.sum(-1, keepdim=True)",
        "efficient.io",
    ),
    "gqa_as_mla: heads in another order": efficient(
        "latent",
        "torch.arange(heads, device=down.device) * g // heads",
        "torch.arange(heads, device=down.device) % g",
        "efficient.latent",
    ),
    "gqa_error: what is kept": efficient(
        "latent", "sigma[d:]", "sigma[:d]", "efficient.latent"
    ),
    "Code.x: no root": expressive(
        "verification",
        "(self.scale * math.sqrt(d))",
        "self.scale",
        "expressive.layout",
    ),
    "Code.w_k: the upper block": expressive(
        "verification",
        "return self.w_q.flip(0).flip(1)",
        "return self.w_q",
        "expressive.layout",
    ),
    "interpolate: no Gram matrix": expressive(
        "redraw",
        "combination = torch.cholesky_solve(values, factor)",
        "combination = values",
        "expressive.interpolated",
    ),
    "_draw: sign of the plain queries": expressive(
        "fitting",
        "return _sums(k, columns, y), k, 1.0",
        "return _sums(-k, columns, y), k, 1.0",
        "expressive.plain",
    ),
    "fit: sign of the weights": expressive(
        "fitting",
        "log_weights.to(dtype) + s",
        "s - log_weights.to(dtype)",
        "expressive.interpolated",
    ),
    "fit: half of the level": expressive(
        "fitting",
        "2 * wanted + float(log_weights.max())",
        "1.01 * wanted + float(log_weights.max())",
        "expressive.interpolated",
    ),
    "_zeros: axis": expressive(
        "verification",
        "torch.maximum(top, logits.amax(1))",
        "torch.maximum(top, logits.amin(1))",
        "expressive.tiles",
    ),
    "_zeros: axis of integers": expressive(
        "verification",
        "torch.maximum(top, products.amax(1))",
        "torch.maximum(top, products.amin(1))",
        "expressive.tiles",
    ),
    "_zeros: the pattern is not set aside": expressive(
        "verification",
        "logits[row, c[row, at] - start] = -math.inf",
        "pass",
        "expressive.tiles",
    ),
    "_zeros: base of the exponential": expressive(
        "verification",
        "q = q * (scale * math.log2(math.e))",
        "q = q * scale",
        "expressive.tiles",
    ),
    "_zeros: tiles overwrite the sum": expressive(
        "verification",
        "mass += logits.exp2_().sum(1)",
        "mass = logits.exp2_().sum(1)",
        "expressive.tiles",
    ),
    "_read: sign of the gap": expressive(
        "verification",
        "[above - below, least - top, odds]",
        "[above - below, top - least, odds]",
        "expressive.tiles",
    ),
    "cap: one dimension more": expressive(
        "dimensions",
        ("mpmath.betainc((d - 1) / 2, 0.5, 0, square_sine, regularized=True)"),
        ("mpmath.betainc(d / 2, 0.5, 0, square_sine, regularized=True)"),
        "expressive.expected",
    ),
    "expected_leak: scale": expressive(
        "dimensions",
        "mpmath.hyp0f1(d / 2, s * s / 4)",
        "mpmath.hyp0f1(d / 2, s * s / 2)",
        "expressive.leak",
    ),
    "predicted_dimension: pairs": expressive(
        "dimensions",
        "pairs = pairs / 2",
        "pairs = n",
        "expressive.smallest",
    ),
    "verify: odds against the largest entry": expressive(
        "verification",
        "odds = mass / weights.masked_fill(padding, 0).sum(1)",
        "odds = mass / weights.masked_fill(padding, 0).amax(1)",
        "expressive.criteria",
    ),
    "_sums: the last key alone": expressive(
        "fitting",
        "total = total + k[c] * factor[:, None]",
        "total = k[c] * factor[:, None]",
        "expressive.noise",
    ),
    "attention_matrix: side of a causal mask": Mutation(
        "attention",
        "a.masked_fill(~mask, -math.inf)",
        "a.masked_fill(~mask.mT, -math.inf)",
        "expressive.masks",
        True,
        "logarithmic_dimension",
    ),
    "attention_matrix: scale of a code": Mutation(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.shape[-1]",
        "expressive.rank",
        True,
        "logarithmic_dimension",
    ),
    "plain_dimension: sign": expressive(
        "dimensions",
        "rate = eta**2 / 4 - eta**3 / 6",
        "rate = 4 * eta + eta**2",
        "expressive.plain",
    ),
    "interpolated_lines: one entry a row": expressive(
        "dimensions",
        "8 * math.log(n ** 2 / DELTA)",
        "0.8 * math.log(n ** 2 / DELTA)",
        "expressive.interpolated",
    ),
    "interpolated_lines: 8 in place of 16": expressive(
        "dimensions",
        "16 * k * math.log(2 * n ** 2 / DELTA)",
        "8 * k * math.log(2 * n ** 2 / DELTA)",
        "expressive.interpolated",
    ),
    "interpolated_lines: 4 in place of 8": expressive(
        "dimensions",
        "8 * (k - 1) ** 2",
        "4 * (k - 1) ** 2",
        "expressive.interpolated",
    ),
    "universal.head: side of the mask": universal(
        "context",
        "read = ids[..., mask[j]]",
        "read = ids[..., mask[:, j] & (np.arange(len(mask)) >= j)]",
        "universal.sweep",
    ),
    "universal.head: sign of the query": universal(
        "context",
        "own >= value",
        "own < value",
        "universal.shift",
    ),
    "ramp_mlp: the last knot": ramps_of_blocks(
        "knots = read.new_tensor([low - ramp, low, high - ramp, high])",
        "knots = read.new_tensor([low - ramp, low, high - ramp, high + ramp])",
        "patterns.class",
        page=False,
    ),
    "_lift_mlp: no row is lifted": universal(
        "standard",
        "u.new_tensor([-ident, -ident - 1])",
        "u.new_tensor([-ident, -ident])",
        "universal.equivariant-lp",
        page=False,
    ),
    "_outside_mlp: side": universal(
        "standard",
        "right = (constant - cells) / ramp",
        "right = (cells - constant) / ramp",
        "universal.equivariant-lp",
        page=False,
    ),
    "universal.apply: sign of the second head": universal(
        "context",
        "move - _head(ids, mask, shift.value + 1)",
        "move + _head(ids, mask, shift.value + 1)",
        "universal.shift",
    ),
    "universal.contextual_map: position codes": universal(
        "context",
        "codes[token] = i - 1 if i else n - 1",
        "codes[token] = 0 if i else n - 1",
        "universal.sweep",
    ),
    "universal.contextual_map: the largest id": universal(
        "context",
        "top = size * top - (size - 1) * i * base",
        "top = size * top - size * i * base",
        "universal.sweep",
    ),
    "universal.least_constant: too small": universal(
        "context",
        ("hops * top + bisect_left(range(hops), True, lo=1, key=enough)"),
        ("hops * top // 20 + bisect_left(range(hops), True, lo=1, key=enough)"),
        "universal.context",
    ),
    "universal.schedule: a value too few": universal(
        "context",
        "low + mapping.size",
        "low + mapping.size - 1",
        "universal.layers",
    ),
    "universal.schedule: one step for all-max": universal(
        "context",
        ("Shift(t % mapping.period, 0, mapping.constant, every=True)"),
        "Shift(0, 0, mapping.constant, every=True)",
        "universal.context",
    ),
    "universal.decode: modulus": universal(
        "context",
        "x[token] = low + (y - low) % mapping.size",
        "x[token] = low + (y - low + 1) % mapping.size",
        "universal.residues",
    ),
    "equivariant_map: the largest id": universal(
        "context",
        "rows = [*range(min(n, size) - 1), size - 1]",
        "rows = [*range(min(n, size) - 1), size - 2]",
        "universal.equivariant",
    ),
    "equivariant_map: the factor": universal(
        "context",
        "top = x + size * (top - x)",
        "top = x + (top - x)",
        "universal.equivariant",
    ),
    "universal.schedule: no sweep without positions": universal(
        "context",
        "yield 0, [True]",
        "yield 0, [False]",
        "universal.equivariant-lp",
    ),
    "universal.decode: all-max layers": universal(
        "context",
        "mapping.constant * _head(ids, mask, 0)",
        "mapping.size * _head(ids, mask, 0)",
        "universal.residues",
    ),
    "approximate: corner, not centre": universal(
        "network",
        "(_digits(own, mapping) + 0.5) / mapping.cells",
        "_digits(own, mapping) / mapping.cells",
        "universal.network",
    ),
    "approximate: no gap": universal(
        "network", "constant *= 2", "break", "universal.values", page=False
    ),
    "approximate_equivariant: a clamp too low": universal(
        "network",
        "np.clip(left / p.cells, -largest, largest)",
        "np.clip(left / p.cells, -2 * largest, 2 * largest)",
        "universal.equivariant-lp",
    ),
    "_cells: half of x": universal(
        "network",
        "x.double().contiguous",
        "(x / 2).double().contiguous",
        "universal.network",
    ),
    "_head: each token hears all": universal(
        "context", "read = ids[..., mask[j]]", "read = ids", "universal.hears-lp"
    ),
    "_assembled: the target at a corner": universal(
        "network",
        "(_digits(own, mapping) + 0.5) / mapping.cells",
        "_digits(own, mapping) / mapping.cells",
        "universal.linear",
    ),
    "forward: a mask the other way round": Mutation(
        "attention",
        "a.masked_fill(~mask, -math.inf)",
        "a.masked_fill(~mask.mT, -math.inf)",
        "universal.hears",
        True,
        "the_proof_executed",
    ),
    "forward: a head that counts has no skip": Mutation(
        "_blocks",
        "y = x + y if skip else y",
        "y = y",
        "universal.counting",
        True,
        "the_proof_executed",
    ),
    "run: the quantiser": universal(
        "network",
        "np.where(inside, t, 0)",
        "np.where(inside, 2 * t, 0)",
        "universal.quantise",
    ),
    "ramp_mlp: sign of the last slope": softened(
        "-(slope * (high - ramp) + offset)",
        "slope * (high - ramp) + offset",
        "universal.ramps",
    ),
    "ramp_mlp: scale": softened(
        "-(slope * (high - ramp) + offset) / ramp",
        "-(slope * high + offset) / ramp",
        "universal.ramps",
    ),
    "attention_matrix: no bias of the query": Mutation(
        "attention",
        "q = _project(source, w_q, b_q)",
        "q = _project(source, w_q, None)",
        "universal.prompt",
        True,
        "from_integers_to_softmax",
    ),
    "attention_matrix: no inverse temperature": Mutation(
        "attention",
        "a = (q * scale) @ k.mT",
        "a = q @ k.mT",
        "universal.leak",
        True,
        "from_integers_to_softmax",
    ),
    "standard: a value layer for two ids": softened(
        "cuts = (ident - 0.5, ident + 0.5)",
        "cuts = (ident - 1.5, ident + 0.5)",
        "universal.order",
    ),
    "standard: bias of the query": softened(
        "[[-low], [-high]]",
        "[[-low], [-low]]",
        "universal.temperature",
    ),
    "standard: clamp": softened(
        "Mlp(w_1=both, w_2=-both.T, b_1=bias)",
        "Mlp(w_1=both, w_2=both.T, b_1=bias)",
        "universal.lp",
    ),
    "standard: clamps at twice the bound": softened(
        "_clamp_mlp(axis, bound)",
        "_clamp_mlp(axis, 2 * bound)",
        "universal.lp",
    ),
    "standard: the row it replaces": softened(
        "p.cells * target.to(u) - u.new_tensor(row)",
        "p.cells * target.to(u) + u.new_tensor(row)",
        "universal.lp",
    ),
    "enough_scale: far too low": softened(
        "return 32 / 9 * math.log(inside)",
        "return 0.1 * math.log(inside)",
        "universal.temperature",
    ),
    "enough_scale, as it is printed: half": softened(
        "return 32 / 9 * math.log(inside)",
        "return 16 / 9 * math.log(inside)",
        "",  # a third is enough here: the page notices
    ),
    "context_ids: sign": ids(
        "ids",
        "logits = beta * part[:, None] * seen\n",
        "logits = -beta * part[:, None] * seen\n",
        "ids.gap",
    ),
    "context_ids: weights of other tokens": ids(
        "ids",
        "contexts.append((p * seen).sum(-1))",
        "contexts.append((p * seen.flip(-1)).sum(-1))",
        "ids.gap",
    ),
    "context_ids: the query": ids(
        "ids",
        "logits = beta * part[:, None] * seen\n",
        "logits = beta * part[:, None].abs() ** 0.5 * seen\n",
        "ids.gap",
    ),
    "rank_one_layer: scale": ids(
        "ids",
        (
            "Layer(w_q=math.copysign(root, beta) * column, w_k=root "
            "* column, w_v=column, w_o=w * column.mT)"
        ),
        (
            "Layer(w_q=math.copysign(root, beta) * column, w_k=root "
            "* column, w_v=column, w_o=2 * w * column.mT)"
        ),
        "ids.gap",
    ),
    "rank_one_layer: sign": ids(
        "ids",
        "math.copysign(root, beta)",
        "root",
        "ids.gap",
        page=False,
    ),
    "smallest_gap: one group": ids(
        "ids",
        "np.diff(group[order]) != 0",
        "np.diff(group[order]) < 0",
        "ids.positions",
    ),
    "threshold: power": ids(
        "direction",
        "math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2",
        "math.sqrt(8 / (math.pi * d)) / (count + 1)",
        "ids.projection",
    ),
    "choose_projection: takes the first": ids(
        "direction",
        "least = threshold(count, d)",
        "least = 0.0",
        "ids.projection",
    ),
    "_min_ratio: without zero": ids(
        "direction",
        "torch.cat([points, points.new_zeros(1, points.shape[1])])",
        "torch.cat([points, points[:1] + 9])",
        "ids.projection",
        page=False,
    ),
    "data_scale: reach": ids(
        "direction",
        "beta * m * (s - g)",
        "beta * m * (s - g) / 2",
        "ids.gap",
    ),
    "data_scale: a hundred times too little": ids(
        "direction",
        "0.9 * g * (n - 1)",
        "0.009 * g * (n - 1)",
        "ids.gap",
    ),
    "data_scale: multisets": ids(
        "direction",
        "0.9 * g * (1 / (n - 1))",
        "0.9 * g / (1 / (n - 1))",
        "ids.multisets",
    ),
    "data_scale: the nearest": ids(
        "direction",
        ("needed_gap(n, kind='multiset' if multisets else 'distinct') / (g * c)"),
        ("needed_gap(n, kind='multiset' if multisets else 'distinct') / (g * m)"),
        "ids.gap",
    ),
    "paper_scale: power": ids(
        "direction",
        "2 * beta * r_max ** 2",
        "0.2 * beta * r_max ** 2",
        "ids.recalled",
    ),
    "threshold: a half more": ids(
        "direction",
        "math.sqrt(8 / (math.pi * d)) / (count + 1) ** 2",
        "math.sqrt(16 / (math.pi * d)) / (count + 1) ** 2",
        "ids.projection",
        page=False,
    ),
    "telling_tokens: letters of the next word": ids(
        "counts",
        "return words[:-1].gather(-1, first).unique()",
        "return words[1:].gather(-1, first).unique()",
        "ids.counts",
        page=False,
    ),
    "telling_tokens: the first letter": ids(
        "counts",
        "first = differ.int().argmax(-1, keepdim=True)",
        "first = 0 * differ.int().argmax(-1, keepdim=True)",
        "ids.counts",
    ),
    "sum_of_integers: sums of other sequences": ids(
        "counts",
        "return (integers.long()[place] * found).sum(-1)",
        "return (integers.long()[place] * found).sum(-1).flip(0)",
        "ids.root",
    ),
    "count_ids: integers too small": ids(
        "counts",
        "size = multisets**2",
        "size = multisets**3",
        "ids.counts",
    ),
    "fit_counts: bits that are not compared": ids(
        "counts",
        "integer_of.setdefault(first + 1, 0)",
        "integer_of.setdefault(first, 0)",
        "ids.root",
        page=False,
    ),
    "_from_the_end: sign of the logits": told(
        "mpmath.exp(-beta * abs(float(query)) * away)",
        "mpmath.exp(beta * abs(float(query)) * away)",
        "ids.sharp",
    ),
    "mean: sums in place of products": told(
        "products.add(math.prod(company))",
        "products.add(sum(company))",
        "ids.mean",
    ),
    "kept: the token alone": told(
        "ids.token + ids.context",
        "ids.token",
        "ids.kept",
    ),
    "birthday: a distance on one side": told(
        "bound = N**2 / 2 * (2 * t) ** H",
        "bound = N**2 / 2 * t**H",
        "ids.birthday",
    ),
    "heads: half the exponent": told(
        "abs(exponent(gaps) + 2 / law)",
        "abs(exponent(gaps) + 1 / law)",
        "ids.heads",
    ),
    "room_for: a factor n": told(
        ("delta * (1 - sigma) * math.exp(-sigma) / (n * comparisons)"),
        "delta * (1 - sigma) * math.exp(-sigma) * n / comparisons",
        "ids.typical",
    ),
    "boltzmann: sign of the logits": boltzmann(
        "memorize/averages",
        "mean = (wide * wide.softmax(-1)).sum(-1)",
        "mean = (wide * (-wide).softmax(-1)).sum(-1)",
        "boltzmann.operator",
    ),
    "boltzmann: axis of the weights": boltzmann(
        "memorize/averages",
        "mean = (wide * wide.softmax(-1)).sum(-1)",
        "mean = (wide * wide.softmax(0)).sum(-1)",
        "boltzmann.operator",
    ),
    "derivatives: scale": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "p * (1 - (1 - 2 * p) * below)",
        "p * (1 - (1 - p) * below)",
        "boltzmann.regions",
    ),
    "derivatives: sign": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "slope = -p * below",
        "slope = p * below",
        "boltzmann.regions",
    ),
    "log_separation_bound: sign": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "return bound + delta + math.log(n - 1)",
        "return bound + delta - math.log(n - 1)",
        "",  # a weaker bound is true: the page notices
    ),
    "log_separation_bound: too much": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "return bound + delta + math.log(n - 1)",
        "return bound + delta + math.log(n)",
        "boltzmann.lemma",
    ),
    "log_separation_bound of multisets: too little": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "return bound - math.log(n - 1)",
        "return bound - 2 * math.log(n - 1)",
        "",  # a weaker bound is true: the page notices
    ),
    "log_separation_bound of multisets: sign": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "return bound - math.log(n - 1)",
        "return bound + math.log(n - 1)",
        "boltzmann.multisets",
    ),
    "needed_gap: a half": boltzmann(
        "memorize/averages",
        "return factor * math.log(n) + 3",
        "return factor * math.log(n) / 9",
        "boltzmann.lemma",
    ),
    "context_terms: sign": boltzmann(
        "certify/boltzmann",
        "c - d + w * (x - y)",
        "c - d + w * (x + y)",
        "boltzmann.gap",
    ),
    "context_terms: query": boltzmann(
        "certify/boltzmann",
        "power = c * x + d * y",
        "power = c * x + c * y",
        "boltzmann.repeated",
    ),
    "context_gap: scale": boltzmann(
        "certify/boltzmann",
        "iv.exp(_ball(top - low - high))",
        "iv.exp(_ball(top - low))",
        "boltzmann.gap",
    ),
    "hardmax_layer: ties": boltzmann(
        "certify/boltzmann",
        "Fraction(sum(column), count)",
        "Fraction(column[1 % count])",
        "boltzmann.before",
    ),
    "hardmax: ties": boltzmann(
        "_normalizers",
        "return top / top.sum(-1, keepdim=True)",
        "return top * (top.cumsum(-1) == 2) + top * (top.sum(-1, keepdim=True) == 1)",
        "boltzmann.hardmax",
    ),
    "boltzmann: the largest logit": boltzmann(
        "memorize/averages",
        "mean = (wide * wide.softmax(-1)).sum(-1)",
        "mean = wide.amax(-1)",
        "boltzmann.typical",
    ),
    "boltzmann_gap: twice the scale": boltzmann(
        "certify/boltzmann",
        "context_gap((1, a), (1, b), beta=scale, bits=bits)",
        "context_gap((1, a), (1, b), beta=2 * scale, bits=bits)",
        "boltzmann.near-miss",
    ),
    "context_gap: equal means": boltzmann(
        "certify/boltzmann",
        "(s == 0 and sum(terms.values()) == 0)",
        "sum(terms.values()) == 0",
        "boltzmann.exact",
    ),
    "context_terms: exponents without tokens": boltzmann(
        "certify/boltzmann",
        "power = c * x + d * y",
        "power = c + d",
        "boltzmann.ids",
    ),
    "weight_difference: sign": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "((1, first), (-1, second))",
        "((1, first), (1, second))",
        "boltzmann.any-temperature",
    ),
    "value_averages: weights of another query": boltzmann(
        "theorems/boltzmann_and_hardmax",
        "Layer(beta * key, key, value, value.mT)",
        "Layer(-beta * key, key, value, value.mT)",
        "boltzmann.any-temperature",
    ),
    "fit_line: place of the knots": memorizer(
        "line",
        "knots = ids - theta * steps",
        "knots = ids - theta / 2 * steps",
        "memorize.exact-labels",
    ),
    "fit_line: sign of the recursion": memorizer(
        "line",
        "(secant - (1 - theta) * slope)",
        "(secant + (1 - theta) * slope)",
        "memorize.knots",
    ),
    "relu_layer: both sides": memorizer(
        "line",
        "(part - line.knots).relu()",
        "(part - line.knots).abs()",
        "memorize.exact-labels",
    ),
    "interpolate: from the farther id": memorizer(
        "line",
        ("labels[near] + (share * labels[right] - share * labels[left])"),
        ("labels[left] + (share * labels[right] - share * labels[left])"),
        "memorize.exact-labels",
        page=False,
    ),
    "count_parameters: a factor": memorizer(
        "line",
        "attention + 2 * width * d",
        "attention + width * d",
        "memorize.block",
        page=False,
    ),
    "report: bits too many": memorizer(
        "memorizer",
        "1 + math.ceil(math.log2(largest / p.gap))",
        "10 + math.ceil(math.log2(largest / p.gap))",
        "",  # of a report, and no claim: the page notices
    ),
    "evaluate: sign of the context": memorizer(
        "line",
        "z - token[i] + w * (f - context[i])",
        "z - token[i] - w * (f - context[i])",
        "memorize.block",
    ),
    "find_items: order in place of multiset": memorizer(
        "_items", "_group(tokens.sort(1).values)", "_group(tokens)", "memorize.block"
    ),
    "dense_block: the skip stays": memorizer(
        "dense",
        (
            "Dense(net.layer, w_1=columns.clone(), b_1=-line.knots, "
            "w_2=pad(line.coefficients, (0, d - c)), "
            "b_2=torch.zeros_like(net.v), undo=-eye)"
        ),
        (
            "Dense(net.layer, w_1=columns.clone(), b_1=-line.knots, "
            "w_2=pad(line.coefficients, (0, d - c)), "
            "b_2=torch.zeros_like(net.v), undo=0 * eye)"
        ),
        "memorize.block",
    ),
    "four_units: a unit too much": memorizer(
        "dense",
        "[1 / eta, -1 / eta, -1 / eta, 1 / eta]",
        "[1 / eta, -1 / eta, -1 / eta, 2 / eta]",
        "memorize.grouped",
    ),
    "deal: ids of a token in one group": memorizer(
        "dense",
        "torch.arange(count, device=points.device) % groups",
        "torch.arange(count, device=points.device) * groups // count",
        "memorize.grouped",
    ),
    "fit_deep: length of a block": memorizer(
        "deep",
        "6 * len(ids) / K",
        "54 * len(ids) / K",
        "memorize.deep",
    ),
    "_read: the bit is not taken off": memorizer(
        "deep",
        "code = _add(code, bit, -size)",
        "code = _add(code, bit, size)",
        "memorize.deep",
    ),
    "width: units without a bend more": memorized(
        "sum(map(len, exact)) + 1",
        "sum(map(len, exact)) - 1",
        "memorize.width",
    ),
    "dimension: no constant behind the units": memorized(
        "sum(hidden) * (d + 1) + 1",
        "sum(hidden) * (d + 1) - 1",
        "memorize.dimension",
    ),
    "labelings: a value too many": memorized(
        "product(range(values), repeat=W)",
        "product(range(values + 1), repeat=W)",
        "memorize.bits",
    ),
    "hardmax: the least logit": reviewers(
        "_normalizers",
        "largest = a.amax(-1, keepdim=True)",
        "largest = a.amin(-1, keepdim=True)",
        "memorize.furthest",
    ),
    "memorize: ids are pairs": reviewers(
        "memorize/memorizer",
        (
            "MemorizerReport(pairs=pairs, ids=width, "
            "vocabulary=len(p.tokens), beta=p.beta, w=w, gap=p.gap, "
            "bits=max(bits, 1), "
            "dtype_bits=round(-math.log2(torch.finfo(p.v.dtype).eps)), "
            "parameters=count_parameters(width, d, labels=c, "
            "shared=True))"
        ),
        (
            "MemorizerReport(pairs=pairs, ids=pairs, "
            "vocabulary=len(p.tokens), beta=p.beta, w=w, gap=p.gap, "
            "bits=max(bits, 1), "
            "dtype_bits=round(-math.log2(torch.finfo(p.v.dtype).eps)), "
            "parameters=count_parameters(width, d, labels=c, "
            "shared=True))"
        ),
        "memorize.universal",
    ),
    "Memorizer: labels are moved": reviewers(
        "memorize/memorizer",
        "y = y.round().to(self.labels.dtype)",
        "y = (y + 1).round().to(self.labels.dtype)",
        "memorize.trained",
    ),
    "receptive_fields: axis": copying(
        "(reads.float() @ field.float())",
        "(reads.mT.float() @ field.float())",
        "copying.relay",
    ),
    "receptive_fields: no skip": copying(
        "field = field | relayed",
        "field = relayed",
        "copying.fields",
        page=False,
    ),
    "receptive_fields: the other order": copying(
        (
            "for mask in masks:\n"
            "    reads = mask if mask.dim() == 2 else mask.any(0)\n"
            "    relayed = reads.float() @ field.float() > 0\n"
            "    field = field | relayed\n"
            "    fields.append(field)"
        ),
        (
            "for mask in list(masks)[::-1]:\n"
            "    reads = mask if mask.dim() == 2 else mask.any(0)\n"
            "    relayed = reads.float() @ field.float() > 0\n"
            "    field = field | relayed\n"
            "    fields.append(field)"
        ),
        "copying.fields",
        page=False,
    ),
    "reached: one token further": copying(
        "return sources + n // 2 - 1, sources",
        "return sources + n // 2 - 2, sources",
        "copying.distances",
    ),
    "bound: sign": copying(
        "return share + (1 - share) / symbols",
        "return share - (1 - share) / symbols",
        "copying.reach",
    ),
    "divergence: sign": copying(
        "return term(u, p) + term(1 - u, 1 - p)",
        "return term(u, p) - term(1 - u, 1 - p)",
        "copying.sample",
    ),
    "ceiling: scale": copying(
        "math.log(1 / failure) / samples",
        "math.log(1 / failure) / samples / 4",
        "copying.sample",
    ),
    "missing_bits: a symbol too many": copying(
        "error * math.log2(symbols - 1)",
        "error * math.log2(symbols)",
        "copying.cut",
    ),
    "cut_bound: the first layer carries states": copying(
        "crossed[0] * math.log2(symbols) + sum(crossed[1:]) * bits",
        "sum(crossed) * bits",
        "copying.cut",
    ),
    "best_accuracy: it sees what the next token sees": copying(
        "field[queries]",
        "field[queries + 1]",
        "copying.reach",
    ),
    "plan: each layer one step for multihead": mixers(
        "scheme == 'multihead'",
        "False",
        "copying.schemes",
        page=False,
    ),
    "dobrushin: scale": bridges(
        "torch.stack(largest) / 2", "torch.stack(largest)", "synthesis.logits"
    ),
    "dobrushin: columns": bridges(
        "pdist(one, 1)",
        "pdist(one.mT, 1)",
        "synthesis.logits",
        page=False,
    ),
    "attention of a tile: scale": tile_kernel(
        "attention",
        "1 / math.sqrt(w_q.shape[-1])",
        "1 / w_q.shape[-1]",
        "after.tile",
    ),
    "_attend of a tile: order of the heads": tile_kernel(
        "attention",
        "heads.transpose(-3, -2).flatten(-2)",
        "heads.flip(-3).transpose(-3, -2).flatten(-2)",
        "after.tile",
        page=False,
    ),
    "messages: scale": tile(
        "math.sqrt(layer.w_q.shape[-1])", "layer.w_q.shape[-1]", "after.tile"
    ),
    "_merge: share": tile(
        "torch.sigmoid(lambda_a - lambda_b)",
        "torch.sigmoid(lambda_b - lambda_a)",
        "after.two-layers",
    ),
    "_merge: no share": tile(
        "return share * o_a + (1 - share) * o_b", "return o_a + o_b", "after.exact"
    ),
    "exact: the output counts for nothing": tile(
        "worth = len(readout) * math.log2(6 * len(others) * widest)",
        "worth = (len(readout) - 1) * math.log2(6 * len(others) * widest)",
        "after.exact",
    ),
    "_in_bits: a bit too many": tile(
        "(x.amax(dim=1, keepdim=True) - low) / (2 ** bits - 1)",
        "(x.amax(dim=1, keepdim=True) - low) / (4 ** bits - 1)",
        "after.lookup",
    ),
    "position_codes: a sign less": tile(
        "(count - 1).bit_length()", "(count - 1).bit_length() - 1", "after.two-layers"
    ),
    "messages: every token whole": tile(
        "o = torch.softmax(logits, dim=-1) @ values",
        "o = torch.softmax(logits, dim=-2) @ values",
        "after.reached",
    ),
    "look_up_layers: inverse temperature": tile(
        "beta_1 = math.log(8 * T) / 2",
        "beta_1 = math.log(8 * T) / 20",
        "after.two-layers",
    ),
    "look_up_tokens: the token after": tile(
        "codes.roll(1, dims=0)", "codes.roll(-1, dims=0)", "after.two-layers"
    ),
    "bits_asked: columns": tile(
        "[tuple((f(a, b) for b in others)) for a in tiles]",
        "[tuple((f(a, b) for a in tiles)) for b in others]",
        "after.tasks",
    ),
    "entropy: base": tile(
        "-x * math.log2(x)",
        "-x * math.log(x)",
        "",  # less than half of what the theorem allows: the page notices
    ),
    "entropy: sign": tile("-x * math.log2(x)", "x * math.log2(x)", "after.nearly"),
    "state_floor: sign": cache(
        "bridges",
        "floor = (2 * e - 1).clamp_min(0) / steps",
        "floor = (2 * e + 1).clamp_min(0) / steps",
        "after.cache",
    ),
    "state_floor: steps": cache(
        "bridges",
        "steps = 2 ** int(bits) - 1",
        "steps = 2 ** int(bits)",
        "after.questions",
    ),
    "state_floor: axis": cache(
        "bridges",
        "widened(p.amax(-2)).sort",
        "widened(p.amax(-1)).sort",
        "after.cache",
        page=False,
    ),
    "copying: nearly right": cache(
        "theorems/cache",
        "right = number == texts",
        "right = number <= texts",
        "after.copying",
        page=False,
    ),
    "clustered: a count for its logarithm": cache(
        "theorems/cache",
        "logits = logits + count.log()",
        "logits = logits + count",
        "after.clusters",
    ),
    "state_floor: half": cache(
        "bridges",
        "floor = (2 * e - 1).clamp_min(0) / steps",
        "floor = (e - 0.5).clamp_min(0) / steps",
        "after.questions",
    ),
    "rank_floor: a second rank": bridges(
        "(sums - r) / (j + r)", "(sums - r) / (j + 2 * r)", "synthesis.blocks"
    ),
    "dobrushin: the mean of all pairs": bridges(
        "pdist(one, 1).amax()",
        "pdist(one, 1).mean()",
        "synthesis.depth",
    ),
    "radius: the largest logit alone": bridges(
        "lengths = logits.amax(-1) - logits.amin(-1)",
        "lengths = logits.amax(-1)",
        "synthesis.sharp-forgets",
    ),
    "attention_matrix: a masked logit is zero": partial(
        room("five_theorems_one_matrix"), "attention"
    )("a.masked_fill(~mask, -math.inf)", "a.masked_fill(~mask, 0)", "synthesis.hops"),
    "rank_floor: sign": bridges(
        "2 * e[..., r[:, 0]] - 1", "2 * e[..., r[:, 0]] + 1", "synthesis.rank"
    ),
    "rank_floor: axis": bridges(
        "widened(p.amax(-2)).sort",
        "widened(p.amax(-1)).sort",
        "synthesis.rank",
        page=False,
    ),
    "rank_floor: denominator": bridges(
        "(sums - r) / (j + r)", "(sums - r) / (j - r)", "synthesis.rank", page=False
    ),
    "largest_dobrushin: sign": bridges(
        "1 + u * u + 2 * c * u", "1 + u * u + 2 * c", "synthesis.logits"
    ),
    "largest_dobrushin: scale": bridges(
        "math.exp(-2 * r)", "math.exp(-r)", "synthesis.logits"
    ),
    "needed_radius: scale": bridges(
        "math.log((1 - leak) * (n - 1) / leak) / 2",
        "math.log((1 - leak) * (n - 1) / leak) / 3",
        "synthesis.memory",
        page=False,
    ),
    "needed_bits: off by one": bridges(
        "integer_nthroot(points - 1, d)",
        "integer_nthroot(points, d)",
        "synthesis.counting",
    ),
    "cluster_logits: clusters read only themselves": bridges(
        "own.repeat_interleave(c, 0)",
        "own.repeat_interleave(c, 0) & False",
        "synthesis.many",
    ),
    "cluster_logits: scale": bridges(
        "r * (2 * reads.double() - 1)",
        "r * (reads.double() - 1)",
        "synthesis.many",
    ),
    "attention_matrix: a scale of its own": hops(
        "attention", "a = (q * scale) @ k.mT", "a = (q / 8) @ k.mT", "after.hops"
    ),
    "ladder: the digit before": hops(
        "theorems/layers_or_steps",
        "(k - 1) >> layer & 1",
        "k >> layer & 1",
        "after.hops",
    ),
    "ladder: the pointer asks for itself": hops(
        "theorems/layers_or_steps",
        "twice = (POINTER, OWN, POINTER, POINTER)",
        "twice = (OWN, OWN, POINTER, POINTER)",
        "after.powers",
    ),
    "margin: scale": hops(
        "theorems/layers_or_steps",
        "return float(1 - products.max())",
        "return 6 * float(1 - products.max())",
        "after.steps",
        page=False,
    ),
    "walk: the keys are the pointers": hops(
        "theorems/layers_or_steps",
        "torch.softmax(beta * written @ names.mT, dim=-1) @ pointed",
        "torch.softmax(beta * written @ pointed.mT, dim=-1) @ pointed",
        "after.steps",
    ),
    "messages: nothing is rounded": hops(
        "theorems/layers_or_steps",
        "((numbers_sent - low) / span * (2 ** bits - 1)).round()",
        "(numbers_sent - low) / span * (2 ** bits - 1)",
        "after.third-hop",
    ),
    "wrong_at_least: grouped by what was filled in": hops(
        "theorems/layers_or_steps",
        "torch.unique(sent, dim=0, return_inverse=True)",
        "torch.unique(contents, dim=0, return_inverse=True)",
        "after.third-hop",
    ),
    "look_up_layer: values for keys": hops(
        "theorems/layers_or_steps",
        "keys.append(places[:, key])",
        "keys.append(places[:, value])",
        "after.back",
    ),
    "furthest: who meets, not what is held": hops(
        "theorems/layers_or_steps",
        "holds = (meet.float() @ holds.float()) > 0",
        "holds = (meet.float() @ meet.float()) > 0",
        "after.names",
    ),
    "critical_beta: counted from one": sharp(
        "torch.arange(rising.shape[-1], 1, -1, device=rising.device)",
        "torch.arange(rising.shape[-1] - 1, 0, -1, device=rising.device)",
        "after.sharpness",
    ),
    "critical_beta: the first gap alone": sharp(
        "return torch.cat([none, needed], -1).amax(-1)",
        "return torch.cat([none, needed], -1)[..., [0, -1]].amax(-1)",
        "after.sharpness",
    ),
    "critical_beta: scale": sharp(
        "j.to(gaps.dtype).log() / gaps",
        "j.to(gaps.dtype).log2() / gaps",
        "after.two-thirds after.gaussian",
    ),
    "dobrushin: twice": sharp(
        "(torch.stack(largest) / 2)",
        "torch.stack(largest)",
        "after.angles",
    ),
    "critical_beta: gaps to the mean": sharp(
        "gaps = top - rising[..., :-1]",
        "gaps = (top - rising[..., :-1]).sqrt()",
        "after.spheres",
    ),
    "mix: the filter looks ahead": mixers(
        "F.pad(x.mT, _sides(self.mixing))",
        "F.pad(x.mT, _sides(self.mixing)[::-1])",
        "copying.fields",
        page=False,
    ),
    "mix: the matrix is not masked": mixers(
        "(self.between * self.mask) @ x",
        "self.between @ x",
        "copying.fields",
        page=False,
    ),
    "causal_pattern: half of the window": copying(
        "patterns.strided(n, w, reach=w - 1)",
        "patterns.strided(n, w)",
        "copying.distances",
    ),
    "copy_targets: the token itself": copying(
        "x[:, half + 1 :]", "x[:, half : -1]", "copying.reach"
    ),
}


PARTS = ("data", "theorems")  # of attnbook; all else is a room of attnlib


def file_of(kernel: str) -> Path:
    """Where a kernel stands."""
    part = kernel.split("/")[0] in PARTS
    return ROOT / ("book/attnbook" if part else "attnlib") / f"{kernel}.py"


def module_of(kernel: str) -> str:
    """The module of a kernel, as it is imported."""
    parts = file_of(kernel).relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "book")


def answers(target, *args):
    """What a process of its own sends, one after the other."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(*args, there), daemon=True)
    process.start()
    there.close()
    try:
        while True:
            assert here.poll(SECONDS), f"no answer within {SECONDS} s"
            yield here.recv()
    except EOFError:
        process.join()
        ended = f"the process ended with {process.exitcode}; its traceback stands above"
        assert process.exitcode == 0, ended
    finally:
        process.terminate()
        process.join()


def functions(code: CodeType) -> dict[str, CodeType]:
    """The functions in a piece of code, by their names with dots."""
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= {inner.co_qualname: inner} | functions(inner)
    return found


def bare(code: CodeType) -> tuple:
    """What a piece of code does, without its line numbers."""
    consts = [bare(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, *consts


ALIVE: list[FunctionType] = []  # of attnlib, in this process


def settle() -> None:
    """Note the functions that have been made, and hide what is here from the collector:
    what it looks through, each fork would have to copy.
    """
    made = [thing for thing in gc.get_objects() if type(thing) is FunctionType]
    ours = (f"{ROOT}/attnlib/", f"{ROOT}/book/attnbook/")
    ALIVE.extend(f for f in made if f.__code__.co_filename.startswith(ours))
    gc.freeze()  # what is frozen is not among the objects next time


class Fault(NamedTuple):
    """Where a mutation is: the file, and by name the code that it puts there."""

    file: str
    codes: dict[str, CodeType]

    def put(self) -> None:
        """Break the functions of this process, as it was when it settled."""
        done = 0
        for function in ALIVE:
            code = function.__code__
            if code.co_filename == self.file and code.co_qualname in self.codes:
                function.__code__ = self.codes[code.co_qualname]
                done += 1
        assert done, f"no function of {self.file} could be broken"


def fault(mutation: Mutation) -> Fault:
    room = file_of(mutation.kernel)
    text = room.read_text(encoding="utf-8")
    codes = text, replaced(text, mutation.old, mutation.new)
    whole, new = (compile(c, str(room), "exec", dont_inherit=True) for c in codes)
    before, after = functions(whole), functions(new)
    changed = [n for n in before.keys() & after if bare(before[n]) != bare(after[n])]
    assert changed, f"{mutation.old!r} is in no function"
    return Fault(str(room), {name: after[name] for name in changed})


MET: set[tuple[str, str]] = set()  # files and functions that were called


class Notes(ast.NodeTransformer):
    """Puts a note that it was called into each function of a file that is wanted."""

    def __init__(self, file: str, wanted: set[str]) -> None:
        self.file, self.wanted, self.above = file, wanted, []

    def visit_ClassDef(self, node):
        return self.below(node, node.name)

    def visit_FunctionDef(self, node):
        name = ".".join([*self.above, node.name])
        if name in self.wanted:
            call = f"__import__('faults').MET.add({(self.file, name)!r})"
            node.body[:0] = ast.parse(call).body
        return self.below(node, node.name, "<locals>")

    def below(self, node, *names):
        self.above += names
        self.generic_visit(node)
        del self.above[-len(names) :]
        return node


def watch(faults: Iterable[Fault]) -> None:
    """From now on what these faults would break notes in MET that it is called."""
    wanted = {}
    for one in faults:
        wanted.setdefault(one.file, set()).update(one.codes)
    for file, names in wanted.items():
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        noted = ast.fix_missing_locations(Notes(file, names).visit(tree))
        codes = functions(compile(noted, file, "exec", dont_inherit=True))
        Fault(file, {name: codes[name] for name in names if name in codes}).put()


def in_a_process(here: Fault, name: str, ask: Callable[[], object], pipe) -> None:
    """Into the pipe: the name of a fault, and what `ask` says where it is put, or how
    that fails, which is no answer. A process of its own is broken, as claims and pages
    keep what they have computed.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        here.put()
        said = ask()
    except BaseException as error:
        said = (repr(error)[:200],)
    try:
        pipe.send((name, said))
    finally:
        os._exit(0)
