"""The claims of the page `The cache`.

What is no object of a theorem, such as a tensor that is not finite float64, is refused.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import finite, is_tensor, matches, numbers, require, sizes
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
    """Refuse what is no finite float64 matrix with a row and a column."""
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
        finite(**{name: rows})


def _check_whole(name: str, whole: Tensor, axes: int, least: int, most: int) -> None:
    """Refuse what is no int64 tensor of numbers in a range."""
    is_tensor(name, whole)
    got = tuple(whole.shape)
    require(
        whole.dtype == torch.int64 and len(got) == axes and 0 not in got,
        f"{name} must be int64 with {axes} axes, none of them empty, "
        f"got {whole.dtype} {got}",
    )
    finite(**{name: whole})
    inside = bool((whole >= least).all() and (whole <= most).all())
    require(
        inside,
        f"{name} must hold numbers from {least} to {most}, "
        f"got {int(whole.min())} to {int(whole.max())}",
    )


def _check_kept(kept: Tensor, lists: int, states: int) -> None:
    """Refuse anything but one of the states for each list."""
    _check_whole("kept", kept, 1, 0, states - 1)
    require(
        len(kept) == lists,
        f"kept must hold a state for each of the {lists} lists, got {len(kept)}",
    )


def _check_free(f: int | None, n: int, bits: int) -> int:
    """How many values are free: all of them, unless it is said."""
    sizes(1, bits=bits)
    if f is None:
        f = n
    sizes(1, f=f)
    require(f <= n, f"f must be at most n = {n} tokens, got {f}")
    require(
        f * bits <= MOST_BITS,
        f"f tokens of so many bits must be at most {MOST_BITS} bits: all lists are "
        f"written down, got {f} x {bits}",
    )
    return int(f)


def _limit(count: int | None, states: int, lists: int) -> float:
    """The share of lists that so many states allow."""
    if count is None:
        count = states
    sizes(1, count=count)
    return min(count, lists) / lists


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


def keeping(n=4, gap=3.0, bits=1, f=None, lost=1, how="one of them", seed=None) -> dict:
    """A state that drops the last bits of all lists, or random ones with a seed; its
    answers are those of one list of each state, or lie midway between the extremes.
    """
    p = torch.eye(n, dtype=double)
    if gap < math.inf:
        p = circle_questions(n, gap)
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


def by_hand() -> Verdict:
    """Floors worked out by hand, a state that attains one, and the share that eight
    drawers allow of sixteen lists.

    Measured: the largest distance from 1/2 and 0 (the second question asks for the
    first token as well), 1/3, 1/7, 0.5516 (four keys on a circle at gap 2), of the
    errors of midway answers from 1/3, and of the share from 1/2.
    """
    same = torch.tensor([[0.75, 0.25], [0.625, 0.375]], dtype=double)
    eye = torch.eye(2, dtype=double)
    e_squared = 7.38905609893065
    top = e_squared / (e_squared + 2 + 1 / e_squared)
    wanted = torch.tensor([0.5, 0.0], dtype=double)
    off = float((state_floor(same) - wanted).abs().max())
    for bits, third in ((2, 1 / 3), (3, 1 / 7)):
        off = max(off, float((state_floor(eye, bits=bits) - third).abs().max()))
    floors = state_floor(circle_questions(4, 2.0))
    off = max(off, float((floors - (2 * top - 1)).abs().max()))
    objects = keeping(n=2, gap=math.inf, bits=2, how="midway")
    right = right_answers(eye, 2, bits=2)
    errors = (objects["answers"][objects["kept"]] - right).abs().amax(1)
    off = max(off, float((errors - 1 / 3).abs().max()))
    return at_most(max(off, abs(state(**keeping()).bound - 1 / 2)), 1e-14)


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
    ],
    controls=[STATE.but(count=4)],
    witness=by_hand,
)
def state(
    p: Tensor,
    kept: Tensor,
    answers: Tensor,
    *,
    bits: int = 1,
    f: int | None = None,
    count: int | None = None,
) -> Verdict:
    """From one of S states at most S of the 2^(f b) lists of values are answered with
    all errors below (2 e_f - 1) / (2^b - 1).

    Hypotheses: P >= 0 with rows that sum to one; the values of the f tokens with the
    largest e_j are free, each one of 2^b equally spaced numbers from -1 to 1; answers
    are made from the state and the question, the row of P. The other values are 1 here.
    Measured: the share of lists whose answers are all nearer than that, at most
    S / 2^(f b).

    Args:
        p: (m, n), a row for each question; e_j is the largest entry of column j.
        kept: (2^(f b),), int64, the state of each list, in the order of `value_lists`.
        answers: (S, m), the answers that are made from each state.
        bits: b.
        f: tokens whose values are free; None for all. f b is at most 16.
        count: how many states there are said to be; None for S.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity, and rows of p that
            do not sum to one.

    Claim: after.cache
    Page: notebooks/what_came_after/cache
    """
    _check_rows(p=p, answers=answers)
    p = p.detach()
    answers = answers.detach()
    f = _check_free(f, p.shape[1], bits)
    floor = float(state_floor(p, bits=bits)[f - 1])
    lists = 2 ** (f * bits)
    _check_kept(kept, lists, len(answers))
    matches("answers", answers, (len(answers), len(p)), p, "p")
    limit = _limit(count, len(answers), lists)
    errors = (answers[kept] - right_answers(p, f, bits)).abs().amax(1)
    near = errors < floor - ROUNDING
    return at_most(near.double().mean(), limit)


def simplex_attains_it() -> Verdict:
    """All other keys equally near: the bound is an equation; at nine keys with
    T = ln 8 + 2 the floor is tanh 1 = 0.76159415595...

    Measured: the distance of the floor and of the bound from that number, and from zero
    at n - 1 = e^T.
    """
    off = 0.0
    for gap, wanted in ((math.log(8) + 2, 0.7615941559557649), (math.log(8), 0.0)):
        length = gap / (1 + 1 / 8)  # products are -1/8
        keys = unit_keys("simplex", 9)
        found = questions(keys, length)
        off = max(off, abs(found.value - wanted), abs(found.bound - wanted))
    return at_most(off, 2 * ROUNDING)


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
    witness=simplex_attains_it,
)
def questions(
    keys: Tensor, length: float | int, *, mu: float | int | None = None, bits: int = 1
) -> Verdict:
    """Questions along unit keys with products of at most mu read every token: the floor
    of n tokens is at least tanh((T - ln(n - 1)) / 2) / (2^b - 1) for T = s (1 - mu).

    Hypotheses: keys of length one, different ones with products of at most mu; the
    question about token j is s k_j, and P their softmax.
    Measured: that floor, `state_floor(P)[n - 1]`; at least the bound less rounding.

    Args:
        keys: (n, d), n >= 2.
        length: s, of the questions, from 0 to 10^6: longer ones leave too few digits.
        mu: what the products are said to be at most, below 1; None for the largest one.
            It is not compared with the keys: where it is too small, the bound may fail.
        bits: b, of a value.

    Returns:
        AtLeast.

    Raises:
        ValueError: for keys that are not of length one, other objects than these, NaN
            and infinity.

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
    numbers(length=length)
    require(length >= 0, f"length must not be negative, got {length}")
    require(
        length <= 1e6,
        f"length must be at most 10^6, got {length}: rounding moves longer logits",
    )
    length = float(length)
    if mu is None:
        mu = min(float(coherence(keys)), 1.0)
    numbers(mu=mu)
    require(-1 <= mu <= 1, f"mu must be a product of unit keys, from -1 to 1, got {mu}")
    p = torch.softmax(length * keys @ keys.T, dim=-1)
    gap = length * (1 - mu)
    promised = math.tanh((gap - math.log(n - 1)) / 2)
    floor = state_floor(p, bits=bits)[-1]
    rounding = ROUNDING + DIGITS * length
    return at_least(floor, (promised - rounding) / (2**bits - 1))


