"""The claims of the page `What the reviewers asked`."""

from __future__ import annotations

import math
from itertools import chain, combinations_with_replacement, pairwise, product

import torch
from torch import Tensor

from attnbook.data import load_result
from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_floating,
    matches,
    numbers,
    require,
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
    """D of (19.2): tokens of width d on g cells a coordinate, each in each multiset of
    n of them.
    """
    sizes(1, g=g, n=n, d=d)
    words = g**d
    return words * math.comb(words + n - 2, n - 1)


def centre(x: Tensor, g: int) -> Tensor:
    """Each entry of x in [0, 1] at the centre of its cell, one of g."""
    return ((x * g).floor().clamp(max=g - 1) + 0.5) / g


def distances(u: Tensor) -> Tensor:
    """Of all pairs of rows, each as a difference: of near ones no digit is lost."""
    return torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")


# --- training


def stored_task(seed: int, sets: int = 100) -> tuple[Tensor, Tensor, Tensor]:
    """The task of the stored runs: random sets of 8 of 32 tokens, (sets, 8, 16), five
    labels, (sets, 8), and the vocabulary.
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
    """The head that the stored runs keep frozen: a checked direction v, and beta, 0.3
    over the variance along it.
    """
    g = seeded(1000 + seed)
    v = choose_projection(vocabulary, generator=g, best_of=20).v
    return v, 0.3 / float((vocabulary @ v).var())


def stored_runs(models=IN_ORDER, seed=0) -> dict:
    """Accuracies of the models, in this order; a task with its frozen head."""
    runs = load_result("memorization")["result"]["models"]
    x, labels, vocabulary = stored_task(seed)
    v, beta = stored_head(vocabulary, seed)
    accuracies = [runs[name] for name in models]
    return {"accuracies": accuracies, "x": x, "labels": labels, "v": v, "beta": beta}


RUNS = Case(stored_runs)


@claim(
    "memorize.trained",
    cases=[RUNS, RUNS.but(seed=1), RUNS.but(seed=2)],
    controls=[RUNS.but(models=("frozen random", "frozen construction"))],
    broken={"labels of the next set": {"_asked": 1}},
)
def trained(accuracies, x, labels, v, beta: float, *, _asked=0) -> Verdict:
    """Remark 19.1: each model fits more than the one before it, and what is built on
    the frozen head fits all.

    accuracies: a list of numbers a model, a number a seed, in the order claimed; x
    (N, n, d), its labels (N, n), v and beta as memorize takes them. Measured: by how
    much every seed of a model is above all seeds of the model before it; the accuracy
    of the built network instead if that is below 1.
    """
    require(len(accuracies) >= 2, f"accuracies of two models, got {len(accuracies)}")
    for number in chain(*accuracies):
        require(0 <= number <= 1, f"accuracies lie between 0 and 1, got {number}")
    is_floating("x", x)
    require(x.dim() == 3, f"x must be (N, n, d), got {tuple(x.shape)}")
    net = memorize(x, labels, generator=seeded(0), v=v, beta=beta)
    built = float((net(x) == labels.roll(_asked, 0)).double().mean())
    if built < 1:
        return at_least(built, 1)
    return at_least(min(min(b) - max(a) for a, b in pairwise(accuracies)), ONE_LABEL)


# --- a rate


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


CUBE = Case(of_cube)


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
)
def rate(f, x: Tensor, lipschitz: float, g: int) -> Verdict:
    """Theorem 19.3, without its ramps: a block that memorizes f at the grid points is
    within L / (2 g) of it, with as many units as (19.2) says.

    f takes (*batch, n, d) to the same shape; x (m, n, d) are points of the cube [0, 1];
    lipschitz is L, g cells a coordinate. Measured: the largest error over L / (2 g);
    infinity if the units are more or fewer.
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


def _check_cube(f, x, lipschitz, g) -> tuple[int, int]:
    """n and d of points of the cube, small enough to be memorized."""
    require(callable(f), f"f must be a function, got {type(f).__name__}")
    is_floating("x", x)
    got = tuple(x.shape)
    require(len(got) == 3 and 0 not in got, f"x must be (m, n, d), got {got}")
    require(x.dtype == double, f"x must be float64, got {x.dtype}")
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


# --- the furthest vector


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


VECTORS = Case(unit_vectors)


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
)
def furthest(u: Tensor, beta: float | None = None, mask=None) -> Verdict:
    """Proposition 19.2: a head with queries -u, and keys and values u, gives each unit
    vector the one furthest from it, by softmax up to 2 (n - 1) e^(-beta gamma).

    u is (n, d) in float64; beta None is a hardmax; mask (n, n), True = may attend.
    Measured: for hardmax the largest distance from the furthest vector, for softmax
    that distance over its bound.
    """
    _check_vectors(u, beta)
    n, d = u.shape
    eye = torch.eye(d, dtype=double)
    scale = 1.0 if beta is None else float(beta)
    how = {"mask": mask, "scale": scale}
    normalizer = "hardmax" if beta is None else "softmax"
    p = attention_matrix(u, -eye, eye, normalizer=normalizer, **how)
    wanted = u[distances(u).argmax(1)]
    off = (p @ u - wanted).norm(dim=1)
    if beta is None:
        return at_most(off.max(), ROUNDING)
    nearest = (u @ u.T).sort(dim=1).values
    gamma = nearest[:, 1] - nearest[:, 0]
    bound = 2 * (n - 1) * torch.exp(-scale * gamma) + ROUNDING
    return at_most((off / bound).max(), 1)


def _check_vectors(u, beta) -> None:
    """Two or more vectors in float64. That they have length one is the hypothesis."""
    tokens(u, "u")
    got = tuple(u.shape)
    require(len(got) == 2 and got[0] >= 2, f"u must be (n, d), n >= 2, got {got}")
    require(u.dtype == double, f"u must be float64, got {u.dtype}")
    finite(**{"4 u @ u.T": 4 * u @ u.T})
    require(beta is None or beta > 0, f"beta must be positive, got {beta}")
    far = distances(u).sort(dim=1).values
    tied = far[:, -1] - far[:, -2] <= 1e-9 * far[:, -1]
    i = int(tied.int().argmax())
    require(not tied.any(), f"u[{i}] has two furthest vectors: no single one is wanted")
