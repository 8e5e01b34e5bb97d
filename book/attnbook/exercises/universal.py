"""Exercises of the two pages on the universality proof."""

from __future__ import annotations

import math

import torch

from attnbook.exercises import Case, exercise, fit


@exercise("Not yet: find y_2 first; how far does token 2 move, and towards what?")
def sweep(answer):
    """Exercise 13.1: y_3 for n = 3, d = 1, K = 4, dense attention and the ids 9, 2,
    5.
    """
    mistakes = {
        "That is y_2: go on to token 3.": 30,
        "You forgot the skip, which keeps the old id.": 100,
        "Token 3 reads the moved id of token 2, not x_1: its maximum is y_2.": 21,
        "That is N times y_2 alone: x_3 counts as well.": 120,
    }
    yield Case(answer, 105, mistakes)


@exercise(
    "Not yet: try one token, then two; which residue modulo N has y_n?",
    function_of="y, N, lows",
)
def read(answer):
    """Exercise 13.2: a function that returns the ids x_1, .., x_n behind y_n."""
    instances = (
        ([8, 0, 4], [9, 2, 5], 4),
        ([18, 0, 6, 12], [20, 1, 8, 12], 3),
        ([30, 0], [31, 4], 5),
        ([12, 0, 6], [14, 1, 7], 4),
    )
    for lows, x, N in instances:
        y = x[0]
        for later in x[1:]:
            y = N * y - (N - 1) * later
        ids = fit(answer(y, N, lows), x)
        last = ids[-1]
        if ids == x[::-1]:
            yield "That is the list backwards: x_1 belongs to the front."
        if last != x[-1] and last == lows[-1] + y % N:
            yield "y mod N is the residue of x_n, not its distance from low."
        if last != x[-1] and last % N == x[-1] % N:
            yield (
                "The residue of x_n is right, its interval is not: x_n lies in [low, "
                "low + N)."
            )
        yield Case(last, x[-1])
        yield Case(
            ids, x, otherwise="x_n is right: what do y_n and x_n say of y_(n-1)?"
        )


@exercise("Not yet: count the quantiser, the attention and the values apart, then add.")
def layers(answer):
    """Exercise 13.3: all layers of the network for p = 2, s = 3, n = 5, d = 1, K =
    4.
    """
    quantise = 20
    attention = 35
    value = 5120
    mistakes = {
        "Those are the attention layers alone.": attention,
        "Those are the value layers alone.": value,
        "The value layers are missing, and they are by far the most.": (
            quantise + attention
        ),
        "The quantiser is missing.": attention + value,
        "The attention layers are missing.": quantise + value,
        "A pattern of two steps spends two layers on each value.": (
            quantise + 19 + value
        ),
        "The s all-max layers are missing.": quantise + 32 + value,
        "A value layer serves one token of one input.": quantise + attention + 1024,
        "The first token of the path is not moved: n - 1 tokens are.": (
            quantise + 43 + value
        ),
    }
    yield Case(answer, 5175, mistakes)


@exercise("Not yet: how many pairs of rows are there, and how often does a pair meet?")
def cells(answer):
    """Exercise 13.4: cells to an edge so that 3 rows of 2 features share a cell on at
    most a hundredth of the cube.
    """
    mistakes = {
        "That is the number of cells of a row, K^d; K was asked for.": 300,
        "That is enough for one pair of rows: three rows make more pairs.": 10,
        "That gives up a little more than one hundredth.": 17,
        "That counts n^2 pairs; a pair has no order, and no row is paired with "
        "itself.": 30,
        "That counts every pair twice.": 25,
    }
    yield Case(answer, 18, mistakes)


@exercise(
    "Not yet: how much may each of the others leak, if they may leak 1e-6 in all?"
)
def scale(answer):
    """Exercise 14.1: the inverse temperature at which 17 scores with a lead of 1/2 leak
    at most 1e-6.
    """
    right = 2 * math.log(16e6)
    mistakes = {
        "You left out the gap of 1/2.": right / 2,
        "The gap is on the wrong side: a smaller gap needs a larger lambda.": right / 4,
        "There are n - 1 others, the winner is not one of them.": 2 * math.log(17e6),
        "The n - 1 others leak together: their number is missing.": 2 * math.log(1e6),
        "The logarithm is the natural one.": 2 * math.log10(16e6),
    }
    yield Case(answer, right, mistakes)