# --- copying, and compression


def keep_what_fits() -> Verdict:
    """Of 3^5 = 243 texts, 27 states write 27, one ninth.

    Measured: the distance of share and bound from 1/9, and of one state's from 1/243.
    """
    off = 0.0
    for states, share in ((27, 1 / 9), (1, 1 / 243)):
        found = copying(**remembering(n=5, symbols=3, states=states))
        off = max(off, abs(found.value - share), abs(found.bound - share))
    return at_most(off, 1e-15)


REMEMBERING = Case(remembering)


@claim(
    "after.copying",
    cases=[
        REMEMBERING,
        REMEMBERING.but(n=8, symbols=2, states=16),
        REMEMBERING.but(states=100, seed=0),
        REMEMBERING.but(n=1, symbols=7, states=7),
    ],
    controls=[REMEMBERING.but(count=9)],
    witness=keep_what_fits,
)
def copying(
    kept: Tensor, written: Tensor, *, symbols: int, count: int | None = None
) -> Verdict:
    """Of all texts of n symbols, one of S states lets at most the share S / V^n be
    written out again without an error.

    Hypotheses: each text leaves a state, and what is written depends on that alone.
    Measured: the share of texts that are written right.

    Args:
        kept: (V^n,), int64, the state of each text, texts in the order of counting.
        written: (S, n), int64, the text that is written from each state.
        symbols: V, at least 2.
        count: how many states there are said to be; None for S.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, and more than 2^20 texts.

    Claim: after.copying
    Page: notebooks/what_came_after/cache
    """
    sizes(2, symbols=symbols)
    require(symbols <= 2**20, f"symbols must be at most 2^20, got {symbols}")
    _check_whole("written", written, 2, 0, symbols - 1)
    states, n = written.shape
    require(
        n * math.log2(symbols) <= 20,
        f"written: all texts are listed, at most 2^20, got {symbols}^{n}",
    )
    texts = symbols**n
    _check_kept(kept, texts, states)
    limit = _limit(count, states, texts)
    place = symbols ** torch.arange(n - 1, -1, -1)
    number = (written * place).sum(1)
    right = number[kept] == torch.arange(texts)
    return at_most(right.double().mean(), limit)


