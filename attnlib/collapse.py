"""Rank collapse: the residual, its norm, bounds as printed and as repaired, and a recursion that never underflows."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnlib._require import finite, tokens


def residual(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
    """What is left of the tokens after their mean is taken away.

        res(X) = X - 1 x',   x = X' 1 / n

    Args:    x: (*batch, n, d), tokens are rows.
    Returns: (*batch, n, d); zero if and only if all tokens are equal.
    Raises:  ValueError for integer x, no token, NaN or infinity.
    Cost:    O(n d).
    Source:  Xie 2021, Definition 2.1; the token mean minimises |X - 1 x'| in the 2-norm and the Frobenius norm.
    Page:    notebooks/path_decomposition/rank_collapse
    """
    tokens(x)
    finite(x=x)
    return x - x.mean(-2, keepdim=True)


def composite_norm(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """The geometric mean of the largest absolute column sum and the largest absolute row sum.

        |X|_{1,inf} = sqrt( |X|_1 |X|_inf )

    Args:    x: (*batch, n, d).
    Returns: (*batch). Not a norm: the triangle inequality fails.
    Raises:  ValueError for integer x, no token, NaN or infinity.
    Cost:    O(n d).
    Source:  Dong et al. 2021; Xie 2021, Definition 2.1.
    Page:    notebooks/path_decomposition/rank_collapse
    """
    tokens(x)
    finite(x=x)
    columns, rows = x.abs().sum(-2).amax(-1), x.abs().sum(-1).amax(-1)
    return (columns * rows).sqrt()
