"""The patterns of the copying task: causal, by name and one size w.

Page: notebooks/sparse_universality/copying_task
"""

from __future__ import annotations

from typing import Literal, get_args

import torch

from attnlib import patterns
from attnlib._require import one_of, random, require, sizes
from attnlib.patterns import Columns, Pattern, Window, build

Name = Literal["dense", "strided", "half strided", "fixed", "window", "star", "random"]


def causal_pattern(
    name: Name, n: int, w: int = 0, *, generator: torch.Generator | None = None
) -> Pattern:
    """A causal pattern by its name: no token reads one behind it. It has two steps for
    strided, half strided and fixed, else one.

        dense:         all
        window:        the last w tokens, itself included
        star:          0, k - 1 and k
        strided:       a window of w, then every w-th token
        half strided:  the same with a window of w/2
        fixed:         the own block of w, then the last token of every block
        random:        k and w draws among 0..k, without replacement; k may be drawn

    Args:
        name: one of the words above.
        n: tokens.
        w: the size, of no use to dense and star.
        generator: for random, on the CPU.

    Source: Child et al. 2019 (strided, fixed) and Guo et al. 2019 (star), recalled;
        differs: the star's relay stands in front, where all may read it.
    Claim: copying.relay
    """
    one_of(get_args(Name), name=name)
    sizes(1, n=n)
    sizes(0, w=w)
    require(
        name in ("dense", "star") or 1 <= w <= n,
        f"w must be in 1..n = 1..{n} for {name}, got {w}",
    )
    match name:
        case "dense":
            pattern = patterns.dense(n)
        case "strided":
            pattern = patterns.strided(n, w, reach=w - 1)
        case "half strided":
            pattern = patterns.strided(n, w)
        case "fixed":
            pattern = patterns.fixed(n, w)
        case "window":
            pattern = build(n, Window(w - 1, 0))
        case "star":
            pattern = build(n, [Window(1, 0), Columns((0,))])
        case "random":
            random(generator)
            rows = []
            for k in range(n):
                order = torch.randperm(
                    k + 1, generator=generator, device=generator.device
                )
                rows.append(sorted({k, *order[:w].tolist()}))
            pattern = patterns.from_sets(rows)
    return patterns.causal(pattern)
