"""The claims of notebooks/sparse_universality/patterns_and_conditions on patterns: each
check, its control and a witness.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from unittest.mock import Mock

import pytest
import torch

from attnlib import patterns
from attnlib.certify import Verdict, at_most
from attnlib.patterns import (
    Blocks,
    Columns,
    Exact,
    Rows,
    Window,
    build,
    check,
    conditions,
    exact,
    hops,
    hops_by_sets,
    is_path,
)
from attnlib.patterns.hamilton import search

SIZES = [(n, w) for n in (5, 8, 12, 16, 21) for w in range(1, n)]


def check_family(family, make, sizes=tuple(SIZES)) -> Verdict:
    """Formula, self-loops and the path 0, 1, 2, ... against the checker: how many sizes
    differ; none may, some must fit.
    """
    off, fit = 0, 0
    for n, w in sizes:
        try:
            wanted, pattern = exact(family, n, w), make(n, w)
        except ValueError:  # the family or its formula has no such width
            continue
        found, fit = check(pattern), fit + 1
        met = found.self_loops and is_path(pattern, range(n))
        got = Exact(pattern.p, found.hops, found.connections)
        off += not met or got != wanted
    return at_most(off if fit else math.nan, 0)


def check_longformer(n, h, g, r=None) -> Verdict:
    """All conditions, s = 2 and (11.4); with r random tokens s <= 2 and at most r n
    more. How many of these are off.
    """
    if r is None:
        pattern, more = (
            build(n, [Window(h, h), Columns(tuple(range(g))), Rows(tuple(range(g)))]),
            0,
        )
    else:
        pattern, more = (
            patterns.bigbird(
                n, 2 * h + 1, g, r, generator=torch.Generator().manual_seed(n)
            ),
            r * n,
        )
    found, wanted = (
        check(pattern),
        (2 * h + 1) * n - h * (h + 1) + 2 * g * (n - 1 - h) - g * (g - 1),
    )
    off = [
        found.all_met is not True,
        found.hops is None or found.hops > 2,
        not wanted <= found.connections <= wanted + more,
    ]
    return at_most(sum(off) + (r is None and found.hops != 2), 0)


def check_classes(make, sizes) -> Verdict:
    """Conditions (2) and (3), and no other, fail at every size."""
    return at_most(
        sum(
            set(check(make(*size)).reasons) != {"hamiltonian_path", "hops"}
            for size in sizes
        ),
        0,
    )


def check_fewest(n, *, loops=True) -> Verdict:
    """2 n against the fewest connections of all patterns of one step with conditions
    (1) and (3), by trying all of them.
    """
    places = [(k, j) for k in range(n) for j in range(n) if not loops or j != k]
    for count in range(len(places) + 1):
        for chosen in itertools.combinations(places, count):
            mask = (
                torch.eye(n, dtype=torch.bool)
                if loops
                else torch.zeros(n, n, dtype=torch.bool)
            )
            for k, j in chosen:
                mask[k, j] = True
            if mask.any(1).all() and hops(patterns.from_masks(mask)):
                return at_most(2 * n, int(mask.sum()))
    raise AssertionError("dense attention meets both")


def check_bound(pattern, w) -> Verdict:
    """n <= w^s for a pattern in which no token reads more than w."""
    return at_most(pattern.n, w ** hops(pattern))


def digits(w, m, n=None):
    return build(n or w**m, *(Window(w - 1, 0, w**l, wrap=True) for l in range(m)))


def one_by_one(n):
    return patterns.from_sets(
        *(
            [[k, (k - 1) % n] if k == l % n else [k] for k in range(n)]
            for l in range(1, n + 1)
        )
    )


def check_tight(make, n, wanted) -> Verdict:
    """(hops, connections, all conditions) as wanted."""
    found = check(make(n))
    return at_most((found.hops, found.connections, found.all_met) != (*wanted, True), 0)


def check_causal(*, causal=True) -> Verdict:
    """How many patterns without the future still have a number of hops."""
    made = [
        patterns.dense(9),
        patterns.star(9),
        patterns.strided(9),
        patterns.dilation_cycle(9),
        patterns.blockwise(9, 3),
    ]
    return at_most(
        sum(hops(patterns.causal(p) if causal else p) is not None for p in made), 0
    )


def check_unread(n, r, *, replace=False) -> Verdict:
    """n (1 - r/n)^(n-1) against the mean over all draws, in fractions."""
    draw = (
        itertools.product(range(n), repeat=r)
        if replace
        else itertools.combinations(range(n), r)
    )
    rows, total, count = [set(row) for row in draw], 0, 0
    for sets in itertools.product(rows, repeat=n):
        total += sum(
            all(j not in s for k, s in enumerate(sets) if k != j) for j in range(n)
        )
        count += 1
    return at_most(abs(Fraction(total, count) - n * (1 - Fraction(r, n)) ** (n - 1)), 0)


def check_strided(n, w, reach=None, *, wanted) -> Verdict:
    return at_most(hops(patterns.strided(n, w, reach=reach)) != wanted, 0)


def check_fixed(sizes, *, closed=False) -> Verdict:
    """s = 2, and all conditions."""
    found = [check(patterns.fixed(n, w, closed=closed)) for n, w in sizes]
    return at_most(sum(f.hops != 2 or not f.all_met for f in found), 0)


def orders(pattern) -> int:
    """How many of all orders of the tokens are paths, by walking them all."""
    reads = (
        torch.stack([pattern.mask(step) for step in range(pattern.p)]).any(0).tolist()
    )

    def onward(last, left):
        return sum(onward(k, left - {k}) for k in left if reads[k][last]) if left else 1

    return sum(onward(k, frozenset(range(pattern.n)) - {k}) for k in range(pattern.n))


def check_no_path(pattern) -> Verdict:
    """The number of orders that are paths is 0."""
    return at_most(orders(pattern), 0)


def drawn(seed, loops=True, most=8):
    """A random pattern of one to three steps on three to seven tokens."""
    g = torch.Generator().manual_seed(seed)
    n, p = int(torch.randint(3, most, (), generator=g)), 1 + seed % 3
    masks = torch.rand(p, n, n, generator=g) < 1.2 / n
    return [*(masks | torch.eye(n, dtype=torch.bool).roll(int(not loops), 1))]


def check_hops(loops, *, order=1) -> Verdict:
    """The squares against sets, layer by layer; order -1 lets the sets run through the
    steps backwards.
    """
    cases = [drawn(seed, loops) for seed in range(120)]
    off = sum(
        hops(patterns.from_masks(*c)) != hops_by_sets(patterns.from_masks(*c[::order]))
        for c in cases
    )
    return at_most(off, 0)


def ring_with_a_chord(n):
    """k reads k + 1, round the circle, and token n - 1 also reads 1: the slowest of all
    that are primitive.
    """
    return patterns.from_sets(
        [[(k + 1) % n, *([1] if k == n - 1 else [])] for k in range(n)]
    )


def check_products(made, *, one_by_one=False) -> Verdict:
    """The products that hops takes, less 2 p + 4 log2 n + 2, the worst of some
    patterns; one_by_one: layer by layer.
    """
    worst = -math.inf
    for pattern in made:
        with pytest.MonkeyPatch.context() as patch:
            product = Mock(wraps=conditions.bit_product)
            patch.setattr(conditions, "bit_product", product)
            s = hops(pattern)
        count = s - 1 if one_by_one else product.call_count
        worst = max(worst, count - (2 * pattern.p + 4 * math.log2(pattern.n) + 2))
    return at_most(worst, 0)


def check_slowest(n) -> Verdict:
    """How far hops is from (n - 1)^2 + 1 on the slowest pattern; no power before that
    is full.
    """
    return at_most(abs((hops(ring_with_a_chord(n)) or 0) - (n - 1) ** 2 - 1), 0)


def check_search(moves=20_000, *, turned=False) -> Verdict:
    """Whether there is a path, against all orders of the tokens; turned: the orders of
    the pattern with edges reversed in part.
    """
    off = 0
    for seed in range(60):
        pattern = patterns.from_masks(*drawn(seed, most=7))
        other = patterns.from_masks(
            *(m.triu().T if turned else m for m in drawn(seed, most=7))
        )
        path, why, known = search(pattern, moves)
        union = torch.stack([other.mask(step) for step in range(other.p)]).any(0)
        off += (
            not known
            or (path is not None) != (orders(other) > 0)
            or (path is None) != bool(why)
        )
        off += path is not None and not all(union[b, a] for a, b in zip(path, path[1:]))
    return at_most(off, 0)


ALL = [(n, 3) for n in range(4, 18)]


def both(n, w):
    return patterns.logsparse(n, both=True)


def whole(*found) -> Verdict:
    """How many of the verdicts fail."""
    return at_most(sum(not f.ok for f in found), 0)


@pytest.mark.claim("patterns.fewest", role="check")
def test_fewest_check():
    assert whole(
        check_fewest(2),
        check_fewest(3),
        check_fewest(4),
        check_tight(one_by_one, 9, (16, 10)),
    ).ok


@pytest.mark.claim("patterns.fewest", role="control")
def test_fewest_control():
    assert check_fewest(3, loops=False).ok is False  # without condition (1)


@pytest.mark.claim("patterns.fewest", role="witness")
def test_fewest_witness():
    assert whole(
        *(check_tight(patterns.directed_cycle, n, (n - 1, 2 * n)) for n in (2, 3, 10))
    ).ok


@pytest.mark.claim("patterns.hops", role="check")
def test_hops_check():
    assert whole(
        *(
            check_bound(
                patterns.random(n, 2, generator=torch.Generator().manual_seed(n)), 3
            )
            for n in range(5, 30)
            if hops(patterns.random(n, 2, generator=torch.Generator().manual_seed(n)))
        )
    ).ok


@pytest.mark.claim("patterns.hops", role="control")
def test_hops_control():
    assert (
        check_bound(patterns.star(64), 3).ok is False
    )  # the relay reads more than three


@pytest.mark.claim("patterns.hops", role="witness")
def test_hops_witness():
    assert whole(
        *(
            check_tight(lambda n, w=w, m=m: digits(w, m), None, (m, w ** (m + 1)))
            for w, m in ((2, 5), (3, 3), (5, 2))
        )
    ).ok


@pytest.mark.claim("patterns.causal", role="check")
def test_causal_check():
    assert check_causal().ok


@pytest.mark.claim("patterns.causal", role="control")
def test_causal_control():
    assert check_causal(causal=False).ok is False


@pytest.mark.claim("patterns.causal", role="witness")
def test_causal_witness():
    assert at_most(
        not patterns.causal(patterns.dense(4))
        .mask()
        .equal(torch.ones(4, 4).tril().bool()),
        0,
    ).ok


@pytest.mark.claim("patterns.window", role="check")
def test_window_check():
    assert whole(
        check_family("window", patterns.window),
        check_family("dense", lambda n, w: patterns.dense(n), ALL),
    ).ok


@pytest.mark.claim("patterns.window", role="control")
def test_window_control():
    assert (
        check_family("window", lambda n, w: patterns.window(n, w, dilation=2)).ok
        is False
    )


@pytest.mark.claim("patterns.window", role="witness")
def test_window_witness():
    assert check_family("window", patterns.window, [(7, 7)]).ok


@pytest.mark.claim("patterns.classes", role="check")
def test_classes_check():
    assert whole(
        check_classes(
            lambda n, D: patterns.window(n, 5, dilation=D),
            [(n, D) for n in (5, 8, 13) for D in (2, 3, 4)],
        ),
        check_classes(patterns.block_diagonal, SIZES),
    ).ok


@pytest.mark.claim("patterns.classes", role="control")
def test_classes_control():
    assert (
        check_classes(lambda n, D: patterns.window(n, 5, dilation=D), [(8, 1)]).ok
        is False
    )


@pytest.mark.claim("patterns.classes", role="witness")
def test_classes_witness():
    assert at_most(not check(patterns.block_diagonal(8, 3)).self_loops, 0).ok


@pytest.mark.claim("patterns.dilation-cycle", role="check")
def test_dilation_cycle_check():
    assert check_family(
        "dilation cycle",
        lambda n, w: patterns.dilation_cycle(n),
        [(n, 3) for n in range(2, 40)],
    ).ok


@pytest.mark.claim("patterns.dilation-cycle", role="control")
def test_dilation_cycle_control():
    assert (
        check_family(
            "dilation cycle",
            lambda n, w: build(n, *patterns.dilation_cycle(n).steps[:-1]),
            ALL,
        ).ok
        is False
    )


@pytest.mark.claim("patterns.dilation-cycle", role="witness")
def test_dilation_cycle_witness():
    assert check_tight(patterns.dilation_cycle, 16, (4, 46)).ok


@pytest.mark.claim("patterns.star", role="check")
def test_star_check():
    assert check_family(
        "star", lambda n, w: patterns.star(n), [(n, 3) for n in range(3, 30)]
    ).ok


@pytest.mark.claim("patterns.star", role="control")
def test_star_control():
    assert (
        check_family("star", lambda n, w: patterns.star(n, local=False), ALL).ok
        is False
    )


@pytest.mark.claim("patterns.star", role="witness")
def test_star_witness():
    assert check_tight(patterns.star, 4, (2, 14)).ok


@pytest.mark.claim("patterns.longformer", role="check")
def test_longformer_check():
    sizes = [
        (n, h, g)
        for n in (5, 8, 13)
        for h in range(1, n // 2)
        for g in range(1, n - h - 1)
    ]
    assert whole(
        *(check_longformer(*size) for size in sizes),
        *(check_longformer(*size, r=2) for size in sizes[::3]),
    ).ok
    assert whole(
        check_family("longformer", patterns.longformer),
        *(
            check_tight(
                lambda n, h=h, g=g: patterns.longformer(n, 2 * h + 1, g),
                n,
                (2, exact("longformer", n, 2 * h + 1, g).connections),
            )
            for n, h, g in sizes
        ),
    ).ok


@pytest.mark.claim("patterns.longformer", role="control")
def test_longformer_control():
    assert check_longformer(9, 0, 1).ok is False  # h = 0: the bare star
    assert (
        check_longformer(30, 0, 1, r=1).ok is False
    )  # one random token more for each does not help
    assert check_longformer(5, 1, 3).ok is False  # n < g + h + 2: one layer is enough
    assert (
        check_family(
            "longformer", lambda n, w: build(n, [Window(w // 2, w // 2), Columns((0,))])
        ).ok
        is False
    )


@pytest.mark.claim("patterns.longformer", role="witness")
def test_longformer_witness():
    assert at_most(
        not all(
            (
                f := check(
                    patterns.bigbird(
                        n, 3, 1, 2, generator=torch.Generator().manual_seed(n)
                    )
                )
            ).all_met
            and f.hops <= 2
            and f.connections <= exact("longformer", n, 3, 1).connections + 2 * n
            for n in (4, 9, 30)
        ),
        0,
    ).ok


@pytest.mark.claim("patterns.logsparse", role="check")
def test_logsparse_check():
    assert whole(
        check_family(
            "logsparse",
            lambda n, w: patterns.logsparse(n),
            [(n, 3) for n in range(2, 40)],
        ),
        *(at_most(hops(both(n, 3)), (n - 1).bit_length()) for n in range(2, 40)),
    ).ok


@pytest.mark.claim("patterns.logsparse", role="control")
def test_logsparse_control():
    assert check_family("logsparse", both, ALL).ok is False


@pytest.mark.claim("patterns.logsparse", role="witness")
def test_logsparse_witness():
    assert at_most(set(check(patterns.logsparse(16)).reasons) != {"hops"}, 0).ok


@pytest.mark.claim("patterns.random", role="check")
def test_random_check():
    assert whole(check_unread(3, 1), check_unread(3, 2), check_unread(4, 2)).ok


@pytest.mark.claim("patterns.random", role="control")
def test_random_control():
    assert check_unread(4, 2, replace=True).ok is False


@pytest.mark.claim("patterns.random", role="witness")
def test_random_witness():
    assert at_most(
        set(
            check(
                patterns.random(2048, 8, generator=torch.Generator().manual_seed(1))
            ).reasons
        )
        != {"hamiltonian_path", "hops"},
        0,
    ).ok


@pytest.mark.claim("patterns.strided", role="check")
def test_strided_check():
    assert whole(
        check_family("strided", patterns.strided),
        check_strided(16, 3, wanted=3),
        *(
            at_most((hops(patterns.strided(n, w, reach=h)) <= 2) != (h >= w - 1), 0)
            for n, w in SIZES[:30]
            for h in range(1, n)
            if w > 2
        ),
    ).ok


@pytest.mark.claim("patterns.strided", role="control")
def test_strided_control():
    assert check_strided(16, 2, wanted=3).ok is False  # w = 2 is not 3 <= w


@pytest.mark.claim("patterns.strided", role="witness")
def test_strided_witness():
    assert whole(
        check_strided(16, 4, wanted=3),
        check_strided(16, 4, 3, wanted=2),
        check_strided(16, 4, 2, wanted=3),
    ).ok


@pytest.mark.claim("patterns.fixed", role="check")
def test_fixed_check():
    assert whole(
        check_family("fixed", patterns.fixed),
        check_fixed([s for s in SIZES if s[0] % s[1] == 0]),
        check_fixed(SIZES, closed=True),
    ).ok


@pytest.mark.claim("patterns.fixed", role="control")
def test_fixed_control():
    assert check_fixed([(5, 2), (18, 4)]).ok is False  # w does not divide n


@pytest.mark.claim("patterns.fixed", role="witness")
def test_fixed_witness():
    assert at_most(set(check(patterns.fixed(3, 2)).reasons) != {"hops"}, 0).ok


@pytest.mark.claim("patterns.shifted-blocks", role="check")
def test_shifted_blocks_check():
    assert whole(
        *(
            check_family(
                "shifted blocks",
                lambda n, b, move=move: build(n, Blocks(b), Blocks(b, move(b))),
                [(b * m, b) for b in (2, 3, 5, 6) for m in (1, 2, 3, 5)],
            )
            for move in (lambda b: b // 2, lambda b: 1, lambda b: b - 1)
        )
    ).ok


@pytest.mark.claim("patterns.shifted-blocks", role="control")
def test_shifted_blocks_control():
    assert (
        check_family(
            "shifted blocks", lambda n, b: build(n, Blocks(b), Blocks(b, 0)), [(32, 8)]
        ).ok
        is False
    )


@pytest.mark.claim("patterns.shifted-blocks", role="witness")
def test_shifted_blocks_witness():
    assert check_tight(patterns.shifted_blocks, 16, (7, 64)).ok


@pytest.mark.claim("patterns.blockwise", role="check")
def test_blockwise_check():
    assert check_family(
        "blockwise",
        patterns.blockwise,
        [(b * m, b) for b in (1, 2, 3) for m in (2, 3, 5, 8, 11)],
    ).ok


@pytest.mark.claim("patterns.blockwise", role="control")
def test_blockwise_control():
    assert (
        check_family(
            "blockwise",
            lambda n, b: build(n, *(Blocks(b, turn=q) for q in range(n // b))),
            [(15, 3)],
        ).ok
        is False
    )


@pytest.mark.claim("patterns.blockwise", role="witness")
def test_blockwise_witness():
    assert check_tight(patterns.blockwise, 16, (3, 80)).ok


@pytest.mark.claim("patterns.bare-star", role="check")
def test_bare_star_check():
    assert whole(
        *(check_no_path(patterns.star(n, local=False)) for n in (4, 5, 6, 7))
    ).ok


@pytest.mark.claim("patterns.bare-star", role="control")
def test_bare_star_control():
    assert check_no_path(patterns.star(3, local=False)).ok is False


@pytest.mark.claim("patterns.bare-star", role="witness")
def test_bare_star_witness():
    assert at_most(hops(patterns.star(6, local=False)) != 2, 0).ok


@pytest.mark.claim("patterns.checker", role="check")
def test_checker_check():
    assert whole(check_hops(True), check_hops(False), check_search()).ok


@pytest.mark.claim("patterns.checker", role="check")
def test_checker_counts_its_products():
    made = [
        patterns.from_masks(*drawn(seed, seed % 2 == 0, most=20)) for seed in range(80)
    ]
    assert check_products(
        [
            p
            for n in (5, 16, 40, 64)
            for p in (
                patterns.window(n, 3),
                patterns.blockwise(n),
                patterns.logsparse(n),
            )
        ]
        + made
    ).ok


@pytest.mark.claim("patterns.checker", role="control")
def test_checker_control():
    assert check_hops(True, order=-1).ok is False
    assert check_products([patterns.window(64, 3)], one_by_one=True).ok is False


@pytest.mark.claim("patterns.checker", role="witness")
def test_checker_witness():
    assert at_most(hops(patterns.window(2048, 3)) != 2047, 0).ok
    assert whole(*(check_slowest(n) for n in (3, 4, 6, 9, 17))).ok


def test_the_search_is_not_fooled_by_turned_edges():
    assert check_search(turned=True).ok is False
