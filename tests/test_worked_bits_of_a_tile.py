"""Page what_came_after/bits_of_a_tile: what was worked out by hand."""

import math

import pytest
import torch

from attnbook.theorems import bits_of_a_tile as claims
from attnlib.attention import forward

double = torch.float64


def test_eight_strings_and_four_messages():
    """A head that averages three bits evenly tells 0, 1/3, 2/3 or 1, in two bits; so
    the eight strings have four rows.
    """
    objects = claims.strings_to_look_up(3, plain=True)
    strings = objects.pop("strings")
    one = torch.eye(4, dtype=double)[None, :, :1]
    objects["layer"] = objects["layer"]._replace(w_v=one)
    o, _ = claims.messages(**objects)
    assert torch.allclose(o.flatten(), strings.double().mean(1), rtol=1e-14)
    others = claims.strings_and_others(3)["others"]
    assert claims.tile(**objects, others=others, bits=2).value == 2


def test_four_of_eight_lists():
    """Three bits have 0, 1, 2 or 3 ones. A reader who is told how many names one list
    for each, and so is right for four lists of eight.
    """
    objects = claims.strings_to_look_up(3, plain=True)
    assert claims.lookup(**objects, bits=2).value == 2


def test_a_quarter_wrong():
    """From the number of ones among three bits, the majority is wrong on one bit of six
    lists, so on 6 of 24 bits.
    """
    objects = claims.strings_to_look_up(3, plain=True)
    wanted = 3 * (1 - (2 - 0.75 * math.log2(3)))
    assert wanted == pytest.approx(0.5662, abs=1e-4)
    assert claims.nearly(**objects, bits=2).value == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize(
    ("task", "rows"),
    [("look up", 4), ("equality", 4), ("majority", 3), ("parity", 2), ("Match3", 4)],
)
def test_rows_of_two_bits(task, rows):
    """A place has the rows 00, 01, 10, 11; the majority of four bits has three."""
    objects = claims.a_task(task, 2)
    del objects["bits"]
    assert 2 ** claims.bits_asked(**objects) == pytest.approx(rows, rel=1e-14)


def test_numbers_told_in_the_order_of_the_strings():
    """One head of width one tells 101, read from the right, as the number 5."""
    objects = claims.digits_in_values(1, 1, 3)
    del objects["bits"]
    o, _ = claims.messages(**objects)
    assert o.flatten().tolist() == pytest.approx(range(8), abs=1e-13)


def note_of(strings, places):
    """What layer 1 writes."""
    x = claims.look_up_tokens(strings, places)
    D = (x.shape[-1] - 5) // 2
    first, _ = claims.look_up_layers(x.shape[1], D)
    return forward(x, [first], skip=True, scale=1.0)[..., claims.NOTE]


def test_one_bit():
    """The tokens ?, b, ?. With 8 T = 24 a wrong key has at most 1/24 of the weight of
    the right one in layer 1, so the bit's note is at least 24/26.
    """
    codes = claims.position_codes(3)
    weights = torch.softmax(math.log(24) / 2 * codes @ codes.mT, dim=-1)
    wanted = float(weights[0, 0] + weights[0, 2])  # the bit looks for position 0
    assert wanted >= 24 / 26
    strings = torch.tensor([[True], [False]])
    places = torch.zeros(2, dtype=torch.long)
    found = note_of(strings, places)[:, 1].tolist()
    assert found == pytest.approx([wanted, wanted], rel=1e-14)
    assert claims.two_layers(strings, places).ok


def test_the_query_is_not_taken_for_a_mark():
    """The last token is a question mark too: with keys that go round, bit 0 must not
    take it for its own.
    """
    note = note_of(torch.tensor([[True, False]]), torch.tensor([1]))
    assert note[0, 1] < 1 / 8 and note[0, 3] > 7 / 8
