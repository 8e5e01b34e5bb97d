"""What attnbook.theorems.logarithmic_dimension cannot say: a certificate, the stored
run, and a code that would pass by rounding.

Page: notebooks/sparse_patterns/logarithmic_dimension
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from attnbook.data import load_result
from attnbook.theorems import logarithmic_dimension as page
from attnbook.theorems.logarithmic_dimension import random_columns, seeded
from attnlib.certify import at_most
from attnlib.expressive import Code, interpolate, verify
from attnlib.expressive.dimensions import predicted_dimension

T = math.log(10)


def solve(a, b):
    """Fractions: x with a x = b, by elimination."""
    m = [list(row) + [value] for row, value in zip(a, b)]
    for i in range(len(m)):
        p = next(r for r in range(i, len(m)) if m[r][i])
        m[i], m[p] = m[p], m[i]
        m[i] = [v / m[i][i] for v in m[i]]
        m = [
            row if r == i else [v - row[i] * w for v, w in zip(row, m[i])]
            for r, row in enumerate(m)
        ]
    return [row[-1] for row in m]


@pytest.mark.claim("expressive.interpolated", role="certificate")
def test_a_certified_instance():
    """Signs, n = 24, k = 2, d = 40, weights e^0 and e^1, T = 1, s = 3: in fractions the
    ratios are exact and every gap is at least T; the floats of the library agree to
    1e-12.
    """
    g = seeded(11)
    n = 24
    d = 40
    S = random_columns(n, 2, g)
    log_w = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(n, 2).contiguous()
    signs = torch.randint(0, 2, (n, d), generator=g) * 2 - 1
    keys, gaps = signs.tolist(), []

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b))

    for row in S.tolist():
        gram = [[Fraction(dot(keys[a], keys[b]), d) for b in row] for a in row]
        a = solve(gram, [Fraction(3), Fraction(4)])
        logits = [
            sum(c * Fraction(dot(keys[j], keys[l]), d) for c, l in zip(a, row))
            for j in range(n)
        ]
        assert (logits[row[0]], logits[row[1]]) == (3, 4)  # ratios: zero error
        gaps.append(
            min(logits[row[0]] - v for j, v in enumerate(logits) if j not in row)
        )
    assert min(gaps) >= 1
    k = signs.double() / math.sqrt(d)
    report = verify(Code(interpolate(k, S, 3 + log_w), k, math.exp(-1), 0.5), S, log_w)
    assert report.passed and torch.allclose(
        report.rows[:, 1],
        torch.tensor([float(v) for v in gaps], dtype=torch.float64),
        atol=1e-12,
    )


def test_smallest_at_2_to_16():
    """One draw passes at the predictor for 65,536 tokens, and none a tenth below."""
    large = load_result("expressive")["result"]["large"]
    assert large["predicted"] == predicted_dimension(2**16, 1, eps1=0.1, s=2 * T) == 132
    assert large["passed"]["132"] and not large["passed"]["120"]
    assert large["integer"]["passed"]


def check_allowance(size=1014.0):
    """How far the exact gap of a code that passes lies below ln 10: 2.29 is, and 32-bit
    sums may round it up above ln 10.
    """
    eye, first = torch.eye(4), torch.full((4, 1), size)
    code, S = (
        Code(torch.cat([first, 2.29 * eye], 1), torch.cat([first, eye], 1), 0.1, 0.5),
        torch.arange(4)[:, None],
    )
    exact = verify(replace(code, q=code.q.double(), k=code.k.double()), S)
    assert exact.margin < T < verify(code, S).margin
    return at_most(T - exact.margin if verify(code, S).passed else 0.0, 0)


def test_no_code_passes_by_rounding():
    assert check_allowance().ok


# Of each kind an object that is right; each case spoils one argument of it.
RIGHT = {
    "criteria": page.at_the_edge,
    "layout": page.queries_and_keys,
    "masks": page.causal_code,
    "lengths": page.tail,
    "plain": page.pattern,
    "noise": page.row_of_logits,
    "expected_failures": page.many_keys,
    "leak": page.permutation_keys,
    "rounding": page.short_numbers,
    "full_rank": page.permutation_code,
    "tiles": page.two_kinds,
}


def spoiled(a, value, at=(0, 0)):
    """A copy with another number in one place."""
    a = a.clone()
    a[at] = value
    return a


BROKEN = [
    ("criteria", "a", lambda a: spoiled(a, math.nan)),
    ("criteria", "a", lambda a: spoiled(a, -math.inf)),
    ("criteria", "m", lambda m: 2 * m),
    ("criteria", "eps1", lambda eps1: -1.0),
    ("layout", "q", lambda q: q[0]),
    ("layout", "q", lambda q: spoiled(q, math.nan)),
    ("layout", "k", lambda k: k[:-1]),
    ("masks", "columns", lambda c: torch.full_like(c, -1)),
    ("masks", "columns", lambda c: spoiled(c, -1, at=3)),
    ("masks", "columns", lambda c: c[:, :0]),
    ("masks", "mask", lambda mask: None),
    ("lengths", "tenths", lambda tenths: math.nan),
    ("plain", "log_weights", lambda w: None),
    ("noise", "keys_of", lambda keys_of: keys_of[:-1]),
    ("expected_failures", "keys", lambda k: spoiled(k, math.nan, at=(0, 0, 0))),
    ("expected_failures", "keys", lambda k: spoiled(k, math.inf, at=(0, 0, 0))),
    ("leak", "pi", lambda pi: pi + 5),
    ("rounding", "bits", lambda bits: -1),
    ("full_rank", "code", lambda code: replace(code, q=code.q[0])),
    ("masks", "code", lambda code: None),
    ("tiles", "columns", lambda columns: None),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("name, argument, spoil", BROKEN)
def test_what_is_no_object_of_a_theorem_is_refused_by_name(name, argument, spoil):
    """The same call passes before one argument is spoiled."""
    given = RIGHT[name]()
    function = getattr(page, name)
    assert function(**given).ok
    given[argument] = spoil(given[argument])
    with pytest.raises(ValueError, match=rf"\b{argument}\b"):
        function(**given)


@pytest.mark.bad_input
def test_no_run_and_keys_of_another_theorem_are_refused():
    with pytest.raises(ValueError, match="runs must hold at least one entry"):
        page.smallest([])
    with pytest.raises(ValueError, match=r"runs\[0\] must have .* lacks {'measured'}"):
        page.smallest([{"n": [64], "k": 1}])
    with pytest.raises(ValueError, match="keys must be one of"):
        page.plain(**page.pattern(), keys="sphere")
    with pytest.raises(ValueError, match="keys must be one of"):
        page.interpolated(**page.pattern(), keys="gaussian")


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["plain", "interpolated"])
def test_one_draw_is_enough_and_none_is_refused(name):
    """Half of one draw may fail."""
    given = page.pattern(n=256)
    function = getattr(page, name)
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, got"):
        function(**given, draws=0)
    assert function(**given, draws=1).bound == 1 / 2


def test_all_bits_of_a_float_are_all_of_it():
    assert page.rounding(**page.short_numbers(bits=53)).value == 0


@pytest.mark.bad_input
def test_a_float_has_no_more_than_53_bits():
    given = page.short_numbers(bits=53)
    with pytest.raises(ValueError, match="bits must be at most 53, .* got 54"):
        page.rounding(**(given | {"bits": 54}))


def test_true_statements_pass():
    """Zero queries do not move; queries may be float32; and pairs too rare to be drawn
    are as many as expected.
    """
    zeros = torch.zeros(4, 3, dtype=torch.float64)
    assert page.rounding(zeros, zeros + 1, 8).ok
    thirds = zeros + 1 / 3
    assert not page.rounding.broken("twelve bits claimed", thirds, thirds, 2).ok
    half = torch.full((1, 1), 0.75, dtype=torch.float64)  # to 1: 7/9 of 2 / 2 + 1 / 4
    assert page.rounding(half, half, 1).value == pytest.approx(28 / 45, rel=1e-14)
    code = {name: t.float() for name, t in page.queries_and_keys().items()}
    assert page.layout(**code).ok
    assert not page.layout.broken("no sqrt(d)", **code).ok
    keys = page.many_keys(draws=20, n=16, d=64)["keys"]
    assert page.expected_failures(keys, t=0.95).ok
    assert not page.expected_failures(keys[:, :1].expand(-1, 16, -1), t=0.95).ok


def test_the_least_singular_value_of_two_tokens():
    """Zeros of a third: rows 3/4 and 1/4, so that the values are 1 and 1/2."""
    keys = torch.eye(2, dtype=torch.float64)
    verdict = page.full_rank(Code(math.log(3) * keys, keys, 1 / 3, 0.5))
    assert verdict.value == pytest.approx(1 / 2)
    assert verdict.bound == pytest.approx(2 / 3)
    assert verdict.bound > 2 / 3  # by a share for rounding
