"""Exercises of the page on layers and steps."""

from __future__ import annotations

from attnbook.exercises import Case, exercise


@exercise("Not yet: how far does a pointer reach after one layer, after two?")
def layers(answer):
    """Exercise 23.1: the layers of the ladder for 64 hops."""
    mistakes = {
        "A token holds its pointer already: write 64 - 1 in binary, not 64.": 7,
        "That many steps would do; layers double.": 64,
        "Each layer doubles the reach; it does not add two hops to it.": 32,
        "That is the hops that three or four more layers reach.": 1000,
    }
    yield Case(answer, 6, mistakes)


def _hops(pointers: list[int], k: int) -> list[int]:
    """Where k hops lead from each token."""
    places = list(range(len(pointers)))
    for _ in range(k):
        places = [pointers[place] for place in places]
    return places


@exercise(
    "Not yet: follow one token of a ring of four by hand, for k = 1, 2 and 3.",
    function_of="pointers, k",
)
def ladder(answer):
    """Exercise 23.2: a function that returns where k hops lead, by doubling."""
    cycle = [3, 4, 1, 8, 6, 10, 0, 5, 2, 7, 9]
    given = answer(cycle, 12)
    mistakes = {
        "One hop too many: the result begins with the pointer, so the digits are "
        "those of k - 1.": _hops(cycle, 13),
        "One hop too few: the result begins with the pointer and not with the "
        "token itself.": _hops(cycle, 11),
        "The digits are read from the wrong end: the first round takes the last "
        "digit of k - 1.": _hops(cycle, 14),
        "The pointers do not change: after a round each leads twice as far.": (
            _hops(cycle, 4)
        ),
        "That is the pointer after the last round: the result hops only where the "
        "digit is 1.": _hops(cycle, 16),
    }
    yield Case(given, _hops(cycle, 12), mistakes)
    for pointers, k in (
        ([1, 2, 3, 4, 5, 6, 0, 0], 1),
        ([2, 0, 5, 1, 3, 4, 6], 5),
        ([4, 2, 9, 0, 7, 1, 5, 8, 3, 6, 10], 100_003),
    ):
        yield Case(answer(pointers, k), _hops(pointers, k))


@exercise("Not yet: how many bits must the tile send, and how many does one head send?")
def heads(answer):
    """Exercise 23.3: the least number of heads for the third hop in one layer, for
    n = 1024, values of 8 numbers and 16 bits each.
    """
    mistakes = {
        "Each head sends lambda as well: that is one number more than its value.": 80,
        "Two tokens stand outside the tile.": 72,
        "Each token of the tile can point to 1024 tokens: that takes ten bits.": 8,
        "That is the number of numbers; a head sends several.": 639,
    }
    yield Case(answer, 71, mistakes)


@exercise("Not yet: which of n, L, k and gamma stand in the theorem's condition?")
def temperature(answer):
    """Exercise 23.4: the inverse temperature of the ladder for n = 1024, k = 1000 and
    names at 60 degrees.
    """
    mistakes = {
        "That is the condition for steps. In layers errors add up, and the keys have "
        "errors too.": 18.0218,
        "L is the number of layers, not of hops.": 69.2199,
        "Half of the gap is kept for the errors: the factor is 2 / gamma.": 25.3996,
        "The logarithm is the natural one.": 73.2877,
        "At 60 degrees the inner product is a half, and so is gamma.": 24.0133,
    }
    yield Case(answer, 50.7992, mistakes)
