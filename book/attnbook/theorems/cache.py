"""The claims of the page `The KV cache`. Tensors of numbers are float64, tensors of
choices int64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import is_tensor, matches, numbers, require, sizes
from attnlib.bridges import state_floor
from attnlib.certify import Verdict, at_least, at_most
from attnlib.codes import coherence, moment_keys, price
from attnlib.codes.exact import e8

double = torch.float64
# What rounding leaves of sums of a few hundred products of numbers up to one.
ROUNDING = 1e-12
# What rounding leaves of a logit, in units of the largest one.
DIGITS = 1e-14
# More lists than these are not written down.
MOST_BITS = 16


# --- what the theorems accept


def _check_rows(**given: Tensor) -> None:
    """Refuse what is no float64 matrix."""
    for name, rows in given.items():
        is_tensor(name, rows)
        require(
            rows.dtype == double,
            f"{name} must be float64, got {rows.dtype}: in other digits the bounds of "
            "this page cannot be held. Cast it first",
        )
        got = tuple(rows.shape)
        require(
            len(got) == 2 and 0 not in got,
            f"{name} must have two axes, none of them empty, got {got}",
        )


def _check_whole(name: str, whole: Tensor, axes: int, most: int) -> None:
    """Refuse what is no int64 tensor of numbers from 0 to the most."""
    is_tensor(name, whole)
    got = tuple(whole.shape)
    require(
        whole.dtype == torch.int64 and len(got) == axes and 0 not in got,
        f"{name} must be int64 with {axes} axes, none of them empty, "
        f"got {whole.dtype} {got}",
    )
    require(
        (whole >= 0).all() and (whole <= most).all(),
        f"{name} must hold numbers from 0 to {most}, "
        f"got {int(whole.min())} to {int(whole.max())}",
    )


def _check_kept(kept: Tensor, lists: int, states: int) -> None:
    """Refuse anything but one of the states for each list."""
    _check_whole("kept", kept, 1, states - 1)
    require(
        len(kept) == lists,
        f"kept must hold a state for each of the {lists} lists, got {len(kept)}",
    )


# --- objects: what the tests run the theorems on


def value_lists(f: int, bits: int = 1) -> Tensor:
    """All lists of f values of so many bits, in the order of counting, (2^(f b), f)."""
    number = torch.arange(2 ** (f * bits))[:, None]
    places = bits * torch.arange(f - 1, -1, -1)
    digits = (number >> places) % 2**bits
    return (2 * digits.to(double) / (2**bits - 1)) - 1


def read_tokens(p: Tensor, f: int) -> Tensor:
    """The f tokens that are read most sharply, in the order of their places."""
    _, order = p.amax(0).sort(descending=True, stable=True)
    return order[:f].sort().values


def right_answers(p: Tensor, f: int, bits: int = 1) -> Tensor:
    """The answers P v to all lists, (2^(f b), m); values that are not free are 1."""
    some = value_lists(f, bits)
    values = torch.ones(len(some), p.shape[1], dtype=double)
    values[:, read_tokens(p, f)] = some
    return values @ p.T


def circle_questions(n: int, gap: float) -> Tensor:
    """Attention of questions that each prefer one of n keys on a circle, by a gap."""
    keys = moment_keys(n)
    length = gap * price(n, 2).low
    return torch.softmax(length * keys @ keys.T, dim=-1)


def keeping(
    n=4, gap=3.0, bits=1, f=None, lost=1, how="one of them", seed=None, alike=False
) -> dict:
    """A state that drops the last bits of all lists, or random ones with a seed; its
    answers are those of one list of each state, or lie midway between the extremes.

    Questions that are alike ask for the first token alone.
    """
    p = torch.eye(n, dtype=double)
    if gap < math.inf:
        p = circle_questions(n, gap)
    if alike:
        p = p[:1].repeat(n, 1)
    right = right_answers(p, n if f is None else f, bits)
    kept = torch.arange(len(right)) >> lost
    states = len(right) >> lost
    if seed is not None:
        g = torch.Generator().manual_seed(seed)
        kept = torch.randint(states, kept.shape, generator=g)
    answers = torch.zeros(states, n, dtype=double)
    for number in range(states):
        here = right[kept == number]
        if how == "midway" and len(here):
            answers[number] = (here.amax(0) + here.amin(0)) / 2
        elif len(here):
            answers[number] = here[0]
    return {"p": p, "kept": kept, "answers": answers, "bits": bits, "f": f}


def remembering(n=5, symbols=3, states=27, seed=None) -> dict:
    """A state that keeps the first symbols of a text, or a random one with a seed, and
    writes the first text that it could stand for.
    """
    texts = symbols**n
    every = torch.arange(texts)
    kept = every * states // texts
    if seed is not None:
        g = torch.Generator().manual_seed(seed)
        kept = torch.randint(states, (texts,), generator=g)
    place = symbols ** torch.arange(n - 1, -1, -1)
    written = torch.zeros(states, n, dtype=torch.int64)
    for number in range(states):
        here = every[kept == number]
        if len(here):
            written[number] = (here[0] // place) % symbols
    return {"kept": kept, "written": written, "symbols": symbols}


def unit_keys(name="E8", n=240, d=8, seed=0) -> Tensor:
    """Unit keys by their name."""
    if name == "E8":
        return e8().to(double) / 8**0.5
    if name == "simplex":
        centred = torch.eye(n, dtype=double) - 1 / n
        corners = torch.linalg.eigh(centred)[1][:, 1:]
        return corners / corners.norm(dim=1, keepdim=True)
    g = torch.Generator().manual_seed(seed)
    drawn = torch.randn(n, d, dtype=double, generator=g)
    return drawn / drawn.norm(dim=1, keepdim=True)


def asked(name="E8", n=240, d=8, length=12.0, twice=False) -> dict:
    """Keys by their name, the length of the questions; perhaps one key occurs twice."""
    keys = unit_keys(name, n, d)
    if twice:
        keys = torch.cat([keys, keys[:1]])
    return {"keys": keys, "length": length}


def grouped(n=200, groups=5, d=3, width=0.02, length=4.0, seed=0) -> dict:
    """Keys near a few centres, most of them near the first one; values that tell of the
    centre and of the side of it; and questions of one length.
    """
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(groups, d, dtype=double, generator=g)
    labels = torch.randint(groups, (n,), generator=g)
    labels[torch.rand(n, generator=g) < 0.8] = 0
    offset = width * torch.randn(n, d, dtype=double, generator=g)
    k = centres[labels] + offset
    side = offset[:, :1].sign()
    v = (side + (-1.0) ** labels[:, None]) / 2
    q = torch.randn(30, d, dtype=double, generator=g)
    q = length * q / q.norm(dim=1, keepdim=True)
    return {"q": q, "k": k, "v": v, "centres": centres, "labels": labels}


# --- what a state must hold


STATE = Case(keeping)


@claim(
    "after.cache",
    cases=[
        STATE,
        STATE.but(gap=math.inf),
        STATE.but(gap=math.inf, n=3, bits=2, how="midway"),
        STATE.but(n=8, gap=2.5, lost=3, how="midway"),
        STATE.but(n=6, f=3, bits=3, lost=2),
        STATE.but(n=7, lost=2, seed=0),
        STATE.but(n=5, bits=2, lost=4, seed=1, how="midway"),
        STATE.but(alike=True, how="midway"),
    ],
    broken={"the list is seen": {"_seen": True}},
)
def state(p, kept, answers, *, bits=1, f=None, _seen=False) -> Verdict:
    """From one of S states few of the 2^(f b) lists of values are answered well.

    Measured: the share of lists all of whose answers have errors below (22.1).

    Args:
        p: (m, n), a row for each question.
        kept: (2^(f b),), the state of each list, in the order of `value_lists`.
        answers: (S, m), the answers that are made from each state.
        bits: b.
        f: tokens whose values are free, those that are read most sharply; None for all.
            The others have the value 1.

    Claim: after.cache
    Page: notebooks/what_came_after/cache
    """
    _check_rows(p=p, answers=answers)
    p, answers = p.detach(), answers.detach()
    n = p.shape[1]
    f = n if f is None else f
    sizes(1, bits=bits, f=f)
    require(f <= n, f"f must be at most n = {n} tokens, got {f}")
    require(
        f * bits <= MOST_BITS,
        f"f tokens of so many bits must be at most {MOST_BITS} bits: all lists are "
        f"written down, got {f} x {bits}",
    )
    lists = 2 ** (f * bits)
    _check_kept(kept, lists, len(answers))
    matches("answers", answers, (len(answers), len(p)), p, "p")
    right = right_answers(p, f, bits)
    told = right if _seen else answers[kept]
    near = (told - right).abs().amax(1) < state_floor(p, bits=bits)[f - 1] - ROUNDING
    return at_most(near.double().mean(), min(len(answers) / lists, 1))


ASKED = Case(asked, called_with={"mu": 0.5})
FREE = Case(asked)


@claim(
    "after.questions",
    cases=[
        ASKED,
        ASKED.but(length=20.0, bits=4),
        FREE.but(name="simplex", n=9, length=4.0),
        FREE.but(name="random", n=50, d=64, length=20.0),
        FREE.but(name="random", n=2, d=1, length=3.0, bits=2),
    ],
    controls=[ASKED.but(twice=True), ASKED.but(mu=0.25)],
)
def questions(keys, length, *, mu=None, bits=1) -> Verdict:
    """Long questions along keys that are apart read every token sharply.

    Measured: the floor of n tokens, at least tanh((T - ln(n - 1)) / 2) / (2^b - 1) less
    rounding.

    Args:
        keys: (n, d).
        length: s, at most 10^6: longer ones leave too few digits.
        mu: what the products are said to be at most, and not compared with the keys;
            None for the largest one.
        bits: b, of a value.

    Claim: after.questions
    Page: notebooks/what_came_after/cache
    """
    _check_rows(keys=keys)
    keys = keys.detach()
    n = len(keys)
    require(n >= 2, f"keys must be at least two, got {n}")
    off = float((keys.norm(dim=1) - 1).abs().max())
    require(off <= 1e-9, f"keys must have length one, got one that is off by {off:.3g}")
    require((keys != keys[0]).any(), "keys: all are equal, and no question tells them")
    keys = keys / keys.norm(dim=1, keepdim=True)
    mu = min(float(coherence(keys)), 1.0) if mu is None else mu
    numbers(length=length, mu=mu)
    require(length >= 0, f"length must not be negative, got {length}")
    require(
        length <= 1e6,
        f"length must be at most 10^6, got {length}: rounding moves longer logits",
    )
    require(-1 <= mu <= 1, f"mu must be a product of unit keys, from -1 to 1, got {mu}")
    p = torch.softmax(float(length) * keys @ keys.T, dim=-1)
    promised = math.tanh((length * (1 - mu) - math.log(n - 1)) / 2)
    rounding = ROUNDING + DIGITS * length
    floor = state_floor(p, bits=bits)[-1]
    return at_least(floor, (promised - rounding) / (2**bits - 1))


# --- copying, and compression

REMEMBERING = Case(remembering)


@claim(
    "after.copying",
    cases=[
        REMEMBERING,
        REMEMBERING.but(n=8, symbols=2, states=16),
        REMEMBERING.but(states=100, seed=0),
        REMEMBERING.but(n=1, symbols=7, states=7),
    ],
    broken={"the last symbol is seen": {"_seen": True}},
    without_kernel="a count of texts",
)
def copying(kept, written, *, symbols, _seen=False) -> Verdict:
    """Of all texts of n symbols few can be written out again from one of S states.

    Measured: the share of texts that are written without an error, at most S / V^n.

    Args:
        kept: (V^n,), the state of each text, texts in the order of counting.
        written: (S, n), the text that is written from each state.
        symbols: V, at least 2; at most 2^20 texts.

    Claim: after.copying
    Page: notebooks/what_came_after/cache
    """
    sizes(2, symbols=symbols)
    require(symbols <= 2**20, f"symbols must be at most 2^20, got {symbols}")
    _check_whole("written", written, 2, symbols - 1)
    states, n = written.shape
    require(
        n * math.log2(symbols) <= 20,
        f"written: all texts are listed, at most 2^20, got {symbols}^{n}",
    )
    texts = torch.arange(symbols**n)
    _check_kept(kept, len(texts), states)
    place = symbols ** torch.arange(n - 1, -1, -1)
    number = (written * place).sum(1)[kept]
    if _seen:
        number = number - number % symbols + texts % symbols
    right = number == texts
    return at_most(right.double().mean(), min(states / len(texts), 1))


def softly_asked(n=2000, m=10, d=8, length=10.0, zero=0, seed=0) -> dict:
    """Attention of random questions to random keys, all of them on a sphere.

    A value says on which side of the first question its key lies; the last tokens are
    read by nobody.
    """
    asked, keys = unit_keys("random", m, d, seed + 1), unit_keys("random", n, d, seed)
    p = torch.softmax(length * asked @ keys.T, dim=-1)
    p[:, n - zero :] = 0
    return {"p": p / p.sum(-1, keepdim=True), "v": (keys @ asked[0]).sign()}


def drawn_enough(E: float, m: int, eps: float, delta: float) -> int:
    """The number of values in (22.4)."""
    return math.ceil((2 + 2 * eps / 3) * E * math.log(2 * m / delta) / eps**2)


SOFT = Case(softly_asked)


@claim(
    "after.enough",
    cases=[
        SOFT,
        SOFT.but(length=0.0),
        SOFT.but(m=1, length=4.0, zero=500),
        SOFT.but(n=10, d=3, length=30.0, eps=0.5),
    ],
    controls=[SOFT.but(k=30)],
    broken={"all alike": {"_alike": True}},
    without_kernel="a mean over drawn tokens",
)
def enough(
    p, v, *, k=None, eps=0.3, delta=0.05, draws=200, seed=0, _alike=False
) -> Verdict:
    """Values drawn by how much they may be asked for answer every question: a number of
    them that grows with E, and not with n.

    Measured: the share of draws after which an answer is off by eps or more; delta and
    five deviations of such a share are allowed.

    Args:
        p: (m, n), a row for each question.
        v: (n,), from -1 to 1.
        k: values that are drawn; None for (22.4).

    Claim: after.enough
    Page: notebooks/what_came_after/cache
    """
    _check_rows(p=p)
    is_tensor("v", v)
    p, v = p.detach(), v.detach()
    m, n = p.shape
    matches("v", v, (n,), p, "p")
    require(float(v.abs().max()) <= 1, "v must lie between -1 and 1")
    require(
        (p >= 0).all() and float((p.sum(-1) - 1).abs().max()) <= 1e-9,
        "p must hold rows of weights: none negative, with the sum one",
    )
    e = p.amax(0)
    numbers(eps=eps, delta=delta)
    require(eps > 0, f"eps must be positive, got {eps}")
    require(0 < delta < 1, f"delta must lie between 0 and 1, got {delta}")
    E = float(e.sum())
    k = drawn_enough(E, m, eps, delta) if k is None else k
    sizes(1, k=k, draws=draws)
    sizes(0, seed=seed)
    g = torch.Generator().manual_seed(seed)
    chances = (e > 0).to(double) if _alike else e
    weight = torch.where(e > 0, E * v / e, 0.0) / k
    worse = 0
    for _ in range(draws):
        kept = torch.multinomial(chances, k, replacement=True, generator=g)
        counts = torch.bincount(kept, minlength=n)
        off = p @ (weight * counts) - p @ v
        worse += bool(off.abs().max() >= eps)
    allowed = delta + 5 * math.sqrt(delta * (1 - delta) / draws)
    return at_most(worse / draws, allowed)


def clustered(q, v, centres, labels, *, counts=True) -> Tensor:
    """The answers of a cache that keeps for each centre how many keys are near it, and
    the sum of their values.
    """
    member = torch.nn.functional.one_hot(labels, len(centres)).to(v.dtype)
    count = member.sum(0)
    used = count > 0
    sums = (member.T @ v)[used]
    count = count[used]
    logits = q @ centres[used].T
    if counts:
        logits = logits + count.log()
    return torch.softmax(logits, dim=-1) @ (sums / count[:, None])


GROUPED = Case(grouped)


@claim(
    "after.clusters",
    cases=[
        GROUPED,
        GROUPED.but(width=0.5, length=10.0),
        GROUPED.but(groups=1),
        GROUPED.but(n=1000, groups=30, d=2, width=0.1, seed=1),
    ],
    controls=[GROUPED.but(radius=0.002)],
    broken={"counts lost": {"_counts": False}},
    without_kernel="softmax over all keys against softmax over the centres",
)
def clusters(q, k, v, centres, labels, *, radius=None, _counts=True) -> Verdict:
    """A cache of C counts and C sums of values errs by little, if keys are near C
    centres.

    Measured: the largest error over its bound, in units of the largest value.

    Args:
        q, k, v, centres: (m, d), (n, d), (n, m_v), (C, d).
        labels: (n,), which centre a key belongs to.
        radius: what rho is said to be, and not compared with the keys; None for the
            largest distance.

    Claim: after.clusters
    Page: notebooks/what_came_after/cache
    """
    _check_rows(q=q, k=k, v=v, centres=centres)
    q, k, v, centres = (rows.detach() for rows in (q, k, v, centres))
    n, d = k.shape
    matches("q", q, (len(q), d), k, "k")
    matches("centres", centres, (len(centres), d), k, "k")
    require(len(v) == n, f"v must have a row for each of the {n} keys, got {len(v)}")
    _check_whole("labels", labels, 1, len(centres) - 1)
    require(len(labels) == n, f"labels must be one a key, {n}, got {len(labels)}")
    if radius is None:
        radius = float((k - centres[labels]).norm(dim=1).max())
    numbers(radius=radius)
    reach = float(q.norm(dim=1).max()) * radius
    require(reach > 0, f"q and radius must not be zero: s rho = {reach}, no error")
    bound = 2 * math.tanh(reach / 2)
    longest = float((q @ torch.cat([k, centres]).T).abs().max())
    require(math.isfinite(longest), "q and k: their logits must be finite")
    rounding = DIGITS * (1 + longest) / bound
    require(
        rounding < 1e-3,
        f"radius times the length of q must be seen beside rounding, got {reach:.3g}",
    )
    largest = float(v.abs().max())
    require(largest > 0, "v must not be all zero: nothing is relative to it")
    v = v / largest
    whole = torch.softmax(q @ k.T, dim=-1) @ v
    error = (clustered(q, v, centres, labels, counts=_counts) - whole).abs().max()
    return at_most(float(error) / bound, 1 + ROUNDING + rounding)
