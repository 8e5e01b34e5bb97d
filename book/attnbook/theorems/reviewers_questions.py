"""The claims of the page `What the reviewers asked`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, pairwise, product

import torch
from torch import Tensor

from attnbook.data import load_result
from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_floating,
    is_list,
    is_tensor,
    matches,
    numbers,
    require,
    same_device,
    sizes,
    tokens,
)
from attnlib.attention import attention_matrix
from attnlib.certify import Verdict, at_least, at_most
from attnlib.memorize import choose_projection, memorize

double = torch.float64
MOST = 20_000  # multisets of cells that are memorized
ONE_LABEL = 1 / 800  # of the stored task
ROUNDING = 1e-12
IN_ORDER = (
    "no attention",
    "frozen construction",
    "trained, rank 1",
    "trained, 4 heads",
)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def units(g: int, n: int, d: int = 1) -> int:
    """D of (18.1): tokens on a grid, each in each multiset of n of them.

    Args:
        g: cells a coordinate.
        n: tokens.
        d: width.

    Returns:
        g^d C(g^d + n - 2, n - 1).
    """
    sizes(1, g=g, n=n, d=d)
    words = g**d
    return words * math.comb(words + n - 2, n - 1)


def centre(x: Tensor, g: int) -> Tensor:
    """Each entry of x in [0, 1] at the centre of its cell, one of g."""
    return ((x * g).floor().clamp(max=g - 1) + 0.5) / g


# --- objects: what the tests run the theorems on


def stored_task(seed: int, sets: int = 100) -> tuple[Tensor, Tensor, Tensor]:
    """The task of the stored runs: random sets of 8 of 32 tokens, five labels.

    Args:
        seed: of the task.
        sets: how many.

    Returns:
        sequences (sets, 8, 16), labels (sets, 8) and the vocabulary (32, 16).
    """
    g = seeded(seed)
    vocabulary = torch.randn(32, 16, generator=g, dtype=double) / 2
    chosen = {}
    while len(chosen) < sets:
        drawn = torch.randperm(32, generator=g)[:8].sort().values
        chosen[tuple(drawn.tolist())] = True
    x = vocabulary[torch.tensor(list(chosen))]
    return x, torch.randint(5, x.shape[:2], generator=g), vocabulary


def stored_head(vocabulary: Tensor, seed: int) -> tuple[Tensor, float]:
    """The head that the stored runs keep frozen: a checked direction, and 0.3 over the
    variance along it.

    Args:
        vocabulary: (K, d), of stored_task.
        seed: of the run.

    Returns:
        v (d,), of length one, and beta.
    """
    g = seeded(1000 + seed)
    v = choose_projection(vocabulary, generator=g, best_of=20).v
    return v, 0.3 / float((vocabulary @ v).var())


def stored_runs(models=IN_ORDER, seed=0, asked=None) -> dict:
    """Accuracies of the models, in this order; a task with its frozen head; and the
    labels that are asked for, those of another task if its seed is given.
    """
    runs = load_result("memorization")["result"]["models"]
    x, labels, vocabulary = stored_task(seed)
    v, beta = stored_head(vocabulary, seed)
    return {
        "accuracies": [runs[name] for name in models],
        "x": x,
        "labels": labels,
        "v": v,
        "beta": beta,
        "wanted": labels if asked is None else stored_task(asked)[1],
    }


def two_numbers(x: Tensor) -> Tensor:
    """Permutation-equivariant; partial derivatives of an entry sum to at most 7."""
    return x * x.amax(-2, True) ** 2 + torch.sin(3 * x) * x.amin(-2, True)


def with_mean(x: Tensor) -> Tensor:
    """Permutation-equivariant; an entry moves at most twice as far as the input."""
    return x + x.mean(-2, True)


def first_token(x: Tensor) -> Tensor:
    """Not equivariant: all tokens get the first one."""
    return x[..., :1, :].expand_as(x)


def of_cube(f=two_numbers, lipschitz=7.0, g=8, n=2, d=1) -> dict:
    """A function, and random points of the cube."""
    x = torch.rand(2000, n, d, generator=seeded(1), dtype=double)
    return {"f": f, "x": x, "lipschitz": lipschitz, "g": g}


def unit_vectors(n=64, d=8, seed=0, unit=True, beta=None, hidden=False) -> dict:
    """Random vectors of length one, or of lengths between one half and two; hidden: no
    token may attend to its furthest one.
    """
    g = seeded(seed)
    u = torch.randn(n, d, generator=g, dtype=double)
    u = u / u.norm(dim=1, keepdim=True)
    if not unit:
        u = u * (0.5 + 1.5 * torch.rand(n, 1, generator=g, dtype=double))
    mask = None
    if hidden:
        mask = torch.ones(n, n, dtype=torch.bool)
        mask.scatter_(1, torch.cdist(u, u).argmax(1, keepdim=True), False)
    return {"u": u, "beta": beta, "mask": mask}


# --- witnesses


def width_beyond_the_ids() -> Verdict:
    """1024 units for 400 ids, and still a frozen head stays below 3/4: the order is not
    that of networks that are too narrow.
    """
    runs = load_result("memorization")["result"]["width"]
    return at_most(max(runs["frozen, N 50, width 1024"]), 0.75)


def the_example_is_as_steep() -> Verdict:
    """two_numbers commutes with a swap; its steepness is above 2, and at most 7."""
    x, y = torch.rand(2, 20000, 2, 1, generator=seeded(2), dtype=double)
    if not torch.equal(two_numbers(x.flip(1)), two_numbers(x).flip(1)):
        return at_most(math.inf, 7)
    moved = (two_numbers(x) - two_numbers(y)).abs().amax((1, 2))
    steepest = float((moved / (x - y).abs().amax((1, 2))).max())
    return at_most(steepest, 7) if steepest > 2 else at_least(steepest, 2)


def two_opposite_vectors() -> Verdict:
    """u and -u, beta = ln(3)/2: three quarters of the way, so 1/2 is left; the bound is
    2/3.
    """
    u = torch.tensor([[1.0], [-1.0]], dtype=double)
    found = furthest(u, beta=math.log(3) / 2)
    return at_most(abs(found.value - 3 / 4), 1e-9)


# --- the claims

RUNS = Case(stored_runs, {})
CUBE = Case(of_cube, {})
VECTORS = Case(unit_vectors, {})


@claim(
    "memorize.trained",
    cases=[RUNS, RUNS.but(seed=1), RUNS.but(seed=2)],
    controls=[
        RUNS.but(models=("frozen random", "frozen construction")),
        RUNS.but(asked=1),
    ],
    witness=width_beyond_the_ids,
)
def trained(
    accuracies: Sequence[Sequence[float]],
    x: Tensor,
    labels: Tensor,
    v: Tensor,
    beta: float,
    wanted: Tensor | None = None,
) -> Verdict:
    """Remark 18.1: every seed of a model is above all seeds of the model before it, by
    one label of 800 or more, and the network built on the head has accuracy 1.

    Args:
        accuracies: of the models in the order that is claimed, a number a seed.
        x, labels: (N, n, d) and (N, n), the task that is built.
        v, beta: the head, of length one and as memorize takes it.
        wanted: (N, n), the labels that the built network is asked for; None for labels.

    Returns:
        the least step from a model to the next; the accuracy of the built network if
        that is below 1.
    """
    _check_accuracies(accuracies)
    net = memorize(x, labels, generator=seeded(0), v=v, beta=beta)
    wanted = labels if wanted is None else wanted
    is_tensor("wanted", wanted)
    same_device("wanted", wanted, labels.device, "labels")
    got = tuple(wanted.shape)
    require(
        got == tuple(labels.shape), f"wanted must have the shape of labels, got {got}"
    )
    built = float((net(x) == wanted).double().mean())
    if built < 1:
        return at_least(built, 1)
    return at_least(min(min(b) - max(a) for a, b in pairwise(accuracies)), ONE_LABEL)


@claim(
    "memorize.universal",
    cases=[
        CUBE,
        CUBE.but(g=2),
        CUBE.but(g=32),
        CUBE.but(f=with_mean, lipschitz=2.0, n=3, g=5),
        CUBE.but(f=with_mean, lipschitz=2.0, d=2, g=3),
        CUBE.but(f=with_mean, lipschitz=2.0, n=1),
    ],
    controls=[CUBE.but(f=first_token)],
    witness=the_example_is_as_steep,
)
def rate(f: Callable[[Tensor], Tensor], x: Tensor, lipschitz: float, g: int) -> Verdict:
    """Theorem 18.2, without its ramps: the block that memorizes f at all grid points is
    within L / (2 g) of f at x, and has as many units as (18.1) says.

    Args:
        f: (*batch, n, d) -> the same shape, permutation-equivariant.
        x: (m, n, d), points of the cube [0, 1].
        lipschitz: L, of the entries of f in the largest norm.
        g: cells a coordinate.

    Returns:
        the largest error in units of L / (2 g), which is at most 1; infinity if the
        units are not as many as (18.1) says.
    """
    n, d = _check_cube(f, x, lipschitz, g)
    centres = [(cell + 0.5) / g for cell in range(g)]
    words = torch.tensor(list(product(centres, repeat=d)), dtype=double)
    sets = combinations_with_replacement(range(len(words)), n)
    grid = words[torch.tensor(list(sets))]
    net = memorize(grid, f(grid), generator=seeded(0))
    if net.report.ids != units(g, n, d):
        return at_most(math.inf, 1)
    off = (net(centre(x, g)) - f(x)).abs().max()
    return at_most(off / float(lipschitz) * 2 * g, 1 + 1e-9)


@claim(
    "memorize.furthest",
    cases=[
        VECTORS,
        VECTORS.but(n=2, d=1),
        VECTORS.but(seed=1, n=200),
        VECTORS.but(beta=40.0),
        VECTORS.but(beta=2000.0, seed=3),
    ],
    controls=[VECTORS.but(unit=False), VECTORS.but(hidden=True)],
    witness=two_opposite_vectors,
)
def furthest(
    u: Tensor, beta: float | None = None, mask: Tensor | None = None
) -> Verdict:
    """Proposition 18.3: a head with queries -u, and keys and values u, gives each unit
    vector the one furthest from it, by softmax up to 2 (n - 1) e^(-beta gamma).

    Args:
        u: (n, d), float64, n >= 2; each has one furthest vector.
        beta: factor of the logits, None for hardmax.
        mask: (n, n), True = may attend; None for all.

    Returns:
        hardmax: the largest distance from the furthest vector; softmax: that distance
        in units of its bound, which is at most 1.
    """
    _check_vectors(u, beta)
    n, d = u.shape
    eye = torch.eye(d, dtype=double)
    scale = 1.0 if beta is None else float(beta)
    how = {"mask": mask, "scale": scale}
    normalizer = "hardmax" if beta is None else "softmax"
    p = attention_matrix(u, -eye, eye, normalizer=normalizer, **how)
    apart = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    wanted = u[apart.argmax(1)]
    off = (p @ u - wanted).norm(dim=1)
    if beta is None:
        return at_most(off.max(), ROUNDING)
    nearest = (u @ u.T).sort(dim=1).values
    gamma = nearest[:, 1] - nearest[:, 0]
    bound = 2 * (n - 1) * torch.exp(-scale * gamma) + ROUNDING
    return at_most((off / bound).max(), 1)


def _check_accuracies(accuracies) -> None:
    """Two or more models, each with numbers between 0 and 1."""
    is_list(accuracies=accuracies)
    require(len(accuracies) >= 2, f"accuracies of two models, got {len(accuracies)}")
    for seeds in accuracies:
        is_list(accuracies=seeds)
        for number in seeds:
            numbers(accuracies=number)
            require(0 <= number <= 1, f"accuracies lie between 0 and 1, got {number}")


def _check_cube(f, x, lipschitz, g) -> tuple[int, int]:
    """n and d of points of the cube, small enough to be memorized."""
    require(callable(f), f"f must be a function, got {type(f).__name__}")
    is_floating("x", x)
    got = tuple(x.shape)
    require(len(got) == 3 and 0 not in got, f"x must be (m, n, d), got {got}")
    require(x.dtype == double, f"x must be float64, got {x.dtype}")
    finite(x=x)
    inside = bool(((x >= 0) & (x <= 1)).all())
    require(inside, "x must lie in the cube [0, 1]: there are no cells elsewhere")
    numbers(lipschitz=lipschitz)
    require(lipschitz > 0, f"lipschitz must be positive, got {lipschitz}")
    sizes(1, g=g)
    n, d = got[1:]
    count = math.comb(g**d + n - 1, n)
    require(count <= MOST, f"g = {g}: more than {MOST} multisets of cells")
    matches("f(x)", f(x), got, x)
    finite(**{"f(x)": f(x)})
    return n, d


def _check_vectors(u, beta) -> None:
    """Two or more vectors in float64. That they have length one is the hypothesis."""
    tokens(u, "u")
    got = tuple(u.shape)
    require(len(got) == 2 and got[0] >= 2, f"u must be (n, d), n >= 2, got {got}")
    require(u.dtype == double, f"u must be float64, got {u.dtype}")
    finite(**{"u": u, "4 u @ u.T": 4 * u @ u.T})
    if beta is not None:
        numbers(beta=beta)
        require(beta > 0, f"beta must be positive, got {beta}")
    apart = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    far = apart.sort(dim=1).values
    tied = far[:, -1] - far[:, -2] <= 1e-9 * far[:, -1]
    i = int(tied.int().argmax())
    require(not tied.any(), f"u[{i}] has two furthest vectors: no single one is wanted")
