"""A small good call of each public function of attnlib, by room: what test_fuzz.py
breaks, one argument at a time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from attnbook.data import conll, mixers
from attnlib import (
    attention,
    copying,
    efficacy,
    expressive,
    memorize,
    patterns,
    universal,
)
from attnlib.audit import tiny

SEED = object()  # stands for a torch.Generator, fresh in every call


class Several(tuple):
    """The values of an argument *values."""

    def __add__(self, more):
        return Several((*self, *more))

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return Several(found) if isinstance(key, slice) else found


Rows = dict[str, dict[str, Any]]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def normal(*size) -> torch.Tensor:
    return torch.randn(*size, generator=generator(), dtype=torch.float64)


def positive(*size) -> torch.Tensor:
    return 0.1 + torch.rand(*size, generator=generator(), dtype=torch.float64)


TRIANGLE = torch.ones(5, 5, dtype=torch.bool).tril()
KEPT = torch.tensor([True, True, True, True, False])
COLUMNS = torch.tensor([[0, 1], [1, 2], [2, 0]])


def network_of_two():
    """Tokens, layers with biases, and what else a network may have."""
    x = normal(5, 4)
    layers = attention.random_layers(
        2, 2, 4, 3, dtype=torch.float64, generator=generator(), bias=True
    )
    mlp = attention.Mlp(normal(4, 6), normal(6, 4), normal(6), normal(4))
    norm = attention.Norm(positive(4), normal(4))
    return x, layers, mlp, norm


def attention_rows() -> Rows:
    x, layers, mlp, norm = network_of_two()
    first = layers[0]
    weighting = {"scale": 0.5, "mask": TRIANGLE, "normalizer": "softmax"}
    parts = {"mlps": [mlp, mlp], "norms": [(norm, norm), (norm, norm)]}
    sizes = {"L": 2, "h": 2, "d": 4, "d_qk": 3, "d_v": 2, "gain": 1.0}
    made = {"dtype": torch.float64, "device": "cpu", "generator": SEED}
    queries = {"w_q": first.w_q, "w_k": first.w_k, "b_q": first.b_q, "b_k": first.b_k}
    return {
        "attention.attention_matrix": {"x": x, **queries, **weighting},
        "attention.check_network": {"x": x, "layers": layers},
        "attention.feed_forward": {"x": x, "mlp": mlp},
        "attention.forward": {"x": x, "layers": layers, **parts, **weighting},
        "attention.from_torch": {
            "module": torch.nn.MultiheadAttention(4, 2, batch_first=True)
        },
        "attention.hardmax": {"a": x},
        "attention.layer_norm": {"x": x, "norm": norm},
        "attention.merged": {"layer": first},
        "attention.random_layers": {**sizes, **made},
    }


def patterns_rows() -> Rows:
    star = patterns.star(5)
    lists = patterns.families.from_sets([{0}, {0, 1}])
    rows = {
        "bigbird": {"n": 8, "w": 3, "g": 1, "r": 1, "generator": SEED},
        "block_diagonal": {"n": 8, "b": 2},
        "blockwise": {"n": 8, "b": 2},
        "causal": {"pattern": star},
        "dense": {"n": 5},
        "dilation_cycle": {"n": 8},
        "directed_cycle": {"n": 5},
        "fixed": {"n": 8, "w": 2},
        "from_masks": {"masks": Several([TRIANGLE])},
        "from_sets": {"steps": Several([[{0}, {0, 1}]])},
        "logsparse": {"n": 8},
        "longformer": {"n": 8, "w": 3, "g": 1},
        "one_step": {"pattern": lists},
        "random": {"n": 8, "r": 2, "generator": SEED},
        "shifted_blocks": {"n": 8, "b": 2},
        "star": {"n": 5},
        "strided": {"n": 8, "w": 2, "reach": 2},
        "union": {"patterns": Several([star, star])},
        "window": {"n": 8, "w": 3, "dilation": 2},
    }
    families = {f"patterns.families.{name}": row for name, row in rows.items()}
    part = patterns.Window(1, 1)
    return families | {
        "patterns.conditions.check": {"pattern": star, "moves": 100},
        "patterns.conditions.crossing": {"pattern": star, "inside": [0, 1]},
        "patterns.conditions.hops": {"pattern": star},
        "patterns.conditions.reach": {"pattern": star, "layers": 2},
        "patterns.exact.exact": {"family": "longformer", "n": 9, "w": 3, "g": 1},
        "patterns.hamilton.is_path": {"pattern": star, "path": [1, 0, 2, 3, 4]},
        "patterns.parts.Blocks": {"size": 2, "shift": 1, "turn": 1},
        "patterns.parts.Columns": {"tokens": (0, 2)},
        "patterns.parts.Pattern": {"n": 5, "steps": star.steps},
        "patterns.parts.Rows": {"tokens": (0, 2)},
        "patterns.parts.Step": {"parts": (part,)},
        "patterns.parts.Strided": {"stride": 2},
        "patterns.parts.Window": {"left": 1, "right": 1, "dilation": 2},
        "patterns.parts.build": {"n": 5, "steps": Several([part])},
        "patterns.families.from_rule": {"n": 5, "rule": near},
    }


def near(i, j):
    """A rule for patterns.from_rule."""
    return (i - j).abs() <= 1


def sparse_rows() -> Rows:
    q, k, v = normal(5, 4), normal(5, 4) + 1, normal(5, 3)
    heads = {"q": q, "k": k, "v": v}
    star = patterns.star(5)
    return {
        "sparse.sparse_attention": {
            **heads,
            "pattern": star,
            "step": 0,
            "scale": 0.5,
        },
        "sparse.masked_attention": {**heads, "mask": TRIANGLE, "scale": 0.5},
    }


def paths_rows() -> Rows:
    x, layers, _, _ = network_of_two()
    _, maps = attention.forward(x, layers, return_attention=True)
    network = {"x": x, "layers": layers}
    given = {**network, "attention": maps}
    masked = {**network, "mask": TRIANGLE}
    return {
        "paths.path_counts": {"heads": [2, 3]},
        "paths.path_norms": {**masked, "signs": 3, "generator": SEED},
        "paths.path_sums": masked,
        "paths.path_term": {**given, "path": (0, 1)},
        "paths.path_terms": given,
        "paths.restrict": {"layers": layers, "path": (0, 1)},
    }


def collapse_rows() -> Rows:
    x, layers, _, _ = network_of_two()
    network = {"x": x, "layers": layers}
    return {
        "collapse.composite_norm": {"x": x},
        "collapse.diameter": {"x": x},
        "collapse.log_bound": network,
        "collapse.log_diameter_bound": network,
        "collapse.log_residuals": {**network, "size": "diameter"},
        "collapse.residual": {"x": x},
    }


def efficacy_rows() -> Rows:
    x, layers, _, _ = network_of_two()
    _, maps = attention.forward(x, layers, skip=True, return_attention=True)
    given = {"x": x, "layers": layers, "attention": maps}
    sizes = {"f": 3, "c": 2, "L": 1, "h": 2, "d": 4, "n": 6, "gain": 0.5}
    made = {"dtype": torch.float64, "device": "cpu", "generator": SEED}
    read, labels = words_to_read()
    task = {"count": 3, "n": 4, "letters": 5, "generator": SEED}
    return {
        "efficacy.accuracy": {"scores": normal(5, 6, 2), "labels": labels},
        "efficacy.length_bounds": given,
        "efficacy.logit_parts": read,
        "efficacy.logits": read,
        "efficacy.random_reader": {**sizes, **made},
        "efficacy.sorting": task,
    }


def words_to_read():
    """A Reader with its features, and their labels."""
    reader = efficacy.random_reader(
        3, 2, L=1, h=2, d=4, n=6, generator=generator(), dtype=torch.float64
    )
    labels = torch.tensor([[0, 1, 0, 1, 0, 1]] * 5)
    return {"reader": reader, "u": normal(5, 6, 3)}, labels


def lowrank_rows() -> Rows:
    p = normal(5, 5).softmax(-1)
    heads = {"q": normal(5, 4), "k": normal(5, 4) + 1, "v": normal(5, 3)}
    maps = {"e": normal(2, 5), "f": normal(2, 5) + 1}
    drawn = {"generator": SEED}
    v = normal(5, 3)
    return {
        "lowrank.effective_rank": {
            "sigma": positive(5).sort(descending=True).values,
            "share": 0.9,
            "power": 2,
        },
        "lowrank.failure_bound": {"k": 4, "eps": 0.5},
        "lowrank.failure_probability": {"k": 4, "eps": 0.5},
        "lowrank.jl_surrogate": {"p": p, "k": 3, "v": v, "family": "gaussian", **drawn},
        "lowrank.linformer_attention": {
            **heads,
            **maps,
            "scale": 0.5,
            "token_mask": KEPT,
        },
        "lowrank.nystrom_attention": {
            **heads,
            "landmarks": 5,
            "iterations": 2,
        },
        "lowrank.projection": {"k": 2, "n": 8, "family": "sparse", "s": 1, **drawn},
        "lowrank.required_dimension": {"eps": 0.5, "delta": 0.1, "union": 3},
        "lowrank.sampled_product": {"p": p, "v": v, "k": 3, **drawn},
        "lowrank.srht": {"x": normal(3, 8), "k": 3, **drawn},
        "lowrank.svd_surrogate": {"p": p, "k": 2},
    }


def efficient_rows() -> Rows:
    heads = {"q": normal(4, 4), "k": normal(4, 4) + 1, "v": normal(4, 3)}
    token_mask = torch.tensor([True, True, True, False])
    chunked = {"chunk": 2, "token_mask": token_mask}
    ids = torch.tensor([[0, 1, 0, 1]])
    hashed = {"buckets": 4, "rounds": 2, "generator": SEED}
    qk = normal(4, 4)
    one = {"q": normal(4), "k": normal(4) + 1, "v": normal(3)}
    number = positive(4) / 2
    per_head = normal(2, 4, 4)
    scanned = {"x": qk, "a": normal(4, 4, 4).tanh(), "b": qk + 1, "c": qk + 2}
    return {
        "efficient.table.decoding": {"row": "gqa", "n": 8, "d": 2, "groups": 1},
        "efficient.features.linear_attention": {**heads, **chunked},
        "efficient.features.linear_step": {**one, "state": normal(4, 4) + 5},
        "efficient.features.performer_attention": {
            **heads,
            **chunked,
            "features": 3,
            "generator": SEED,
        },
        "efficient.features.positive_features": {"x": qk, "w": normal(3, 4)},
        "efficient.hashing.lsh_attention": {
            "qk": qk,
            "v": normal(4, 3),
            **hashed,
            **chunked,
        },
        "efficient.hashing.lsh_buckets": {"qk": qk, **hashed},
        "efficient.hashing.lsh_sets": {"ids": ids, "chunk": 2},
        "efficient.latent.gqa_as_mla": {
            "w_k": per_head,
            "w_v": per_head + 1,
            "heads": 4,
        },
        "efficient.latent.gqa_error": {"forms": per_head, "groups": 1, "d": 2},
        "efficient.recurrent.delta_attention": {
            **heads,
            "beta": number,
            "gate": number,
            "chunk": 2,
        },
        "efficient.recurrent.delta_step": {
            **one,
            "beta": number[0],
            "gate": number[1],
            "state": normal(4, 3),
        },
        "efficient.recurrent.gated_linear_attention": {
            **heads,
            "gate": number,
            "chunk": 2,
        },
        "efficient.recurrent.gated_linear_step": {
            **one,
            "gate": number[0],
            "state": normal(4, 3),
        },
        "efficient.recurrent.selective_scan": {**scanned, "chunk": 2},
        "efficient.recurrent.selective_step": {
            "x": normal(4),
            "a": qk,
            "b": normal(4),
            "c": normal(4),
            "state": qk,
        },
        "efficient.table.depth": {"row": "gated", "n": 8, "m": 2},
        "efficient.table.flops": {"row": "strided", "n": 8, "d": 2, "l": 2},
        "efficient.traffic.naive_attention": heads,
        "efficient.traffic.tiled_attention": {**heads, "rows": 2, "columns": 3},
        "efficient.traffic.traffic": {
            "row": "fused",
            "n": 8,
            "d": 2,
            "rows": 2,
            "columns": 3,
        },
    }


def expressive_rows() -> Rows:
    keys = torch.eye(3, 5, dtype=torch.float64) + normal(3, 5) / 9
    weights = normal(3, 2)
    wanted = {"columns": COLUMNS, "eps1": 0.1, "eps2": 0.5}
    drawn = {"restarts": 2, "generator": SEED}
    how = {"d": 3, "method": "interpolated", "s": 5.0, "keys": "sphere"}
    code = expressive.fit(COLUMNS, d=3, eps1=0.1, eps2=0.5, generator=generator())
    sizes = {"n": 9, "k": 2}
    return {
        "expressive.dimensions.cap": {"theta": 1.0, "d": 4},
        "expressive.dimensions.expected_leak": {"n": 9, "d": 4, "s": 3.0},
        "expressive.dimensions.interpolated_dimension": {**sizes, "keys": "signs"},
        "expressive.dimensions.interpolated_lines": {**sizes, "keys": "signs"},
        "expressive.dimensions.plain_dimension": {
            **sizes,
            "gamma": 2.0,
            "eps1": 0.1,
            "eps2": 0.5,
        },
        "expressive.dimensions.predicted_dimension": {**sizes, "eps1": 0.1, "s": 5.0},
        "expressive.fitting.fit": {
            **wanted,
            "log_weights": weights,
            **drawn,
            **how,
            "dtype": torch.float64,
        },
        "expressive.redraw.interpolate": {"k": keys, "columns": COLUMNS, "y": weights},
        "expressive.verification.verify": {
            "code": code,
            "columns": COLUMNS,
            "log_weights": 0 * weights,
            "tile": (2, 2),
        },
    }


def codes_rows() -> Rows:
    eye = torch.eye(3, dtype=torch.float64)
    columns = torch.tensor([[0], [1], [2]])
    return {
        "codes.code_from": {"q": eye, "k": eye},
        "codes.coherence": {"keys": eye},
        "codes.counting_dimension": {"n": 9, "k": 3},
        "codes.exact.line_order": {"rows": [{0}, {0, 1}], "n": 3},
        "codes.exact.radon": {"points": [[0], [1], [2]]},
        "codes.margins": {"q": eye, "k": eye, "columns": columns},
        "codes.moment_keys": {"n": 5, "k": 2},
        "codes.moment_queries": {
            "columns": COLUMNS,
            "log_weights": normal(3, 2),
            "n": 7,
            "gap": 1.0,
        },
        "codes.price": {"n": 9, "d": 3},
        "codes.spiral_keys": {"n": 4, "turn": 0.3},
    }


def universal_rows() -> Rows:
    star = patterns.star(3)
    network = universal.approximate(halved, 3, 1, 2, star)
    mapping = network.mapping
    x = torch.rand(3, 1, generator=generator(), dtype=torch.float64)
    sublayers = universal.standard(network)
    sizes = {"n": 3, "d": 1, "cells": 2}
    known = network.ids[0]
    shift = next(iter(universal.schedule(mapping)))
    ramps = {"ramp": 0.01, "value_ramp": 0.25, "clamp": 1.0}
    maps = {"read": normal(2), "write": normal(2) + 1, "cuts": (0.0, 1.0)}
    return {
        "universal.context.apply": {"shift": shift, "ids": known, "mapping": mapping},
        "universal.context.context_ids": {"pattern": star, **sizes},
        "universal.context.contextual_map": {
            "pattern": star,
            **sizes,
            "path": (1, 0, 2),
            "hops": 2,
            "constant": 9,
        },
        "universal.context.decode": {"ident": int(known[0]), "mapping": mapping},
        "universal.context.equivariant_ids": {**sizes, "constant": 30},
        "universal.context.equivariant_map": {**sizes, "constant": 30},
        "universal.context.grid_ids": {"mapping": mapping},
        "universal.context.schedule": {"mapping": mapping},
        "universal.network.approximate": {"f": halved, **sizes, "pattern": star},
        "universal.network.approximate_equivariant": {
            "f": halved,
            "n": 3,
            "d": 2,
            "cells": 2,
        },
        "universal.network.run": {"network": network, "x": x, "order": "grid"},
        "universal.network.value_layers": {"network": network, "order": "grid"},
        "universal.standard.enough_scale": {"mapping": mapping},
        "universal.standard.ramp_mlp": {
            **maps,
            "slope": 0.5,
            "offset": 1.0,
            "ramp": 0.2,
        },
        "universal.standard.run_standard": {
            "x": x,
            "sublayers": sublayers,
            "mapping": mapping,
            "scale": 50.0,
        },
        "universal.standard.standard": {
            "network": network,
            **ramps,
            "order": "decreasing",
            "dtype": torch.float64,
            "device": "cpu",
        },
    }


def halved(x):
    """A target for universal.approximate."""
    return x / 2


def copying_rows() -> Rows:
    hit = torch.tensor([True, False, True])
    field = torch.ones(4, 4, dtype=torch.bool).tril()
    pattern = patterns.causal(patterns.dense(8))
    mixings = mixers.plan(pattern, 1, 2, "union")
    x = copying.sequences(3, 4, 2, generator=generator())
    targets = copying.copy_targets(x)
    network = mixers.MixingNetwork(5, mixings, width=8)
    sizes = {"layers": 2, "heads": 2, "scheme": "union"}
    drawn = {"m": 2, "symbols": 3, "batch": 2, "generator": SEED}
    family = {"name": "random", "n": 8, "w": 2, "generator": SEED}
    built = {"vocabulary": 5, "mixings": mixings, "width": 8, "seed": 0}
    schedule = {"network": network, "draw": batch, "steps": 20, "rate": 0.1}
    return {
        "copying.best_accuracy": {"field": field, "symbols": 2},
        "copying.bound": {"hit": hit, "symbols": 4},
        "copying.ceiling": {"hit": hit, "symbols": 4, "samples": 9, "failure": 0.1},
        "copying.cut_bound": {"crossed": [1, 2], "m": 3, "symbols": 4, "bits": 2.0},
        "copying.causal_pattern": family,
        "data.mixers.MixingNetwork": built,
        "data.mixers.last_field": {"mixings": mixings},
        "data.mixers.plan": {"pattern": pattern, **sizes},
        "data.mixers.reads": {"mixing": mixings[0]},
        "copying.reached": {"field": field},
        "copying.receptive_fields": {"masks": [field, field]},
        "copying.sequences": drawn,
        "copying.copy_targets": {"x": x},
        "data.mixers.evaluate": {
            "network": network,
            "tokens": x,
            "targets": targets,
            "size": 2,
        },
        "data.mixers.train_network": schedule,
    }


def batch():
    """What data.mixers.train_network draws."""
    x = copying.sequences(3, 4, 2, generator=generator())
    return x, copying.copy_targets(x)


def memorize_rows() -> Rows:
    a = normal(5)
    x, v = normal(2, 5, 4), normal(4)
    ids = torch.tensor([0.0, 1.0, 2.5], dtype=torch.float64)
    labels = normal(3, 2)
    line = memorize.fit_line(ids, labels)
    token_mask = KEPT.expand(2, 5).clone()
    words = torch.tensor([[0, 1, 2, 0, 1]] * 2)
    table = torch.tensor([[0, 1, 2], [0, 2, 2], [1, 1, 0]])
    net = memorize.memorize(x, words, generator=generator())
    inputs = {"x": x, "v": v, "beta": 1.0}
    paper = {"count": 6, "n": 3, "d": 2, "r_min": 1.0, "r_max": 2.0, "eps": 0.1}
    return {
        "memorize.averages.boltzmann": {"a": a},
        "memorize.averages.needed_gap": {"n": 4, "kind": "distinct"},
        "memorize.counts.count_ids": {
            "sequences": table,
            "generator": SEED,
        },
        "memorize.counts.fit_counts": {
            "sequences": table,
            "labels": table[:, 0],
            "generator": SEED,
        },
        "memorize.counts.sum_of_integers": {
            "sequences": table,
            "tokens": torch.tensor([0, 2]),
            "integers": torch.tensor([7, 5]),
        },
        "memorize.counts.telling_tokens": {"sequences": table},
        "memorize.deep.fit_deep": {"ids": [0, 3], "labels": [2, 1]},
        "memorize.dense.dense_block": {"net": net},
        "memorize.dense.fit_groups": {
            "points": normal(6, 2),
            "labels": normal(6),
            "tokens": torch.tensor([0, 1, 2, 0, 1, 2]),
            "generator": SEED,
            "draws": 2,
            "groups": 1,
        },
        "memorize.direction.choose_projection": {
            "vocabulary": normal(6, 4),
            "best_of": 2,
            "generator": SEED,
        },
        "memorize.direction.data_scale": {"z": a, "n": 3},
        "memorize.direction.paper_scale": paper,
        "memorize.direction.threshold": {"count": 6, "d": 2},
        "memorize.ids.context_ids": {
            **inputs,
            "token_mask": token_mask,
            "normalizer": "softmax",
        },
        "memorize.ids.rank_one_layer": {"v": v, "beta": 1.0, "w": 1.0},
        "memorize.ids.separate": {**inputs, "normalizer": "softmax"},
        "memorize.ids.smallest_gap": {
            "ids": a,
            "groups": torch.tensor([0, 1, 0, 1, 2]),
        },
        "memorize.line.count_parameters": {"width": 3, "d": 2, "labels": 2},
        "memorize.line.fit_line": {"ids": ids, "labels": labels, "theta": 0.5},
        "memorize.line.interpolate": {"t": a, "ids": ids, "labels": labels},
        "memorize.line.relu_layer": {"t": a, "line": line},
        "memorize.memorizer.memorize": {
            "sequences": x,
            "labels": words,
            "token_mask": token_mask,
            "generator": SEED,
            "v": v / v.norm(),
            "beta": 1.0,
        },
    }


def bridges_rows() -> Rows:
    p = normal(4, 5).softmax(-1)
    return {
        "bridges.cluster_logits": {"sets": p > 0.2, "c": 2, "r": 1.5},
        "bridges.dobrushin": {"p": p},
        "bridges.dobrushin_between": {"p": p},
        "bridges.largest_dobrushin": {"n": 4, "r": 1.5},
        "bridges.needed_bits": {"points": 10, "d": 2},
        "bridges.needed_radius": {"n": 4, "leak": 0.1},
        "bridges.radius": {"logits": normal(4, 5)},
        "bridges.rank_floor": {"p": p},
        "bridges.critical_beta": {"logits": normal(4, 5), "mask": p > 0.01},
        "bridges.state_floor": {"p": p, "bits": 2},
    }


def certify_rows() -> Rows:
    x = [[Fraction(1), Fraction(2)], [Fraction(3), Fraction(-1)]]
    half = [[Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 3), Fraction(2, 3)]]
    network = {"x": x, "attention": [[half]], "weights": [[x]]}
    biased = {
        "value_biases": [[[Fraction(1), Fraction(2)]]],
        "biases": [[Fraction(1), Fraction(2)]],
    }
    first = (Fraction(1), [Fraction(1), Fraction(2)])
    second = (Fraction(1), [Fraction(3), Fraction(2)])
    exponents = {"beta": Fraction(1), "weight": Fraction(1, 2), "bits": 64}
    layer = ([x], [x], [x], [x])
    return {
        "certify.at_least": {"value": 1.0, "bound": 0.5},
        "certify.at_most": {"value": 1.0, "bound": 2.0},
        "certify.boltzmann.boltzmann_gap": {
            "a": first[1],
            "b": second[1],
            "scale": Fraction(1),
            "bits": 64,
        },
        "certify.boltzmann.context_gap": {
            "first": first,
            "second": second,
            **exponents,
        },
        "certify.boltzmann.context_terms": {
            "first": first,
            "second": second,
            "weight": Fraction(1, 2),
        },
        "certify.boltzmann.hardmax_layer": {"x": x, "heads": [(x, x, x, x)]},
        "certify.boltzmann.smallest_gap": {"contexts": [first, second], **exponents},
        "certify.collapse.family_residual": {
            "m": 4,
            "e": Fraction(3),
            "tiny": Fraction(1, 9),
        },
        "certify.collapse.family_residual_any": {"m": 4, "e": Fraction(3)},
        "certify.collapse.log_residuals": {"x": x, "layers": [layer], "digits": 30},
        "certify.decomposition_gap": {**network, **biased},
        "certify.matrices.exact": {"matrix": x},
        "certify.matrices.norms": {"matrix": x},
        "certify.matrices.product": {"matrices": Several([x, half])},
        "certify.matrices.rank": {"matrix": x},
        "certify.matrices.row_stochastic": {"weights": half},
        "certify.network": {**network, **biased, "z": Fraction(2)},
        "certify.path_sum": network,
        "certify.relative_error": {"got": normal(3), "wanted": normal(3) + 1},
    }


def data_rows() -> Rows:
    tagged = conll.Tagged([["a", "b"]], [["x", "y"]])
    read, labels = words_to_read()
    schedule = {"labels": labels, "steps": 1, "batch": 2, "rate": 1e-3}
    return {
        "data.conll.encode": {
            "tagged": tagged,
            "d": 4,
            "positions": True,
            "generator": SEED,
        }
        | {"dtype": torch.float64},
        "data.conll.generate_entities": {"count": 3, "generator": SEED},
        "data.load_result": {"name": "path_efficacy_network"},
        "data.networks.load_reader": {
            "name": "path_efficacy_network",
            "dtype": torch.float32,
        },
        "data.networks.train_reader": {**read, **schedule, "generator": SEED},
    }


def audit_rows() -> Rows:
    model = tiny.TinyModel(1, 2, 8)
    return {
        "audit.tiny.TinyModel": {"layers": 1, "heads": 2, "width": 8, "seed": 0},
        "audit.tiny.attention_heads": {"model": model, "text": "ab"},
        "audit.tiny.attention_maps": {"model": model, "text": "ab"},
        "audit.tiny.encode": {"text": "ab"},
        "audit.tiny.load_tiny_model": {},
    }


ROOMS = {
    "attention": attention_rows,
    "patterns": patterns_rows,
    "sparse": sparse_rows,
    "paths": paths_rows,
    "collapse": collapse_rows,
    "efficacy": efficacy_rows,
    "lowrank": lowrank_rows,
    "efficient": efficient_rows,
    "expressive": expressive_rows,
    "codes": codes_rows,
    "universal": universal_rows,
    "copying": copying_rows,
    "memorize": memorize_rows,
    "bridges": bridges_rows,
    "certify": certify_rows,
    "data": data_rows,
    "audit": audit_rows,
}


# Public functions without a row, by the front of their name.
EXCUSED = {
    "audit": "takes models: tests/test_audit.py and test_audit_sources.py break them",
    "codes.exact.e8": "takes no argument",
    "codes.exact.golay": "takes no argument",
    "codes.exact.leech": "takes no argument",
    "data.checkpoints": "needs a model of transformers, or a download",
    "data.conll.load_conll": "reads a file: tests/test_conll.py breaks it",
    "data.timings": "reads what `python -m bench` stored",
    "exercises": "tests/test_exercises.py gives them wrong answers",
    "expressive.redraw.settle": "a step of fit, which checks",
    "figures": "draw, and are called by pages alone",
    "theorems": "compute with what they are given: a broken hypothesis is a control",
}

# Broken arguments that have a right answer all the same, by the reason.
LEGAL = {
    "zero and negative numbers are numbers like others": """
        attention.attention_matrix scale: zero negative
        attention.forward scale: zero negative
        attention.random_layers gain: zero negative
        bridges.cluster_logits r: zero
        bridges.largest_dobrushin r: zero inf
        certify.boltzmann.boltzmann_gap scale: zero negative
        certify.boltzmann.context_gap beta: zero negative
        certify.boltzmann.context_gap weight: zero negative
        certify.boltzmann.context_terms weight: zero negative
        certify.boltzmann.smallest_gap beta: zero negative
        certify.boltzmann.smallest_gap weight: zero negative
        certify.collapse.family_residual tiny: zero
        certify.network z: zero negative
        codes.spiral_keys turn: zero negative
        copying.cut_bound bits: zero
        copying.cut_bound crossed: [0]:zero
        efficacy.random_reader gain: zero negative
        expressive.dimensions.cap theta: zero
        expressive.dimensions.expected_leak s: zero negative
        lowrank.linformer_attention scale: zero negative
        memorize.ids.context_ids beta: zero negative
        memorize.ids.rank_one_layer beta: zero negative
        memorize.ids.rank_one_layer w: zero negative
        memorize.ids.separate beta: zero negative
        memorize.memorizer.memorize beta: negative
        sparse.sparse_attention scale: zero negative
        sparse.masked_attention scale: zero negative
        universal.standard.ramp_mlp offset: zero negative
        universal.standard.ramp_mlp slope: zero negative
    """,
    "zero layers, moves, values, columns: nothing is done": """
        patterns.conditions.check moves: zero
        patterns.conditions.reach layers: zero
        patterns.families.strided reach: zero
        patterns.parts.Blocks shift: zero
        patterns.parts.Blocks turn: zero
        patterns.parts.Window left: zero
        patterns.parts.Window right: zero
    """,
    "a power may be a fraction; steps are taken modulo their number": """
        lowrank.effective_rank power: fraction
        sparse.sparse_attention step: zero negative
    """,
    "other sizes are sizes too: fewer tokens or features, no batch": """
        attention.check_network x: short
        attention.feed_forward x: short
        attention.hardmax a: empty shallower narrow short
        attention.layer_norm x: short
        bridges.cluster_logits sets: narrow short
        bridges.dobrushin p: short
        bridges.dobrushin_between p: short
        bridges.radius logits: narrow short
        bridges.rank_floor p: short
        bridges.state_floor p: short
        codes.coherence keys: narrow short
        collapse.composite_norm x: narrow short
        collapse.diameter x: narrow short
        collapse.log_bound x: short
        collapse.log_diameter_bound x: short
        collapse.log_residuals x: short
        collapse.residual x: narrow short
        copying.bound hit: narrow
        copying.ceiling hit: narrow
        copying.copy_targets x: empty short
        efficacy.accuracy labels: shallower
        efficacy.logit_parts u: shallower
        efficacy.logits u: shallower
        efficient.features.linear_attention v: narrow
        efficient.features.performer_attention v: narrow
        efficient.features.positive_features w: short
        efficient.features.positive_features x: short
        efficient.hashing.lsh_attention qk: narrow
        efficient.hashing.lsh_attention v: narrow
        efficient.hashing.lsh_buckets qk: narrow short
        efficient.hashing.lsh_sets ids: narrow
        efficient.latent.gqa_as_mla w_k: narrow
        efficient.latent.gqa_as_mla w_v: narrow
        efficient.latent.gqa_error forms: narrow short
        efficient.recurrent.delta_attention v: narrow
        efficient.recurrent.gated_linear_attention v: narrow
        efficient.traffic.naive_attention v: narrow
        efficient.traffic.tiled_attention v: narrow
        expressive.redraw.interpolate k: narrow
        lowrank.effective_rank sigma: narrow
        lowrank.jl_surrogate p: short
        lowrank.jl_surrogate v: narrow
        lowrank.linformer_attention q: short
        lowrank.linformer_attention v: narrow
        lowrank.nystrom_attention v: narrow
        lowrank.sampled_product p: short
        lowrank.sampled_product v: narrow
        lowrank.svd_surrogate p: narrow short
        memorize.averages.boltzmann a: narrow
        memorize.dense.fit_groups points: narrow
        memorize.direction.choose_projection vocabulary: narrow short
        memorize.direction.data_scale z: narrow
        memorize.counts.count_ids sequences: narrow short
        memorize.counts.fit_counts sequences: narrow
        memorize.counts.sum_of_integers sequences: narrow short
        memorize.counts.telling_tokens sequences: narrow short
        memorize.ids.rank_one_layer v: narrow
        memorize.ids.separate x: shallower short
        memorize.line.fit_line labels: narrow
        memorize.line.interpolate labels: narrow
        memorize.line.interpolate t: empty scalar shallower narrow
        memorize.line.relu_layer line: coefficients:narrow
        memorize.line.relu_layer t: empty scalar shallower narrow
        lowrank.srht x: empty shallower narrow short
        sparse.sparse_attention q: short
        sparse.sparse_attention v: narrow
        sparse.masked_attention v: narrow
    """,
    "more or fewer layers, heads, rows, points, parts": """
        attention.check_network layers: shorter longer
        certify.boltzmann.boltzmann_gap a: shorter longer
        certify.boltzmann.boltzmann_gap b: shorter longer
        certify.boltzmann.hardmax_layer heads: empty shorter longer
        certify.boltzmann.hardmax_layer x: shorter longer
        certify.boltzmann.smallest_gap contexts: longer
        certify.collapse.log_residuals layers: empty shorter longer
        certify.collapse.log_residuals x: shorter longer
        certify.matrices.exact matrix: shorter longer
        certify.matrices.norms matrix: shorter longer
        certify.matrices.product matrices: shorter longer [0]:shorter [0]:longer
        certify.matrices.rank matrix: shorter longer
        certify.matrices.row_stochastic weights: shorter longer
        codes.exact.line_order rows: empty shorter longer
        codes.exact.radon points: shorter longer
        collapse.log_bound layers: shorter longer
        collapse.log_diameter_bound layers: shorter longer
        collapse.log_residuals layers: shorter longer
        data.mixers.MixingNetwork mixings: longer
        data.mixers.last_field mixings: longer
        copying.cut_bound crossed: shorter longer
        copying.receptive_fields masks: shorter longer
        efficacy.logit_parts reader: layers:longer
        efficacy.logits reader: layers:longer
        data.networks.train_reader reader: layers:longer
        paths.path_counts heads: shorter longer
        paths.path_norms layers: shorter longer
        paths.path_sums layers: shorter longer
        patterns.conditions.crossing inside: shorter
        patterns.families.from_masks masks: longer
        patterns.families.from_sets steps: longer [0]:longer
        patterns.families.union patterns: longer
        patterns.parts.Columns tokens: shorter
        patterns.parts.Pattern steps: longer
        patterns.parts.Rows tokens: shorter
        patterns.parts.Step parts: longer
        patterns.parts.build steps: longer
        universal.standard.run_standard sublayers: empty shorter longer
    """,
    "any pattern will do": """
        bridges.cluster_logits sets: hidden
        data.mixers.plan pattern: longer
        patterns.conditions.check pattern: longer
        patterns.conditions.crossing pattern: longer
        patterns.conditions.hops pattern: longer
        patterns.conditions.reach pattern: longer
        patterns.families.causal pattern: longer
        patterns.families.one_step pattern: longer
        patterns.hamilton.is_path pattern: longer
    """,
    "whether it is a path: it is none": """
        patterns.hamilton.is_path path: empty shorter longer [0]:zero [0]:negative
    """,
    "a mask broadcasts; without softmax a row may be empty": """
        attention.attention_matrix mask: scalar shallower
        attention.forward mask: scalar shallower
        bridges.critical_beta mask: scalar shallower
        copying.best_accuracy field: hidden
        copying.bound hit: hidden
        copying.ceiling hit: hidden
        copying.reached field: hidden
        copying.receptive_fields masks: [0]:hidden
        paths.path_norms mask: scalar shallower
        paths.path_sums mask: scalar shallower
        sparse.masked_attention mask: scalar shallower
    """,
    "None says: no bias, no norm, no layer on this path, the default": """
        attention.forward norms: [0]:nones [0]:[0]:none
        attention.random_layers device: none
        certify.network biases: nones [0]:none
        certify.network value_biases: [0]:nones [0]:[0]:none
        efficacy.random_reader device: none
        efficacy.random_reader dtype: none
        paths.path_term path: nones [0]:none
        paths.restrict path: nones [0]:none
        universal.standard.run_standard scale: none
        universal.standard.standard device: none
    """,
    "any integer names a bucket, a group, a label, words of bits; -1 pads": """
        copying.copy_targets x: large
        efficient.hashing.lsh_sets ids: large
        expressive.fitting.fit columns: negative
        expressive.redraw.interpolate columns: negative
        expressive.verification.verify columns: negative
        memorize.dense.fit_groups tokens: negative large
        memorize.counts.count_ids sequences: negative large
        memorize.counts.fit_counts labels: large
        memorize.counts.fit_counts sequences: large
        memorize.counts.sum_of_integers integers: negative large
        memorize.counts.sum_of_integers sequences: negative large
        memorize.counts.sum_of_integers tokens: negative
        memorize.counts.telling_tokens sequences: negative large
        memorize.ids.smallest_gap groups: negative large bool
        memorize.memorizer.memorize labels: negative large float bool
    """,
    "what has an index is an integer; a coordinate may be any number": """
        codes.exact.radon points: [0]:[0]:zero [0]:[0]:negative [0]:[0]:fraction
        memorize.deep.fit_deep ids: [0]:tensor
        memorize.deep.fit_deep labels: [0]:zero [0]:tensor
    """,
    "the units are read, their slopes are not": """
        memorize.line.relu_layer line: slopes:empty slopes:scalar slopes:shallower
        memorize.line.relu_layer line: slopes:narrow slopes:short slopes:complex
        memorize.line.relu_layer line: slopes:meta slopes:sparse slopes:none
        memorize.line.relu_layer line: slopes:string slopes:nan slopes:inf
    """,
    "draws are made in the dtype of the input": """
        efficient.hashing.lsh_buckets qk: half single
    """,
    "heads are picked, nothing is computed": """
        paths.restrict layers: :nan :inf
    """,
    "any word is a text": """
        audit.tiny.attention_heads text: word
        audit.tiny.attention_maps text: word
        audit.tiny.encode text: word
    """,
    "a verdict on NaN fails, and an error that is no number is NaN": """
        certify.at_least bound: zero negative nan inf -inf
        certify.at_least value: zero negative nan inf -inf
        certify.at_most bound: zero negative nan inf -inf
        certify.at_most value: zero negative nan inf -inf
        certify.relative_error got: nan inf
        certify.relative_error wanted: nan inf
    """,
}
