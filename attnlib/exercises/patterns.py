"""Exercises of the page on sparse patterns. Every function takes an answer and returns
a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

from attnlib import patterns
from attnlib.exercises.paths import NOT_TRIED, RIGHT
from attnlib.patterns import Pattern


def count(answer: object) -> str:
    """Exercise 11.1: how many connections does a window of total width 7 have on 100
    tokens?
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, int | float):
        return f"A number was wanted, yours is {type(answer).__name__}."
    mistakes = {
        700: "That is 100 * 7: the three tokens at each end have fewer neighbours.",
        694: "You took the missing neighbours of one end off, and there are two ends.",
        588: "The self-loops are connections too.",
        672: "That is a half-window of 7 / 2 rounded wrongly: the width 7 is 3 + 1 + 3, and an end lacks 3 + 2 + 1.",
        1444: "You took 7 tokens on each side: 7 is the total width.",
    }
    return (
        RIGHT
        if answer == 688
        else mistakes.get(
            answer, "Not yet: 100 rows of 7, less what hangs over at the two ends."
        )
    )


def heard(answer: Callable | None) -> str:
    """Exercise 11.2: a function (steps, t) that returns the list of the sets S^t_k of a
    cyclic pattern.
    """
    if answer is None:
        return NOT_TRIED
    cases = [
        ([[[0], [0, 1], [1, 2], [2, 3]], [[0], [1], [0, 2], [3]]], 3),
        ([[[0, 2], [1], [2]], [[0], [1, 0], [2]], [[0], [1], [2, 1]]], 2),
        ([[[0, 1], [1, 2], [2, 3], [3, 4], [4]]], 3),
        ([[[1], [2], [0]]], 2),
        ([[[0, 1], [1]]], 0),
        ([[[k, (k + 1) % 20] for k in range(20)]], 17),
    ]
    given = [
        answer([[list(a) for a in step] for step in steps], t) for steps, t in cases
    ]
    if not all(
        isinstance(sets, list | tuple)
        and all(isinstance(s, set | frozenset | list) for s in sets)
        for sets in given
    ):
        return f"A list of n sets was wanted, yours is {type(given[0]).__name__}."
    given = [[set(s) for s in sets] for sets in given]
    if given == [_heard(*c) for c in cases]:
        return RIGHT
    mistakes = {
        "The steps run backwards: layer 1 uses step 1, and the newest layer reads the sets of the layer before.": [
            _heard(*c, order=-1) for c in cases
        ],
        "A token that does not read itself forgets: only the sets of what it reads in this layer count.": [
            _heard(*c, keep=True) for c in cases
        ],
        "The cycle of steps goes on for as many layers as are wanted.": [
            _heard(steps, min(t, 3 * len(steps))) for steps, t in cases
        ],
        "Only the first step is used: layer t uses step (t - 1) mod p.": [
            _heard(*c, cyclic=False) for c in cases
        ],
        "That is one layer too many.": [_heard(steps, t + 1) for steps, t in cases],
        "That is one layer too few: S^1_k is A_k of the first step.": [
            _heard(steps, t - 1) for steps, t in cases
        ],
        "The edges are turned round: j in A_k means that k reads j.": [
            _heard(_turned(steps), t) for steps, t in cases
        ],
    }
    named = [words for words, wrong in mistakes.items() if given == wrong]
    return (
        named[0]
        if named
        else "Not yet: start with S_k = {k}, and let each layer unite the sets of what k reads."
    )


def _heard(steps, t, order=1, cyclic=True, keep=False):
    layers = [steps[i % len(steps) if cyclic else 0] for i in range(t)][::order]
    sets = [{k} for k in range(len(steps[0]))]
    for step in layers:
        sets = [
            set(sets[k] if keep else ()).union(*(sets[j] for j in row))
            for k, row in enumerate(step)
        ]
    return sets


def _turned(steps):
    return [
        [[k for k, row in enumerate(step) if j in row] for j in range(len(step))]
        for step in steps
    ]


def design(answer: object) -> str:
    """Exercise 11.3: a pattern of 20 tokens, at most 60 connections a step, that meets
    all conditions with s = 3.
    """
    if answer is None:
        return NOT_TRIED
    if not isinstance(answer, Pattern) or answer.n != 20:
        return f"A Pattern of 20 tokens was wanted, yours is {getattr(answer, 'n', type(answer).__name__)}."
    found = patterns.check(answer)
    if found.connections > 60:
        return f"At most 60 connections are allowed in a step, yours has {found.connections}."
    for condition, why in found.reasons.items():
        return f"The condition {condition} fails: {why}."
    if found.all_met and found.hops <= 3:
        return RIGHT
    path = "with" if found.hamiltonian_path else "without"
    return f"Three hops and a path are wanted (try three distances on a circle); yours has s = {found.hops}, {path} a path."


def repair(answer: object) -> str:
    """Exercise 11.4: add at most 10 connections to fixed(10, 4) so that all conditions
    hold with s = 2.
    """
    if answer is None:
        return NOT_TRIED
    old = patterns.fixed(10, 4)
    if not isinstance(answer, Pattern) or (answer.n, answer.p) != (10, 2):
        return "A Pattern of 10 tokens and two steps was wanted."
    added = 0
    for step in range(2):
        if bool((old.mask(step) & ~answer.mask(step)).any()):
            return f"Only add: connections of fixed(10, 4) are gone from step {step}."
        added += int((answer.mask(step) & ~old.mask(step)).sum())
    if added > 10:
        return f"At most 10 connections may be added, yours are {added}."
    found = patterns.check(answer)
    if found.all_met and found.hops > 2:
        return f"All conditions hold. Let every token hear of all in two layers: now s = {found.hops}."
    return (
        RIGHT
        if found.all_met
        else f"Not yet: {'; '.join(found.reasons.values()) or 'no path was found'}."
    )
