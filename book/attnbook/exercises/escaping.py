"""Exercises of the page on what stops the collapse."""

from __future__ import annotations

import math

from attnbook.exercises import Case, exercise


@exercise(
    "Not yet: try one head of strength 0, then one whose strength is huge.",
    function_of="values, strengths, diameter",
)
def keeps(answer):
    """Exercise 4.1: a function that returns 1 - c_H."""
    values = [0.3, 0.2]
    strengths = [1.0, 3.0]
    diameter = 1.5
    quarters = [w * diameter**2 / 4 for w in strengths]
    without_quarter = [w * diameter**2 for w in strengths]
    without_square = [w * diameter / 4 for w in strengths]
    heads = _heads(values, quarters)
    linear = sum(v * q for v, q in zip(values, quarters))
    mistakes = {
        "That is c_H: the skip keeps 1 - c_H.": sum(heads),
        "That is the bound with a mask: without one, each head carries a tanh.": (
            1 - sum(values)
        ),
        "A quarter is missing in the argument of tanh.": (
            1 - sum(_heads(values, without_quarter))
        ),
        "The logits are quadratic in the distances: square the diameter.": (
            1 - sum(_heads(values, without_square))
        ),
        "That is k diameter^2, a bound of c_H; the theorem has tanh.": 1 - linear,
        "You took the strongest head alone: the heads add up.": 1 - max(heads),
        "Heads of one layer add up; factors belong to layers.": (
            math.prod(1 - head for head in heads)
        ),
    }
    yield Case(answer(values, strengths, diameter), 1 - sum(heads), mistakes)


def _heads(values: list[float], arguments: list[float]) -> list[float]:
    return [v * math.tanh(a) for v, a in zip(values, arguments)]


@exercise("Not yet: where does attention move 1 and -1? The clip must undo it.")
def slope(answer):
    """Exercise 4.2: the smallest slope of a clip that keeps two tokens at 1 and -1, for
    e^2w = 2.
    """
    mistakes = {
        "That is tanh(w), not yet the slope.": 1 / 3,
        "That is the threshold for e^2w = 3, or e^2w itself: find tanh(w).": 2.0,
        "That is 1 / tanh(2w): a token has the logit w with itself and -w with the "
        "other.": 5 / 3,
        "Too flat: a slope below 1 only shrinks the tokens further.": 0.5,
        "That is 1 / w: attention moves 1 to a number below w.": 2 / math.log(2),
    }
    yield Case(answer, 3.0, mistakes)


@exercise("Not yet: put tokens 1 and 2 at 0 and 1; where is token 2 after one layer?")
def depth(answer):
    """Exercise 4.3: layers of uniform causal attention until tokens 1 and 2 are closer
    than 10^-6.
    """
    mistakes = {
        "Nearly: it is still about 1.9 in a million, which is not yet below.": 19,
        "That is one decade a layer; a layer does less.": 6,
        "That is for a factor of 1/3 a layer, which belongs to the next token.": 13,
        "That is the cube of pure attention: a causal mask stops it.": 3,
        "One layer too many: it is below already before that.": 21,
    }
    yield Case(answer, 20, mistakes)


@exercise("Not yet: what does the layer make of two equal tokens? That is G.")
def rate(answer):
    """Exercise 4.4: c/G of one head with W = -I/2 and t = 1/2, with a skip."""
    mistakes = {
        "That is c alone: what happens to the part that all tokens share?": 1.25,
        "That is the floor's 2 - c over G: how much can a difference grow at most?": (
            1.5
        ),
        "You used |W| for the shared part, but there the sign counts.": 1.25 / 1.5,
        "You forgot the t of the differences: rows of P differ by a half only.": 3.0,
        "That is G/c.": 0.4,
        "That is G, or t without the skip: differences also need the skip.": 0.5,
    }
    yield Case(answer, 2.5, mistakes)


@exercise("Not yet: write the mass on the contents as 100 / (100 + e^g).")
def sink(answer):
    """Exercise 4.5: the least e^g with which a start token keeps 100 contents to
    0.01.
    """
    mistakes = {
        "Nearly: the start token needs 99 times the weight of all contents.": 10_000,
        "That is for a single content: there are a hundred.": 99,
        "That is g: the question was for e^g.": math.log(9900),
        "That is the mass of the start token.": 0.99,
        "You gave the start token 0.01 and the contents the rest.": 100 / 99,
    }
    yield Case(answer, 9900, mistakes)
