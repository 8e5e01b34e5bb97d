"""The checks can bite: each kernel is broken once, and then a named claim and a checked cell of its page must both fail.

A mutation replaces one piece of source in a copy of attnlib. One process a mutation imports the copy, calls the check
function of the claim, and runs the page without its figures.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # claims module of tests/ -> its page
    "test_claims_paths": "notebooks/path_decomposition/paths.ipynb",
    "test_claims_collapse": "notebooks/path_decomposition/rank_collapse.ipynb",
    "test_claims_codes": "notebooks/sparse_patterns/price_of_dimension.ipynb",
    "test_claims_questions": "notebooks/path_decomposition/four_questions.ipynb",
}

# Forked from a process that has these already: most of a mutation's time would otherwise go into importing torch.
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
CONTEXT = multiprocessing.get_context(METHOD)
if METHOD == "forkserver":
    CONTEXT.set_forkserver_preload(["torch", "mpmath", "flint", "matplotlib", "pytest", "IPython.display", "jaxtyping", "yaml"])
SECONDS = 120


def driver(copy: str, claims: str, page: str, check: str, pipe) -> None:
    """In a process of its own: the copy is imported, the check called, the page run; what came of both goes into the pipe."""
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path[:0] = [copy, f"{ROOT}/tests", f"{ROOT}/book/_tools"]
    assert "attnlib" not in sys.modules, "the library is here already, and not the copy"
    import torch

    torch.set_num_threads(1)
    import attnlib

    assert attnlib.__file__.startswith(copy), attnlib.__file__
    import notebooks
    import pages

    module = importlib.import_module(claims)
    try:
        claim = bool(eval(check, vars(module)).ok)
    except Exception as error:
        claim = repr(error)[:200]
    if not page:
        return pipe.send({"claim": claim, "page": None})
    path = Path(ROOT, page)
    notebook = pages.read(path)
    notebook["cells"] = [c for c in notebook["cells"] if "figures." not in "".join(c["source"])]
    try:
        cells = notebooks.run_plain(notebook, path)
    except pages.Problem as error:
        cells = str(error)
    pipe.send({"claim": claim, "page": cells})


class Mutation(NamedTuple):
    kernel: str
    old: str
    new: str
    check: str  # an expression over the module of claims that holds while nothing is broken
    page: bool = True  # does a checked cell of the page depend on it?
    claims: str = "test_claims_paths"


def collapse(kernel: str, old: str, new: str, check: str, page: bool = True) -> Mutation:
    return Mutation(kernel, old, new, check, page, "test_claims_collapse")


def codes(kernel: str, old: str, new: str, check: str, page: bool = True) -> Mutation:
    return Mutation(kernel, old, new, check, page, "test_claims_codes")


def questions(kernel: str, old: str, new: str, check: str) -> Mutation:
    return Mutation(kernel, old, new, check, True, "test_claims_questions")


MUTATIONS = {
    "attention_matrix: axis": Mutation("attention", "torch.softmax(a, -1)", "torch.softmax(a, -2)", "check_decomposition(0, skip=False)"),
    "attention_matrix: scale": Mutation("attention", "1 / math.sqrt(w_q.shape[-1])", "1 / w_q.shape[-1]", "check_closed_form(0.7)"),
    "forward: sign of the skip": Mutation("attention", "x = x + y if skip", "x = x - y if skip", "check_decomposition(0, skip=True)"),
    "forward: order of the heads": Mutation("attention", "y.transpose(-3, -2).flatten(-2)", "y.flip(-3).transpose(-3, -2).flatten(-2)", "check_decomposition(0, skip=False)"),
    "merged: order of heads": Mutation("attention", "return layer.w_v @ layer.w_o, b", "return layer.w_v @ layer.w_o.flip(0), b", "check_softmax_order('opposite')"),
    "path_term: scale": Mutation("paths", "(layer.w_v[h] @ layer.w_o[h])", "(2 * layer.w_v[h] @ layer.w_o[h])", "check_decomposition(0, skip=True)"),
    "path_terms: a head too few": Mutation("paths", "*range(layer.w_q.shape[0])]", "*range(1, layer.w_q.shape[0])]", "check_decomposition(0, skip=False)"),
    "restrict: wrong layer": Mutation("paths", "w[h : h + 1]", "w[:1]", "check_closed_form(0.7)"),
    "_step: sign": Mutation("paths", "+ pad(y, (0, 0", "- pad(y, (0, 0", "check_sums(0)"),
    "_step: lengths do not shift": Mutation("paths", "pad(y, (0, 0, 0, 0, 1, 0))", "pad(y, (0, 0, 0, 0, 0, 1))", "check_sums(0)"),
    "_step: axis of the heads": Mutation("paths", "y.transpose(-3, -2).reshape", "y.reshape", "check_sums(0)"),
    "_bias: not carried": Mutation("paths", "else b @ layer.w_v + layer.b_v", "else layer.b_v", "check_decomposition(0, skip=False)"),
    "path_counts: no skip": Mutation("paths", "[*counts, 0] if skip", "[0 * c for c in [*counts, 0]] if skip", "check_lengths([3, 3])"),
    "path_norms: one sign a layer": Mutation("paths", "(layer.w_q.shape[0], signs)", "(1, signs)", "check_drawn_signs()", page=False),
    "certify.network: sign of z": Mutation("certify", "[z * sum(entries)", "[-z * sum(entries)", "check_row_sums(squares)"),
    "certify.path_sum: sign of a node": Mutation("certify", "/ (node - other)", "/ (node + other)", "check_row_sums(squares)"),
    "certify.decomposition_gap: bias": Mutation("certify", "zip(*carried, *value_biases[layer]", "zip(*value_biases[layer]", "check_row_sums(squares)"),
    "_difference: sign": collapse("collapse", "s * (e - e @ s.mT)", "s * (e + e @ s.mT)", "check_recursion()"),
    "_difference: log of the sum": collapse("collapse", "(v - torch.log1p(v.expm1() @ s.mT))", "(v - v.expm1() @ s.mT)", "check_recursion()"),
    "_layer: linear scale": collapse("collapse", "torch.where(linear, 3 * size, size)", "torch.where(linear, 2 * size, size)", "check_recursion()"),
    "_layer: first row": collapse("collapse", "    e = e - first\n", "", "check_recursion()"),
    "_layer: pivot": collapse("collapse", "values = values - values.gather(-2, pivot", "values = values - 2 * values.gather(-2, pivot", "check_recursion()"),
    "_recentre: the mean is lost": collapse("collapse", "return x + size.exp().unsqueeze(-1) * mean", "return x", "check_recursion()"),
    "composite_norm: axis": collapse("collapse", "x.abs().sum(-2).amax(-1), x.abs().sum(-1).amax(-1)\n    return", "x.abs().sum(-2).amin(-1), x.abs().sum(-1).amax(-1)\n    return", "check_multi_head(0)"),
    "log_bound: square in place of cube": collapse("collapse", "-math.inf, c + 3 * u)", "-math.inf, c + 4 * u)", "check_multi_head(0, scale=0.01)"),
    "_norms: an axis": collapse("collapse", "(layer.w_q @ layer.w_k.mT).abs().sum(-2).amax(-1)", "(layer.w_q @ layer.w_k.mT).abs().sum(-2).amin(-1) / 1e9", "check_multi_head(0, scale=0.1)"),
    "_log_g: sign": collapse("collapse", "(-torch.expm1(-y)).log() - log_y", "(-torch.expm1(-y)).log() - 3 * log_y - 2 * y", "check_g()", page=False),
    "certify.log_residuals: scale": collapse("certify", "q * k.T / mpmath.sqrt(q.cols)", "q * k.T / q.cols", "check_recursion()"),
    "certify.family_residual: sign": collapse("certify", "(v[1] - v[-1]) / total", "(v[1] + v[-1]) / total * (m - 1) / (2 * m)", "check_dense_family()"),
    "moment_queries: sign of the sine": codes("codes/__init__", "-f[:, k + 1 :].imag], -1)", "f[:, k + 1 :].imag], -1)", "check_moment(64, 2)"),
    "moment_queries: scale of the bump": codes("codes/__init__", "(2 * torch.sin(", "(4 * torch.sin(", "check_moment(64, 2)"),
    "moment_queries: axis of the product": codes("codes/__init__", "c = (need / bumps).scatter(1, columns, -math.inf).amax(1)", "c = (need / bumps).scatter(1, columns, -math.inf).amax(0)", "check_moment(64, 2)"),
    "moment_keys: scale": codes("codes/__init__", ".flatten(1) / math.sqrt(k)\n\n\ndef moment_queries", ".flatten(1) / k\n\n\ndef moment_queries", "check_moment(64, 2)"),
    "margins: least of the others": codes("codes/__init__", "-math.inf).amax(1)\n\n\ndef _columns", "math.inf).amin(1)\n\n\ndef _columns", "at_most(check_circle(64, short=0.99).ok, 0)"),
    "code_from: the radius": codes("codes/__init__", "along.square() + 4 - x", "along.square() + 9 - x", "check_law(5, 4)"),
    "code_from: axis": codes("codes/__init__", "u = q / q.norm(dim=1, keepdim=True)", "u = q / q.norm(dim=0, keepdim=True)", "check_law(5, 4)"),
    "coherence: the diagonal": codes("codes/__init__", "products.fill_diagonal_(-math.inf)", "products.fill_diagonal_(math.inf)", "check_kissing(e8())"),
    "cap: power": codes("codes/__init__", "** (d - 2)).sum()", "** (d - 1)).sum()", "at_most(abs(cap(math.pi / 3, 3) - 0.25), 1e-12)"),
    "price: the angle is not doubled": codes("codes/__init__", "0.5 / math.sin(min(low, math.pi / 2)) ** 2)", "0.5 / math.sin(min(low, math.pi / 2) / 4) ** 2)", "check_four()"),
    "redraw_keys: level": codes("codes/__init__", "> level - gap)", "> level - gap / 2)", "check_redraw(64, 2, 4, 24, whole=False)"),
    "radon: sign": codes("codes/exact", "c[pivot] = -row[j]", "c[pivot] = row[j]", "check_radon(2, 3)"),
    "e8: parity": codes("codes/exact", "product((1, -1), repeat=8) if math.prod(v) > 0", "product((1, -1), repeat=8) if math.prod(v) > -2", "check_kissing(e8())"),
    "golay: generator": codes("codes/exact", "[0, 2, 4, 5, 6, 10, 11]", "[0, 2, 4, 5, 7, 10, 11]", "check_leech()"),
    "leech: sign of the threes": codes("codes/exact", "(1 - 4 * torch.eye(", "(1 + 2 * torch.eye(", "check_leech()"),
    "line_order: complement": codes("codes/exact", "s if x in s else everything - s", "s if x in s else s", "check_line(count=100)"),
    "certify.norms: axis": questions("certify", "max(map(sum, zip(*sizes)))", "max(map(sum, sizes))", "at_most(abs(square([[Fraction(1)],[Fraction(1)]]) - 2), 0)"),
    "certify.norms: largest entry": questions("certify", "return max(map(sum, zip(*sizes))), max(map(sum, sizes))", "return max(map(max, sizes)), max(map(sum, sizes))", "check_attained(8, 2, 2)"),
    "certify.norms: sign": questions("certify", "[[abs(entry) for entry in row] for row in matrix]", "[list(row) for row in matrix]", "at_most(abs(square(centred(fan(20, 1))) - 2 * Fraction(19, 20) ** 2), 0)"),
    "certify.rank: sign": questions("certify", "a - factor * b for a", "a + factor * b for a", "at_most(abs(certify.rank(clusters(3, 2)) - 2), 0)"),
}


def run(tmp_path: Path, mutation: Mutation | None, check: str, claims: str) -> dict:
    copy = tmp_path / "attnlib"
    shutil.copytree(ROOT / "attnlib", copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutation:
        room = copy / f"{mutation.kernel}.py"
        text = room.read_text(encoding="utf-8")
        assert mutation.old in text, f"{mutation.kernel} no longer holds {mutation.old!r}: mend the mutation"
        room.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=driver, args=(str(tmp_path), claims, PAGES[claims] if not mutation or mutation.page else "", check, there), daemon=True)
    process.start()
    there.close()
    try:
        assert here.poll(SECONDS), f"no answer within {SECONDS} s"
        return here.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the process ended with {process.exitcode}; its traceback stands above") from None
    finally:
        process.terminate()
        process.join()


@pytest.mark.parametrize("claims", PAGES)
def test_nothing_is_noticed_while_nothing_is_broken(tmp_path, claims):
    checks = dict.fromkeys(m.check for m in MUTATIONS.values() if m.claims == claims)
    result = run(tmp_path, None, "at_most(sum(not c.ok for c in (" + ", ".join(checks) + ",)), 0)", claims)
    assert result["claim"] is True
    assert isinstance(result["page"], int) and result["page"] >= 8


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(tmp_path, name):
    mutation = MUTATIONS[name]
    result = run(tmp_path, mutation, mutation.check, mutation.claims)
    assert result["claim"] is not True, "the claim still holds"
    assert not mutation.page or isinstance(result["page"], str), "the page still prints the same"
