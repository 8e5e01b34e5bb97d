"""What attnbook.theorems.bits_of_a_tile cannot say: numbers by hand, and bad input, of
the page notebooks/what_came_after/bits_of_a_tile.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch

from attnbook.theorems import bits_of_a_tile as page

double = torch.float64


@pytest.mark.claim("after.tile", role="certificate")
def test_equal_messages_give_equal_answers_in_fractions():
    """An even head with the values 1, 2, 3, 4 in fractions: lists with equal messages
    have equal merged means with every other tile, others do not.
    """
    lists = list(itertools.product((0, 1), repeat=4))
    others = list(itertools.product((0, 1), repeat=2))

    def told(bits):
        return Fraction(sum(v * b for v, b in zip((1, 2, 3, 4), bits)), 4)

    def answer(bits, rest):
        return (4 * told(bits) + sum(rest)) / Fraction(6)

    rows = {bits: tuple(answer(bits, rest) for rest in others) for bits in lists}
    for one, two in itertools.combinations(lists, 2):
        assert (rows[one] == rows[two]) == (told(one) == told(two))
    assert len(set(rows.values())) == 11  # the sums 0 to 10
    assert told((1, 0, 0, 1)) == told((0, 1, 1, 0))


@pytest.mark.claim("after.lookup", role="certificate")
def test_four_messages_know_four_of_eight_lists():
    """From the number of ones among three bits at most four lists are answered whole,
    by the best of all 8^4 readers; from the number read in binary, all.
    """
    lists = list(itertools.product((0, 1), repeat=3))
    best = 0
    for reader in itertools.product(lists, repeat=4):
        best = max(best, sum(reader[sum(bits)] == bits for bits in lists))
    assert best == 4
    assert len({a + 2 * b + 4 * c for a, b, c in lists}) == 8


@pytest.mark.claim("after.two-layers", role="certificate")
def test_the_margin_is_far_above_what_is_proved():
    found = page.two_layers(**page.strings_with_marks(n=6))
    assert 0.99 < found.value < 1


def test_what_messages_are_is_what_softmax_says():
    objects = page.strings_and_others(n=3, heads=2, width=3)
    o, lambda_ = page.messages(objects["query"], objects["tiles"], objects["layer"])
    assert o.shape == (1, 8, 2, 3)
    assert lambda_.shape == (1, 8, 2)
    layer, query, tile = objects["layer"], objects["query"][0], objects["tiles"][5]
    asked = query @ layer.w_q[1] + layer.b_q[1]
    logits = (tile @ layer.w_k[1] + layer.b_k[1]) @ asked / math.sqrt(3)
    values = tile @ layer.w_v[1] + layer.b_v[1]
    weights = logits.exp()
    wanted = (weights[:, None] * values).sum(0) / weights.sum()
    assert torch.allclose(o[0, 5, 1], wanted, rtol=1e-12)
    assert math.isclose(lambda_[0, 5, 1], math.log(weights.sum()), rel_tol=1e-12)


def test_numbers_that_the_page_tells():
    assert page.entropy(0.5) == 1 and page.entropy(0) == page.entropy(1) == 0
    assert math.isclose(1 - page.entropy(0.1), 0.531, abs_tol=5e-4)
    assert page.position_codes(1201).shape == (1201, 11)
    assert page.position_codes(17).unique(dim=0).shape == (17, 5)
    # A million bits: every lambda lies between 0 and 175, 12 bits.
    T = 2 * 10**6 + 1
    assert (T - 1).bit_length() == 21
    first = 21 / 2 * math.log(8 * T) + 1 / 8
    second = 4 * math.log(8 * T) + math.log(T)
    assert second < first < 175
    assert math.ceil(math.log2(16 * 175 + 1)) == 12


@pytest.mark.claim("after.lookup", role="certificate")
def test_a_reader_names_a_list_for_each_message():
    """Ten numbers of ones among nine bits: ten lists known, though the majority at each
    place makes no more than two of them.
    """
    objects = page.strings_to_look_up(n=9, plain=True)
    assert round(2 ** page.lookup(**objects, bits=4).value) == 10
    ones = objects["strings"].sum(1)
    majority = page._by_majority(objects["strings"], ones)
    assert int((majority == objects["strings"]).all(1).sum()) == 2


@pytest.mark.claim("after.tile", role="certificate")
def test_a_rounding_that_knows_the_place_tells_everything():
    """One bit a message, rounded by a rule that looks at B: all eight lists are looked
    up, so the hypothesis on the rounding is needed.
    """
    numbers_told = range(8)
    lists = {tuple(x >> j & 1 for j in range(3)) for x in numbers_told}
    rounded = [{x >> j & 1 for x in numbers_told} for j in range(3)]
    assert all(len(values) == 2 for values in rounded)
    asked = page.bits_asked(lambda a, b: a[b], sorted(lists), [0, 1, 2])
    assert asked == 3 > 2 * 1


@pytest.mark.claim("after.exact", role="certificate")
@pytest.mark.parametrize(
    "heads, layers, digits", [(1, 1, 1), (1, 7, 1), (1, 3, 4), (2, 3, 2), (3, 4, 1)]
)
def test_a_deep_part_reads_the_bits_that_part_b_says(heads, layers, digits):
    """H heads and L layers of at most H (2^(j + 1) - 1) units look up one of
    H ((L - 1) j + 1) bits: every list, every place.
    """
    n = heads * ((layers - 1) * digits + 1)
    objects = page.lists_to_divide(n, heads, digits)
    readout = objects.pop("readout")
    told, heard, right = page._told_and_heard(**objects)
    output = page._answered(page._merge(told, heard), readout)
    assert right and ((output > 0).mT == page.all_strings(n)).all()
    assert torch.allclose(output.abs(), torch.tensor(0.5, dtype=double), atol=1e-6)
    assert len(readout) == layers + 1
    widest = max(len(bias) for _, bias in readout)
    assert widest <= heads * (2 ** (digits + 1) - 1)


@pytest.mark.claim("after.exact", role="certificate")
def test_one_number_and_a_sine_read_every_list():
    """The last digit before the point of 2^-b times a whole number, by one sine."""
    for code, b in itertools.product(range(2**8), range(8)):
        x = code / 2**b
        assert (math.sin(math.pi * (x + 2**-10)) < 0) == (code >> b & 1)


def test_cuts_of_a_line_make_one_row_more_than_columns():
    """One head, one number, no ReLU, three columns: four rows of eight."""
    found = page.exact(**page.lists_to_divide(n=3))
    assert round(2**found.value) == 4


def test_verdicts_do_not_depend_on_the_units():
    """Values of 1e-12, not rounded: rows are as different as they were."""
    objects = page.strings_and_others(n=4)
    layer = objects["layer"]
    tiny = layer._replace(w_v=1e-12 * layer.w_v, b_v=1e-12 * layer.b_v)
    hot = layer._replace(w_q=1e6 * layer.w_q)
    for changed, rows in ((tiny, 16), (hot, 4)):
        given = objects | {"layer": changed}
        found = page.tile.broken("not rounded", **given, bits=40)
        assert round(2**found.value) == rows


def test_a_number_that_all_logits_share_changes_no_row():
    """A bias of the keys adds 1e4 to all logits of the query: means stay as they were,
    but for the rounding of such a lambda.
    """
    objects = page.strings_and_others(n=4)
    layer = objects["layer"]
    asked = objects["query"][0] @ layer.w_q[0] + layer.b_q[0]
    moved = layer.b_k + 1e4 * math.sqrt(3) * asked / (asked @ asked)
    _, before = page.messages(objects["query"], objects["tiles"], layer)
    objects["layer"] = layer._replace(b_k=moved)
    _, after = page.messages(objects["query"], objects["tiles"], objects["layer"])
    assert torch.allclose(after - before, torch.tensor(1e4, dtype=double), rtol=1e-12)
    assert page.tile.broken("not rounded", **objects, bits=40).value == 4


@pytest.mark.parametrize("shift, amiss", [(0, 0), (1, 1), (-1, 1), (0.25, 1)])
def test_numbers_reached_are_whole_and_go_from_0_to_7(shift, amiss):
    """Three bits told as 0 to 7: moved by 1, the last number is 8."""
    objects = page.digits_in_values(1, 1, 3)
    bias = torch.full((1, 1), float(shift), dtype=double)
    objects["layer"] = objects["layer"]._replace(b_v=bias)
    assert page.reached(**objects).value == amiss


def test_both_ends_and_a_constant():
    tiles = [(a, b) for a in (0, 1) for b in (0, 1)]
    assert page.bits_asked(lambda a, b: b, tiles, [0, 1]) == 0
    assert page.bits_asked(lambda a, b: a == (b, b), tiles, [0, 1]) == math.log2(3)


def test_a_layer_of_zeros_tells_nothing():
    objects = page.strings_to_look_up(n=4)
    layer = objects["layer"]
    objects["layer"] = layer._make(None if w is None else 0 * w for w in layer)
    assert page.lookup(**objects, bits=3).value == 0
    assert page.nearly(**objects, bits=3).value == 0
    some = page.strings_and_others(n=4)
    some["layer"] = objects["layer"]
    assert page.tile(**some, bits=3).value == 0


TILE = page.strings_and_others(n=3)
LISTS = page.strings_to_look_up(n=3)
MARKS = page.strings_with_marks(n=3)
READ = page.lists_to_divide(n=3, digits=1)
DIGITS = page.digits_in_values(1, 1, 3)
LONG = {
    "strings": torch.ones(1, 5000, dtype=torch.bool),
    "places": torch.zeros(1, dtype=torch.long),
}
HUGE = {name: 1e200 * TILE[name] for name in ("query", "tiles")}
REFUSED = [
    (page.tile, TILE, {"bits": 60}, "bits must be at most 48"),
    (page.tile, TILE, {"query": TILE["query"].expand(3, -1)}, "query must have 1 row"),
    (page.tile, TILE, {"others": TILE["others"][..., :2]}, "as wide as tiles"),
    (page.tile, TILE, HUGE, "tell is not finite"),
    (page.lookup, LISTS, {"strings": LISTS["strings"][:7]}, "strings must be all"),
    (page.lookup, LISTS, {"tiles": LISTS["tiles"][:7]}, "tiles must be one for each"),
    (page.two_layers, MARKS, {"places": MARKS["places"] + 1}, "places must lie"),
    (page.two_layers, MARKS, {"accuracy": -1.0}, "accuracy must be 0 or at least"),
    (page.two_layers, MARKS, {"accuracy": 1e-320}, "accuracy must be 0 or at least"),
    (page.two_layers, MARKS, LONG, "at most 2,048 bits"),
    (
        page.reached,
        DIGITS,
        {"tiles": DIGITS["tiles"][:1]},
        "tiles must be 2.*different",
    ),
    (page.exact, READ, {"readout": []}, "readout must hold"),
    (
        page.exact,
        READ,
        {"readout": READ["readout"][:1]},
        "readout.0.: its weight must have shape .1, 1.",
    ),
    (page.exact, READ, {"query": READ["query"].expand(2, -1)}, "query must have 1 row"),
    (page.reached, DIGITS, {"bits": 40}, "tiles must be 2.*different"),
    (page.reached, DIGITS, {"query": DIGITS["query"].expand(2, -1)}, "query must be"),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("theorem, good, change, message", REFUSED)
def test_bad_input_is_named(theorem, good, change, message):
    more = {} if theorem in (page.two_layers, page.exact) else {"bits": 3}
    theorem(**(good | more))
    with pytest.raises(ValueError, match=message):
        theorem(**(good | more | change))


@pytest.mark.bad_input
def test_what_is_no_task_is_refused():
    with pytest.raises(ValueError, match="f must be a function"):
        page.bits_asked(None, [0], [0])
    with pytest.raises(ValueError, match="must not be empty"):
        page.bits_asked(max, [], [0])
    with pytest.raises(ValueError, match="tiles must be a list"):
        page.bits_asked(max, "abc", [0])
    with pytest.raises(ValueError, match="pairs, above"):
        page.bits_asked(max, [0] * 3000, [0] * 3000)
    for wrong in (torch.zeros(2), [0], math.nan):
        for first in (wrong, 0):
            answers = {0: first, 1: wrong}
            with pytest.raises(ValueError, match="f must give the same answer"):
                page.bits_asked(lambda a, b: b[a], [0, 1], [answers])
    with pytest.raises(ValueError, match="modulus must be None for parity"):
        page.a_task("parity", 2, modulus=3)
    with pytest.raises(ValueError, match="room must be an integer"):
        page.digits_in_values(room=0)
    with pytest.raises(ValueError, match="task must be one of"):
        page.a_task("induction")
    with pytest.raises(ValueError, match="n must be at most 20"):
        page.all_strings(40)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        page.entropy(1.5)
