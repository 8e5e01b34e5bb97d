"""Exercises of the page that executes the universality proof. Every function takes an answer and returns a sentence."""

from __future__ import annotations

from collections.abc import Callable

from attnlib.exercises.paths import NOT_TRIED, RIGHT


def sweep(answer: int | None) -> str:
    """Exercise 12.1: y_3 for n = 3, d = 1, K = 4, dense attention and the ids 9, 2, 5.

    Args:    answer: an integer, or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/sparse_universality/the_proof_executed
    """
    if answer is None:
        return NOT_TRIED
    mistakes = {
        30: "That is y_2: go on to token 3.",
        100: "You forgot to add x_3: the skip keeps the old id.",
        21: "Token 3 reads the moved id of token 2, not x_1: its maximum is y_2.",
        120: "N times y_2 alone: subtract (N - 1) x_3.",
        53: "You added x_i - N twice over: it is y_i = N y_(i-1) - (N - 1) x_i with N = 4, and not N = 2 or 3.",
    }
    return RIGHT if answer == 105 else mistakes.get(answer, "Not yet: y_2 = x_2 + 4 (x_1 - x_2), then the same with y_2.")


def read(answer: Callable | None) -> str:
    """Exercise 12.2: a function (y, N, lows) that returns the ids x_1, .., x_n behind y_n.

    Args:    answer: lows[i] is the smallest id of the token at place i of the path.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    a few small calls.
    Page:    notebooks/sparse_universality/the_proof_executed
    """
    if answer is None:
        return NOT_TRIED
    for lows, x, n_ids in (([8, 0, 4], [9, 2, 5], 4), ([18, 0, 6, 12], [20, 1, 8, 12], 3), ([30, 0], [31, 4], 5)):
        y = x[0]
        for one in x[1:]:
            y = n_ids * y - (n_ids - 1) * one
        got = answer(y, n_ids, list(lows))
        if not isinstance(got, list) or len(got) != len(x):
            return f"A list of {len(x)} integers was wanted, yours is {got!r}."
        if got == x[::-1]:
            return "That is the list backwards: x_1 belongs to the front."
        if [v % n_ids for v in got] == [v % n_ids for v in x] and got != x:
            return "The residues are right, the intervals are not: x_i is the number with that residue in its own interval."
        if got[-1] == x[-1] and got != x:
            return "x_n is right: then go down by y_(n-1) = x_n + (y_n - x_n) / N."
        if got != x:
            return "Not yet: y_n and x_n have the same residue modulo N, and x_n lies in [low, low + N)."
    return RIGHT


def layers(answer: int | None) -> str:
    """Exercise 12.3: all layers of the network for p = 2, s = 3, n = 5, d = 1, K = 4.

    Args:    answer: an integer, or None.
    Returns: a sentence that says what is right or what went wrong.
    Cost:    O(1).
    Page:    notebooks/sparse_universality/the_proof_executed
    """
    if answer is None:
        return NOT_TRIED
    quantise, attention, value = 20, 35, 5120
    mistakes = {
        attention: "Those are the attention layers alone.",
        value: "Those are the value layers alone.",
        quantise + attention: "The value layers are missing, and they are by far the most.",
        attention + value: "The quantiser is missing: d n K layers.",
        quantise + value: "The attention layers are missing.",
        quantise + 19 + value: "A pattern of two steps spends two layers on each value: p (n - 1) K^d.",
        quantise + 32 + value: "The s all-max layers are missing.",
        quantise + attention + 1024: "A value layer serves one token of one input: there are n K^(n d).",
        quantise + 43 + value: "The first token of the path is not moved: n - 1 tokens are.",
    }
    return RIGHT if answer == 5175 else mistakes.get(answer, "Not yet: d n K + p (n - 1) K^d + s + n K^(n d).")
