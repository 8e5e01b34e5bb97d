"""The checks can bite: each kernel is broken once, and then a named claim and a checked cell of its page must both fail.

A mutation replaces one piece of source in a copy of attnlib. One process a mutation imports the copy, calls the check
function of the claim, and runs the page without its figures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = "notebooks/path_decomposition/paths.ipynb"

DRIVER = """
import sys
from pathlib import Path
copy, root, page, check = sys.argv[1:]
sys.path[:0] = [copy, f"{root}/tests", f"{root}/book/_tools"]
import attnlib
assert attnlib.__file__.startswith(copy), attnlib.__file__
import notebooks, pages
import test_claims_paths as claims
try:
    claim = bool(eval(check, vars(claims)).ok)
except Exception as error:
    claim = repr(error)[:200]
path = Path(root, page)
notebook = pages.read(path)
notebook["cells"] = [c for c in notebook["cells"] if "figures." not in "".join(c["source"])]
try:
    cells = notebooks.run_plain(notebook, path)
except pages.Problem as error:
    cells = str(error)
import json
print("RESULT", json.dumps({"claim": claim, "page": cells}))
"""


class Mutation(NamedTuple):
    kernel: str
    old: str
    new: str
    check: str  # an expression over tests/test_claims_paths.py that holds while nothing is broken
    page: bool = True  # does a checked cell of the page depend on it?


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
}


def run(tmp_path: Path, mutation: Mutation | None, check: str) -> dict:
    copy = tmp_path / "attnlib"
    shutil.copytree(ROOT / "attnlib", copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutation:
        room = copy / f"{mutation.kernel}.py"
        text = room.read_text(encoding="utf-8")
        assert mutation.old in text, f"{mutation.kernel} no longer holds {mutation.old!r}: mend the mutation"
        room.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), str(ROOT), PAGE, check],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.rpartition("RESULT ")[2])


def test_nothing_is_noticed_while_nothing_is_broken(tmp_path):
    checks = dict.fromkeys(m.check for m in MUTATIONS.values())
    result = run(tmp_path, None, "at_most(sum(not c.ok for c in (" + ", ".join(checks) + ",)), 0)")
    assert result["claim"] is True
    assert isinstance(result["page"], int) and result["page"] >= 8


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(tmp_path, name):
    mutation = MUTATIONS[name]
    result = run(tmp_path, mutation, mutation.check)
    assert result["claim"] is not True, "the claim still holds"
    assert not mutation.page or isinstance(result["page"], str), "the page still prints the same"