@exercise(
    "Not yet: take id 0 and ramp 1/2, and draw the four corners of the window.",
    function_of="x, ident, ramp",
)
def bump(answer):
    """Exercise 14.2: a function that is 1 near ident and 0 away from it, by four
    ReLUs.
    """
    for ident, ramp in ((5, 0.25), (0, 0.1), (12, 0.5)):
        x = ident + torch.linspace(-2, 2, 161, dtype=torch.float64)
        t = x - ident
        rise = ((t + 0.5 + ramp) / ramp).clamp(0, 1)
        fall = ((t - 0.5 + ramp) / ramp).clamp(0, 1)
        late_rise = ((t + 0.5) / ramp).clamp(0, 1)
        late_fall = ((t - 0.5) / ramp).clamp(0, 1)
        mistakes = {
            "The slope is missing: divide by the ramp.": (rise - fall) * ramp,
            "The ramps lie the other way round: up before id - 1/2, down before id + "
            "1/2.": late_rise - late_fall,
            "It never comes down: two more ReLUs take it back to 0.": rise,
            "That jumps: ReLUs give ramps.": ((t >= -0.5) & (t < 0.5)).double(),
        }
        yield Case(answer(x, ident, ramp), rise - fall, mistakes)


@exercise("Not yet: solve the bound of the theorem for h, and round G up.")
def entries(answer):
    """Exercise 14.5: how many entries a table needs for an error of 1/100, for slope 2
    and beta h^2 = 4.
    """
    mistakes = {
        "Nearly: at beta h^2 = 4 the bound is a little more than half of slope times "
        "h.": 100,
        "The slope is missing.": 51,
        "The bound is about half of slope times h, not all of it.": 200,
        "The slope is missing, and so is the second term of the bound.": 50,
        "That is the bound for beta h^2 = 1.": 128,
    }
    yield Case(answer, 101, mistakes)


@exercise(
    "Not yet: with which chance does one entry miss its ramp? How many are there?"
)
def share(answer):
    """Exercise 14.3: the share of the cube with an entry on a ramp of 0.01, for 4
    tokens of 2 features.
    """
    mistakes = {
        "That is an upper bound: entries may meet ramps together.": 0.08,
        "That is the share without an entry on a ramp.": 0.99**8,
        "Each token has two entries.": 1 - 0.99**4,
        "That is the share for one entry.": 0.01,
        "A cell of the quantiser has one ramp, at its upper end.": 1 - 0.98**8,
    }
    yield Case(answer, 1 - 0.99**8, mistakes)


@exercise(function_of="ids")
def hidden(answer):
    """Exercise 14.4: the largest hidden unit at a token whose own layer comes later,
    for value layers in the order of a list.
    """
    texts = ("5 9 2", "40 11 30 7", "5 7 9", "7 3 9 11", "9 5 2")
    instances = [list(map(int, text.split())) for text in texts]
    knots = [_largest_step(ids) + 0.75 for ids in instances]
    right = [max(0.0, knot) for knot in knots]
    mistakes = {
        "Only tokens later in the list still wait, and the sign of later id minus id "
        "counts.": [max(ids) - min(ids) + 0.75 for ids in instances],
        "The first knot does not lie at the id.": (
            [max(0.0, knot - 0.75) for knot in knots]
        ),
        "A hidden unit is a ReLU: it is not negative.": knots,
    }
    hints = [f"Not yet: try ids = {ids} by hand." for ids in instances]
    yield Case([answer(ids) for ids in instances], right, mistakes, otherwise=hints)


def _largest_step(ids: list[int]) -> int:
    """The largest difference of an id and one before it in the list."""
    steps = []
    for k, later in enumerate(ids):
        steps += [later - before for before in ids[:k]]
    return max(steps)
