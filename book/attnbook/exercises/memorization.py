"""Exercises of the page on exact memorization."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise


@exercise(
    "Not yet: try one id; which slope leads from (start, 0) to its label?",
    function_of="ids, labels, start",
)
def coefficients(answer):
    """Exercise 18.1: a function that returns the coefficients of the network with knots
    on the ids before.
    """
    instances = (
        ([1.0, 2.0, 4.0], [3.0, 1.0, 5.0], 0.0),
        ([0.5, 3.0, 4.0, 8.0], [-2.0, 1.0, 1.0, 7.0], -1.0),
    )
    for ids, labels, start in instances:
        t = torch.tensor(ids, dtype=torch.float64)
        y = torch.tensor(labels, dtype=torch.float64)
        zero = y.new_zeros(1)
        runs = torch.diff(t, prepend=zero + start)
        slopes = torch.diff(y, prepend=zero) / runs
        right = torch.diff(slopes, prepend=zero)
        mistakes = {
            "Those are the slopes: a coefficient is what the slope changes by at its "
            "knot.": slopes,
            "The sign is turned: the slope after a knot is the slope before plus the "
            "coefficient.": -right,
            "You used the labels themselves: a slope needs the difference of two "
            "labels.": y / runs,
        }
        yield Case(answer(t, y, start), right, mistakes)


@exercise("Not yet: try theta = 1/2 first, where the error does not grow.")
def growth(answer):
    """Exercise 18.2: with theta = 0.4, after how many further knots has an error of
    1e-16 in a slope grown to 1?
    """
    mistakes = {
        "Round up: after 90 knots it is still 0.71.": 90,
        "You multiplied by ten at each knot: the error grows by less.": 16,
        "You took the factor 1 / theta: the error grows by less.": 41,
        "You took the factor 1 / (1 - theta): the error grows by less.": 73,
    }
    yield Case(answer, 91, mistakes)


@exercise("Not yet: count attention, units and the skip apart, all without biases.")
def parameters(answer):
    """Exercise 18.3: parameters without biases of the dense block for N = 100, n = 10,
    d = 8, s = 1.
    """
    mistakes = {
        "You counted the weights into the units or those out of them, not both.": 8100,
        "You left out the attention.": 16064,
        "You left out the matrix that takes the skip away.": 16036,
        "You counted the biases; the formula leaves them out.": 17108,
        "A unit stands for a token in its sequence, so there are n N of them, not "
        "N.": 1700,
    }
    yield Case(answer, 16100, mistakes)


@exercise("Not yet: first find how many groups there must be, then count units.")
def groups(answer):
    """Exercise 18.5: hidden units by groups for 1,000 ids of width 24, of which one
    token has 50.
    """
    mistakes = {
        "Two ids of one token cannot share a group, since they lie on a line with all "
        "others of that token.": 168,
        "That is a unit an id, for a layer that reads one number.": 1000,
        "You counted groups; each takes several units.": 50,
        "You counted groups, and each takes several units. And can two ids of one "
        "token share a group?": 42,
        "You added the two numbers of groups; the larger one is enough.": 368,
    }
    yield Case(answer, 200, mistakes)


@exercise(function_of="words, tags")
def contradictions(answer):
    """Exercise 18.4: a function that says whether one layer without positions can
    memorize the sentences.
    """
    instances = (
        (
            "ab cd",
            "xy yx",
            True,
            "Nothing contradicts here: different words in different sentences.",
        ),
        (
            "ab ac",
            "xy yy",
            True,
            "The word a has two tags, but in different company; that is what context "
            "is for.",
        ),
        (
            "ab ba",
            "xy xy",
            False,
            "The same words in another order: without positions a gets one tag, and x "
            "and y were asked for.",
        ),
        (
            "ab ba",
            "xy yx",
            True,
            "The order differs, but each word keeps its tag: that can be memorized.",
        ),
        (
            "aab abb",
            "xxy yxx",
            True,
            "Repeated words count: a a b and a b b are different multisets.",
        ),
        (
            "ab aabb",
            "xy yyxx",
            False,
            "a b and a a b b hold the same shares of each word, and a softmax sees "
            "only shares.",
        ),
        (
            "abbc abcc",
            "xppp yqqq",
            True,
            "In a b b c and a b c c the word a has the same share, but its company "
            "differs.",
        ),
        (
            "aa",
            "xy",
            False,
            "A word twice in one sentence gets the same output twice.",
        ),
    )
    for sentences, marks, possible, hint in instances:
        words = [list(sentence) for sentence in sentences.split()]
        tags = [list(sentence) for sentence in marks.split()]
        yield Case(answer(words, tags), possible, otherwise=hint)
