"""Exercises of the page on sparse patterns."""

from __future__ import annotations

from collections.abc import Callable

from attnbook.exercises import Case, described, exercise
from attnlib import patterns
from attnlib.patterns import Pattern


@exercise("Not yet: write down the rows of tokens 0, 1 and 50; how long are they?")
def count(answer):
    """Exercise 12.1: how many connections does a window of total width 7 have on 100
    tokens?
    """
    mistakes = {
        "That is 100 * 7: the three tokens at each end have fewer neighbours.": 700,
        "You took the missing neighbours of one end off, and there are two ends.": 694,
        "The self-loops are connections too.": 588,
        "You took too much off at the ends: the width 7 is 3 + 1 + 3.": 672,
        "You took 7 tokens on each side: 7 is the total width.": 1444,
    }
    yield Case(answer, 688, mistakes)


@exercise(
    "Not yet: try t = 0, where each token has heard of itself alone, then t = 1.",
    function_of="steps, t",
)
def heard(answer):
    """Exercise 12.2: a function that returns the list of the sets S^t_k of a cyclic
    pattern.
    """
    ring = [[k, (k + 1) % 20] for k in range(20)]
    instances = (
        (["0  01  12  23", "0  1  02  3"], 3),
        (["02  1  2", "0  10  2", "0  1  21"], 2),
        (["01  12  23  34  4"], 3),
        (["1  2  0"], 2),
        (["01  1"], 0),
    )
    for texts, t in instances:
        steps = [_step(text) for text in texts]
        yield _hearing(answer, steps, t)
    yield _hearing(answer, [ring], 17)


def _step(text: str) -> list[list[int]]:
    """The lists of a step, one for each token, from their digits."""
    return [list(map(int, row)) for row in text.split()]


def _hearing(answer: Callable, steps: list, t: int) -> Case:
    """What an answer says of t layers of the given steps."""
    turned = [_turned(step) for step in steps]
    three_rounds = min(t, 3 * len(steps))
    mistakes = {
        "The steps run backwards: layer 1 uses step 1, and the newest layer reads the "
        "sets of the layer before.": _heard(steps, t, order=-1),
        "A token keeps what it has heard, by the skip, also where it does not read "
        "itself.": _heard(steps, t, keep=False),
        "The sets change while they are still read: a layer reads the sets of the "
        "layer before.": _heard(steps, t, in_place=True),
        "The cycle of steps goes on for as many layers as are wanted.": (
            _heard(steps, three_rounds)
        ),
        "Only the first step is used: the layers go through all steps in turn.": (
            _heard(steps[:1], t)
        ),
        "That is one layer too many.": _heard(steps, t + 1),
        "That is one layer too few: S^1_k is k and A_k of the first step.": (
            _heard(steps, t - 1)
        ),
        "The edges are turned round: j in A_k means that k reads j.": (
            _heard(turned, t)
        ),
    }
    return Case(answer(steps, t), _heard(steps, t), mistakes)


def _heard(
    steps: list, t: int, *, order: int = 1, keep: bool = True, in_place: bool = False
) -> list[set[int]]:
    """The sets after t layers, with the mistakes that are asked for."""
    sets = [{k} for k in range(len(steps[0]))]
    layers = [steps[i % len(steps)] for i in range(t)]
    for step in layers[::order]:
        below = sets if in_place else list(sets)
        for k, row in enumerate(step):
            kept = below[k] if keep else set()
            sets[k] = kept.union(*[below[j] for j in row])
    return sets


def _turned(step: list) -> list:
    """The lists of who reads a token, in place of whom it reads."""
    readers = [[] for _ in step]
    for k, row in enumerate(step):
        for j in row:
            readers[j].append(k)
    return readers


@exercise()
def design(answer):
    """Exercise 12.3: a pattern of 20 tokens, each of which reads at most three a step,
    that loses nothing, with s = 3.
    """
    if not isinstance(answer, Pattern):
        yield f"A Pattern of 20 tokens was wanted; yours is {described(answer)}."
    if answer.n != 20:
        yield f"A Pattern of 20 tokens was wanted; yours has {answer.n}."
    most = max(int(answer.mask(step).sum(-1).max()) for step in range(answer.p))
    if most > 3:
        yield f"A token may read three in a step; in yours one reads {most}."
    found = patterns.check(answer)
    if not found.universal:
        yield f"This pattern loses something: {found.reasons['hops']}."
    if found.hops > 3:
        yield (
            "Three hops are wanted (try three distances on a circle); yours has s = "
            f"{found.hops}."
        )


@exercise(
    "Not yet: which tokens of the first half does some token of the second half read?"
)
def bits(answer):
    """Exercise 12.5: the least number of layers that the bits allow for copying the
    first half of 2,000 tokens through a Longformer pattern, w = 5, g = 3.
    """
    mistakes = {
        "That is the hops. They let news arrive, not all of it.": 2,
        "A half has 1,000 tokens.": 50,
        "A symbol of 256 takes eight bits.": 4,
        "The window crosses the cut as well.": 42,
        "The global tokens stand in the first half, and are read by all.": 63,
        "Of the window only one side looks back.": 18,
    }
    yield Case(answer, 25, mistakes)


@exercise()
def repair(answer):
    """Exercise 12.4: add at most 10 connections to fixed(10, 4) so that nothing is lost
    and s = 2.
    """
    wanted = "A Pattern of 10 tokens and two steps was wanted"
    if not isinstance(answer, Pattern):
        yield f"{wanted}; yours is {described(answer)}."
    if (answer.n, answer.p) != (10, 2):
        yield f"{wanted}; yours has {answer.n} tokens and p = {answer.p}."
    old = patterns.fixed(10, 4)
    added = 0
    for step in range(2):
        before = old.mask(step)
        after = answer.mask(step)
        if (before & ~after).any():
            yield f"Only add: connections of fixed(10, 4) are gone from step {step}."
        added += int((after & ~before).sum())
    if added > 10:
        yield f"At most 10 connections may be added; yours are {added}."
    found = patterns.check(answer)
    if not found.universal:
        yield f"Not yet: {found.reasons['hops']}."
    if found.hops > 2:
        yield (
            "Nothing is lost. Let every token hear of all in two layers: now s = "
            f"{found.hops}."
        )
