"""Exercises of the page on what a tile must tell."""

from __future__ import annotations

from collections.abc import Callable

from attnbook.exercises import Case, Objection, exercise, items, number


@exercise(
    "Not yet: how many numbers does a head hand on, how many bits are they together, "
    "and how many bits has a token?"
)
def context(answer):
    """Exercise 20.1: among how many tokens of 65,536 kinds can a layer of 8 heads of
    width 128 look one up, with 16 bits a number?
    """
    mistakes = {
        "A head tells one number more than its values: lambda.": 1024,
        "That is one head; there are eight.": 129,
        "Those are bits, and each token has 16 of them.": 16512,
        "Each token has 16 bits, and each number has 16 bits, too.": 64,
        "Lambda is told once a head, not once a layer.": 1025,
    }
    yield Case(answer, 1032, mistakes)


@exercise(
    "Not yet: write the table of a small task, a row for each tile, and cross out rows "
    "that stand there twice.",
    function_of="f, tiles, others",
)
def rows(answer):
    """Exercise 20.2: a function that counts the different rows of the table f(A, B)."""
    strings = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    yield _counted(answer, _at, strings, [0, 1, 2])
    yield _counted(answer, _more, strings, [0, 1, 2, 3])
    yield _counted(answer, _odd, strings[:5], [0, 1])
    yield _counted(answer, _product, [(0,), (2,), (3,), (2,)], [0, 1, 5, 7])


def _at(a, b):
    return a[b]


def _more(a, b):
    return sum(a) + b > 3


def _odd(a, b):
    return (sum(a) + b) % 2


def _product(a, b):
    return a[0] * b


def _counted(answer: Callable, f: Callable, tiles: list, others: list) -> Case:
    """What an answer says of one table."""
    table = [[f(a, b) for b in others] for a in tiles]
    values = {value for row in table for value in row}
    mistakes = {
        "That is how many tiles there are: some have the same row.": len(tiles),
        "Those are different values; a row is a list of values.": len(values),
        "Those are columns: a row belongs to one A.": len(set(zip(*table))),
        "Those are different numbers of ones in a row; their order counts, too.": (
            len({sum(row) for row in table})
        ),
    }
    right = len({tuple(row) for row in table})
    return Case(answer(f, tiles, others), right, mistakes)


@exercise()
def confused(answer):
    """Exercise 20.3: two different lists of four bits that an even mean with the values
    1, 2, 3, 4 confuses.
    """
    first, second = (_bits(given) for given in items(answer, 2))
    if first == second:
        yield "Two different lists were wanted; yours are the same."
    sums = [sum(v * b for v, b in zip((1, 2, 3, 4), x)) for x in (first, second)]
    if sums[0] != sums[1]:
        one, other = sums
        yield f"Not yet: the values add up to {one} and to {other}: the means differ."


def _bits(given) -> tuple[int, ...]:
    """Four bits."""
    bits = tuple(number(bit) for bit in items(given, 4))
    if not set(bits) <= {0, 1}:
        raise Objection("Bits are 0 or 1; yours hold another number.")
    return bits


@exercise("Not yet: how many positions need a key of their own?")
def signs(answer):
    """Exercise 20.4: how many signs have the keys of layer 1 for 600 bits?"""
    mistakes = {
        "That tells 600 apart; slots and the query have positions, too.": 10,
        "Those are the positions; how many signs tell them apart?": 1201,
        "A sign is one of two, and the logarithm has the base 2.": 8,
        "That is a sign for each position.": 1200,
    }
    yield Case(answer, 11, mistakes)