def clustered(
    q: Tensor, v: Tensor, centres: Tensor, labels: Tensor, *, counts: bool = True
) -> Tensor:
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


def three_against_one() -> Verdict:
    """Keys ln 3, once, and -ln 3, three times, kept as four at 0: true answer 1/2, kept
    answer -1/2; the bound is 2 tanh(ln(3) / 2) = 1.

    Measured: how far the measured share is from one.
    """
    third = math.log(3)
    k = torch.tensor([[third], [-third], [-third], [-third]], dtype=double)
    v = k.sign()
    one = torch.ones(1, 1, dtype=double)
    labels = torch.zeros(4, dtype=torch.int64)
    share = clusters(one, k, v, 0 * one, labels).value
    return at_most(abs(share - 1), ROUNDING)


def _rounding(q: Tensor, k: Tensor, centres: Tensor) -> float:
    """What rounding may move an answer by; logits that overflow are refused."""
    largest = float((q @ torch.cat([k, centres]).T).abs().max())
    require(math.isfinite(largest), "q and k: their logits must be finite")
    return DIGITS * (1 + largest)


GROUPED = Case(grouped)


@claim(
    "after.clusters",
    cases=[
        GROUPED,
        GROUPED.but(width=0.5, length=10.0),
        GROUPED.but(groups=1),
        GROUPED.but(n=1000, groups=30, d=2, width=0.1, seed=1),
    ],
    controls=[GROUPED.but(counts=False), GROUPED.but(radius=0.002)],
    witness=three_against_one,
)
def clusters(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    centres: Tensor,
    labels: Tensor,
    *,
    radius: float | None = None,
    counts: bool = True,
) -> Verdict:
    """Keys within rho of C centres: a cache of C counts and C sums of values is off by
    at most 2 tanh(s rho / 2) times the largest value, however many tokens there are.

    Hypotheses: questions of length at most s, values as large as they like.
    Measured: the largest error over its bound, at most 1.

    Args:
        q: (m, d), questions; s is the longest.
        k: (n, d), keys.
        v: (n, m_v), values, not all zero.
        centres: (C, d).
        labels: (n,), int64, which centre a key belongs to.
        radius: what rho is said to be, and not compared with the keys: where it is too
            small, the bound may fail; None for the largest distance.
        counts: False forgets how many keys a centre has.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects than these, NaN and infinity, logits that
            overflow, and where s rho is zero or so small that rounding hides it.

    Claim: after.clusters
    Page: notebooks/what_came_after/cache
    """
    _check_rows(q=q, k=k, v=v, centres=centres)
    q, k, v, centres = (rows.detach() for rows in (q, k, v, centres))
    n, d = k.shape
    matches("q", q, (len(q), d), k, "k")
    matches("centres", centres, (len(centres), d), k, "k")
    require(len(v) == n, f"v must have a row for each of the {n} keys, got {len(v)}")
    _check_whole("labels", labels, 1, 0, len(centres) - 1)
    require(len(labels) == n, f"labels must be one a key, {n}, got {len(labels)}")
    if radius is None:
        radius = float((k - centres[labels]).norm(dim=1).max())
    numbers(radius=radius)
    reach = float(q.norm(dim=1).max()) * radius
    require(reach > 0, f"q and radius must not be zero: s rho = {reach}, no error")
    bound = 2 * math.tanh(reach / 2)
    rounding = _rounding(q, k, centres) / bound
    require(
        rounding < 1e-3,
        f"radius times the length of q must be seen beside rounding, got {reach:.3g}",
    )
    largest = float(v.abs().max())
    require(largest > 0, "v must not be all zero: nothing is relative to it")
    v = v / largest
    whole = torch.softmax(q @ k.T, dim=-1) @ v
    error = (clustered(q, v, centres, labels, counts=counts) - whole).abs().max()
    return at_most(float(error) / bound, 1 + ROUNDING + rounding)
