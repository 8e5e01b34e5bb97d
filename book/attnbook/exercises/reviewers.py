"""Exercises of the page on the reviewers' questions."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: try sequences of 2 tokens first: how many ids have aa, ab, ba, bb?")
def ids(answer):
    """Exercise 19.1: how many ids have all sequences of 4 tokens out of 2, without and
    with positions?
    """
    without, positions = fit(answer, (8, 64))
    mistakes = {
        "Five is the number of multisets: an id is a token and its multiset.": 5,
        "That is the number of sequences: without positions, sequences of one multiset "
        "are not told apart.": 16,
        "Equal tokens in one sequence have equal ids: how many different tokens has "
        "each multiset?": 20,
        "Those are the tokens: the same token in another multiset has another id.": 2,
    }
    yield Case(without, 8, mistakes)
    mistakes = {
        "That is the number of sequences: with positions each of their positions "
        "has an id.": 16,
    }
    second = "The first number is right; for the second, do two positions share an id?"
    yield Case(positions, 64, mistakes, otherwise=second)


@exercise("Not yet: with one cell the bound is 3; what do two cells make of it?")
def cells(answer):
    """Exercise 19.2: the least g for which the bound L / (2 g) is at most 0.01, for L =
    6.
    """
    mistakes = {
        "That is L / 0.01: a point is at most half a cell from its centre.": 600,
        "Equality is enough: the bound may be 0.01.": 301,
        "Slightly too few: the bound is still above 0.01.": 299,
        "That is L / 2: where is the error of 0.01?": 3,
    }
    yield Case(answer, 300, mistakes)


@exercise(
    "Not yet: try g = 1, where every entry moves to 1/2, then g = 2.",
    function_of="x, g",
)
def centre(answer):
    """Exercise 19.3: a function that moves each entry of x in [0, 1] to the centre of
    its cell, one of g.
    """
    for g, shape in ((4, (9,)), (7, (3, 5))):
        generator = torch.Generator().manual_seed(g)
        x = torch.rand(shape, generator=generator, dtype=torch.float64)
        x.view(-1)[:2] = torch.tensor([0.0, 1.0])
        number = (x * g).floor()
        cell = number.clamp(max=g - 1)
        mistakes = {
            "Only x = 1 is wrong: it belongs to the last cell, not to one beyond.": (
                (number + 0.5) / g
            ),
            "Those are the left ends of the cells, and x = 1 has none.": number / g,
            "Those are the left ends of the cells: the centre is further right.": (
                cell / g
            ),
            "You rounded to the borders of the cells; their centres lie half-way "
            "between.": (x * g).round() / g,
        }
        yield Case(answer(x, g), (cell + 0.5) / g, mistakes)


@exercise("Not yet: solve 2 (n - 1) e^(-beta gamma) = 0.01 for beta, and round up.")
def sharpness(answer):
    """Exercise 19.4: the least whole beta for which the bound of Proposition 19.2 is at
    most 0.01, for 1000 unit vectors with margin 0.05.
    """
    mistakes = {
        "Rounded down: there the bound is still a little above 0.01.": 244,
        "You left out the 2: two unit vectors may be 2 apart.": 231,
        "That logarithm is to base ten; softmax is made of powers of e.": 107,
        "The 0.01 is missing: there the bound is 1.": 152,
        "That is ln(1998/0.01): divide it by the margin.": 13,
    }
    yield Case(answer, 245, mistakes)
