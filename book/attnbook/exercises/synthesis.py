"""Exercises of the page that reads one matrix in five ways."""

from __future__ import annotations

import torch

from attnbook.exercises import Case, exercise


@exercise("Not yet: B maps some vector to 0; how short can P make it, at the least?")
def rank(answer):
    """Exercise 24.1: the proved distance, in row sums, of rank n - 1 from a matrix with
    0.8 in each row and column.
    """
    mistakes = {
        "That is the entry itself: the rest of the row may work against it.": 0.8,
        "That is the rest of the row, which works against the entry.": 0.2,
        "That is twice the entry: what does a whole row sum to?": 1.6,
        "Rank n - 1 is less than n, so B has a kernel: look at P on a vector of it.": (
            0.0
        ),
    }
    yield Case(answer, 0.6, mistakes)


@exercise("Not yet: by which factor does Corollary 24.1 let one layer shrink it?")
def layers(answer):
    """Exercise 24.2: after how many layers is the diameter below a thousandth for sure,
    for logits in [-1, 1]?
    """
    mistakes = {
        "Close: after 25 layers it is still above a thousandth.": 25,
        "You took a factor 1/e a layer: a layer shrinks by less.": 7,
        "You took the length of the interval for the radius: the radius of [-1, 1] is "
        "1.": 189,
        "You halved the radius: the radius of [-1, 1] is 1.": 9,
    }
    yield Case(answer, 26, mistakes)


@exercise("Not yet: the two ends are 63 apart; how far does a layer reach?")
def hops(answer):
    """Exercise 24.3: the fewest layers of a contextual mapping with a window of five
    tokens on 64 tokens.
    """
    mistakes = {
        "That is log_5 64, rounded up: the windows of neighbours overlap, so they "
        "reach much less.": 3,
        "You moved by four tokens a layer: a window of five reaches two on each "
        "side.": 16,
        "You moved by five tokens a layer: a window of five reaches two on each "
        "side.": 13,
        "Token 0 must hear of token 63, which is 63 places away. Round up.": 31,
        "A layer moves news by more than one place, and the ends are 63 apart.": 64,
        "A layer moves news by more than one place.": 63,
        "One layer is enough only if every token reads all.": 1,
    }
    yield Case(answer, 32, mistakes)


@exercise(
    "Not yet: two tokens with the identity have 1, and equal rows have 0.",
    function_of="p",
)
def coefficient(answer):
    """Exercise 24.4: a function that returns the coefficient of Dobrushin of a
    row-stochastic matrix.
    """
    g = torch.Generator().manual_seed(19)
    even = [0.2, 0.2, 0.2, 0.2, 0.2]
    left = [0.6, 0.3, 0.1, 0.0, 0.0]
    middle = [0.0, 0.2, 0.3, 0.2, 0.3]
    right = [0.0, 0.0, 0.1, 0.3, 0.6]
    small = torch.randn(3, 3, generator=g, dtype=torch.float64)
    large = torch.randn(6, 6, generator=g, dtype=torch.float64)
    # Rows 1 and 3 are furthest apart.
    spread = torch.tensor([even, left, middle, right, even], dtype=torch.float64)
    for p in (torch.softmax(2 * small, -1), torch.softmax(2 * large, -1), spread):
        gaps = (p[:, None] - p).abs()
        halves = gaps.sum(-1) / 2
        columns = (p.T[:, None] - p.T).abs().sum(-1) / 2
        moduli = torch.linalg.eigvals(p).abs().sort().values
        mistakes = {
            "You left out the factor 1/2: two rows of probabilities are at most 2 "
            "apart.": 2 * halves.max(),
            "That is the largest difference of two entries: add up the differences of "
            "two rows.": gaps.max(),
            "That is the overlap of two rows, what they share.": 1 - halves.max(),
            "That is the coefficient of Doeblin, what all rows share taken from 1: "
            "two rows at a time count.": (1 - p.amin(0).sum()),
            "That is the modulus of the second eigenvalue, the rate of high powers: "
            "one layer is asked for, and its rows are to be compared.": moduli[-2],
            "You compared columns: the rows of P are the probabilities.": columns.max(),
            "That is the mean over pairs: the coefficient is the largest.": (
                halves.mean()
            ),
            "You compared all rows with row 0 only: every pair counts.": (
                halves[0].max()
            ),
            "You compared neighbouring rows only: every pair counts.": (
                halves.diagonal(1).max()
            ),
        }
        mistakes = {sentence: float(value) for sentence, value in mistakes.items()}
        yield Case(answer(p), float(halves.max()), mistakes)
