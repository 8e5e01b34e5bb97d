"""The claims of the page `What a tile must tell`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from attnbook.theorems import Case, claim
from attnlib._require import (
    finite,
    is_a,
    is_list,
    is_tensor,
    numbers,
    one_of,
    require,
    sizes,
)
from attnlib.attention import Layer, _project, check_network, forward, random_layers
from attnlib.certify import Verdict, at_least, at_most

double = torch.float64
EPS = torch.finfo(double).eps
MOST = 2**22  # pairs of a tile and what else is read, that a theorem lists


# --- what a tile tells


def messages(query: Tensor, tiles: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    """What tiles tell a query: the mean value o of each head, and the logarithm lambda
    of the sum of its exponentials.

        lambda = ln sum_j exp(l_j),   o = sum_j exp(l_j - lambda) v_j,
        l_j = (W_Q' x + b_Q) . (W_K' y_j + b_K) / sqrt(d_qk),  v_j = W_V' y_j + b_V

    Args:
        query: x, (q, d).
        tiles: (N, n, d), rows y_j.
        layer: H heads with values of width m.

    Returns:
        o (q, N, H, m) and lambda (q, N, H).

    Raises:
        ValueError: for other shapes, dtypes, or NaN and infinity.

    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check_tiles(query, tiles, layer)
    return _messages(query, tiles, layer)


def _messages(query: Tensor, tiles: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    tokens = tiles[:, None]  # one copy for all heads
    asked = _project(query[:, None, None, None], layer.w_q, layer.b_q)
    keys = _project(tokens, layer.w_k, layer.b_k)
    values = _project(tokens, layer.w_v, layer.b_v)
    logits = asked @ keys.mT / math.sqrt(layer.w_q.shape[-1])
    o = torch.softmax(logits, dim=-1) @ values
    lambda_ = logits.logsumexp(-1)
    require(
        bool(o.isfinite().all() and lambda_.isfinite().all()),
        "what tiles tell is not finite: tokens or weights are too large for floats",
    )
    return o.squeeze(-2), lambda_.squeeze(-1)


def _merge(first: tuple, second: tuple) -> Tensor:
    """The mean value over two tiles from what each of them tells."""
    (o_a, lambda_a), (o_b, lambda_b) = first, second
    share = torch.sigmoid(lambda_a - lambda_b)[..., None]
    return share * o_a + (1 - share) * o_b


def _in_bits(x: Tensor, bits: int) -> Tensor:
    """Each number to the nearest of 2^bits, evenly from the least to the largest that
    any tile tells (dim 1).
    """
    low = x.amin(dim=1, keepdim=True)
    step = (x.amax(dim=1, keepdim=True) - low) / (2**bits - 1)
    steps = ((x - low) / step).round().nan_to_num(0.0)  # 0 / 0: all tell the same
    return low + steps * step


def _told(told: tuple[Tensor, Tensor], bits: int, rounded: bool) -> tuple:
    """(o, lambda), in so many bits a number unless rounded is False."""
    if not rounded:
        return told
    return tuple(_in_bits(number, bits) for number in told)


def _allowed(layer: Layer, bits: int) -> int:
    """H (m + 1) p."""
    heads, _, width = layer.w_v.shape
    return heads * (width + 1) * bits


def _check_tiles(query, tiles, layer, *others) -> None:
    """Refuse other than (q, d), (N, n, d), and (M, n', d) that fit the layer."""
    is_a(Layer, layer=layer)
    given = {"tiles": (tiles, 3), "query": (query, 2)}
    if others:
        given["others"] = (*others, 3)
    shapes = {"query": "(1, d)", "tiles": "(N, n, d)", "others": "(M, n, d)"}
    for name, (tensor, dims) in given.items():
        is_tensor(name, tensor)
        got = f"{tensor.dtype} {tuple(tensor.shape)}"
        good = tensor.dim() == dims and tensor.numel() > 0 and tensor.dtype == double
        require(good, f"{name} must be float64 {shapes[name]}, got {got}")
        finite(**{name: tensor})
        d = tiles.shape[-1]
        require(
            tensor.shape[-1] == d,
            f"{name} must be as wide as tiles, d = {d}, got {tensor.shape[-1]}",
        )
    check_network(tiles, [layer])


def _check_bits(bits) -> None:
    """Refuse what is no number of bits: above 48 a double holds no such grid."""
    sizes(1, bits=bits)
    require(bits <= 48, f"bits must be at most 48, got {bits}: a double has 52")


# --- objects: what the tests run the theorems on


def all_strings(n: int) -> Tensor:
    """Every string of n bits, (2^n, n), boolean.

    Args:
        n: bits, at most 20.

    Returns:
        a boolean tensor.

    Raises:
        ValueError: for other sizes.

    Page: notebooks/what_came_after/bits_of_a_tile
    """
    sizes(1, n=n)
    require(n <= 20, f"n must be at most 20, got {n}: that is 2**{n} strings")
    return (torch.arange(2**n)[:, None] >> torch.arange(n)) % 2 == 1


def _words(strings: Tensor, d: int, generator: torch.Generator) -> Tensor:
    """Tokens of strings: a random word for each pair of a place and a bit."""
    book = torch.randn(strings.shape[1], 2, d, generator=generator, dtype=double)
    return torch.where(strings[..., None], book[:, 1], book[:, 0])


def strings_and_others(n=9, heads=1, width=1, seed=0, one_query=True) -> dict:
    """All strings of n bits as tiles, four other tiles of five tokens, a query, and a
    random layer; with one_query=False, a query for each of the others.
    """
    g = torch.Generator().manual_seed(seed)
    (layer,) = random_layers(
        1, heads, 4, 3, d_v=width, bias=True, dtype=torch.float64, generator=g
    )
    tiles = _words(all_strings(n), 4, g)
    others = torch.randn(4, 5, 4, generator=g, dtype=double)
    query = torch.randn(4, 4, generator=g, dtype=double)
    return {
        "tiles": tiles,
        "others": others,
        "query": query[:1] if one_query else query,
        "layer": layer,
    }


def strings_to_look_up(n=9, heads=1, width=1, seed=0, plain=False) -> dict:
    """All strings of n bits, as bits and as tiles, a query, and a random layer; plain:
    one that attends evenly and averages the bits.
    """
    objects = strings_and_others(n, heads, width, seed)
    del objects["others"]
    strings = all_strings(n)
    if plain:
        layer = objects["layer"]
        nothing = layer._make(None if w is None else 0 * w for w in layer)
        objects["layer"] = nothing._replace(w_v=layer.w_v, w_o=layer.w_o)
        bit = torch.zeros(4, dtype=double)
        bit[0] = 1.0
        objects["tiles"] = strings[..., None] * bit
    return {"strings": strings} | objects


# --- the theorem


def eight_strings_and_four_messages() -> Verdict:
    """By hand: a head that averages three bits evenly tells 0, 1/3, 2/3 or 1, in two
    bits; so the eight strings have four rows.

    Measured: by how much the rows miss four, and the messages 0, 1/3, 2/3, 1.
    """
    objects = strings_to_look_up(3, plain=True)
    strings = objects.pop("strings")
    one = torch.eye(4, dtype=double)[None, :, :1]
    objects["layer"] = objects["layer"]._replace(w_v=one)
    o, _ = messages(**{k: objects[k] for k in ("query", "tiles", "layer")})
    off = float((o.flatten() - strings.double().mean(1)).abs().max())
    others = strings_and_others(3)["others"]
    found = tile(**objects, others=others, bits=2)
    return at_most(abs(found.value - 2) + off, 16 * EPS)


TILE = Case(strings_and_others, {"n": 9}, {"bits": 4})


@claim(
    "after.tile",
    cases=[
        TILE,
        TILE.but(seed=1),
        TILE.but(n=10, heads=2, bits=2),
        TILE.but(n=10, width=3, bits=2),
        TILE.but(n=5, bits=20),
    ],
    controls=[TILE.but(rounded=False), TILE.but(one_query=False)],
    witness=eight_strings_and_four_messages,
)
def tile(
    tiles: Tensor,
    others: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    rounded: bool = True,
) -> Verdict:
    """One layer: H (m + 1) p >= log2 of the number of different rows of f(A, .), if
    each number that tile A tells the query has p bits.

    Hypotheses: one query; the tokens of a tile, and how its numbers are rounded, depend
    on that tile alone.
    Measured: log2 of the number of different rows, the merged means at the query for
    all others, compared to nine digits of the largest; infinity if the merged messages
    are not what the layer computes.

    Args:
        tiles: the tiles A, (N, n, d), float64.
        others: the rest of the sequence, (M, n', d), without the query.
        query: (1, d); M rows, one for each of the others, break the hypothesis.
        layer: H heads with values of width m.
        bits: p. The numbers are rounded to 2^p values from the least to the largest.
        rounded: False leaves them as they are.

    Returns:
        Verdict; its bound is H (m + 1) p.

    Raises:
        ValueError: for other objects.

    Claim: after.tile
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check_tiles(query, tiles, layer, others)
    _check_bits(bits)
    N, M = len(tiles), len(others)
    require(
        len(query) in (1, M), f"query must have 1 row (or {M}), got {len(query)} rows"
    )
    require(N * M <= MOST, f"tiles and others make {N * M:,} pairs, above {MOST:,}")
    told = _messages(query, tiles, layer)
    # The query reads itself, too: it stands beside the others.
    itself = query.expand(M, -1)[:, None]
    rest = torch.cat([others, itself], dim=1)
    answers = [
        _messages(query[min(i, len(query) - 1)][None], rest[i : i + 1], layer)
        for i in range(M)
    ]
    heard = tuple(torch.cat(parts) for parts in zip(*answers))  # (M, 1, H, ...)
    if _misfit(told, heard, tiles, rest, layer) > 1024 * EPS * _largest(told, heard):
        return at_most(math.inf, _allowed(layer, bits))
    means = _merge(_told(told, bits, rounded), heard)  # (M, N, H, m)
    rows = means.transpose(0, 1).flatten(1)
    rows = rows / rows.abs().amax(dim=0).clamp_min(torch.finfo(double).tiny)
    different = len(rows.round(decimals=9).unique(dim=0))
    return at_most(math.log2(different), _allowed(layer, bits))


def _largest(told: tuple, heard: tuple) -> float:
    """The largest lambda, or 1: its share of a merged mean is as exact as it is."""
    return max(1.0, *(float(lambda_.abs().max()) for _, lambda_ in (told, heard)))


def _misfit(told, heard, tiles: Tensor, rest: Tensor, layer: Layer) -> float:
    """The distance of merged messages, at the first tiles, from what the layer computes
    at the query, relative to the largest output.
    """
    few = tiles[:16]
    sequences = []
    for other in rest:
        same = other.expand(len(few), -1, -1)
        sequences.append(torch.cat([few, same], dim=1))
    wanted = forward(torch.stack(sequences), [layer])[:, :, -1]
    means = _merge(tuple(part[:, :16] for part in told), heard)
    got = means.flatten(-2) @ layer.w_o.flatten(0, 1)
    if layer.b_o is not None:
        got = got + layer.b_o
    off = (got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-300)
    return float(off.nan_to_num(math.inf)) if wanted.any() else float(got.abs().max())


# --- looking up


def _which(told: tuple[Tensor, Tensor]) -> Tensor:
    """For each string, the number of its message."""
    o, lambda_ = told
    numbers_told = torch.cat([o.flatten(2), lambda_.flatten(2)], dim=-1)[0]
    return numbers_told.unique(dim=0, return_inverse=True)[1]


def _by_majority(strings: Tensor, which: Tensor) -> Tensor:
    """What a reader of messages makes of each string who answers, for each message and
    place, with the bit that more of its strings have.
    """
    count = torch.zeros(int(which.max()) + 1, dtype=torch.long)
    count = count.index_add(0, which, torch.ones_like(which))
    ones = torch.zeros(len(count), strings.shape[1], dtype=torch.long)
    ones = ones.index_add(0, which, strings.long())
    return (2 * ones > count[:, None])[which]


def _check_strings(strings, tiles) -> None:
    """Refuse other than all strings, one for each tile."""
    is_tensor("strings", strings)
    got = f"{strings.dtype} {tuple(strings.shape)}"
    require(
        strings.dtype == torch.bool and strings.dim() == 2 and strings.numel() > 0,
        f"strings must be boolean (N, n), got {got}",
    )
    N, n = strings.shape
    different = len(strings.unique(dim=0))
    require(
        n <= 20 and N == different == 2**n,
        f"strings must be all strings of n = {n} bits, once each, got {N} rows, "
        f"{different} of them different",
    )
    require(
        tiles.shape[0] == N,
        f"tiles must be one for each of {N} strings, got {len(tiles)}",
    )


def four_of_eight_lists() -> Verdict:
    """By hand: three bits have 0, 1, 2 or 3 ones. A reader who is told how many names
    one list for each, and so is right for four lists of eight.

    Measured: how far the lists known whole miss 4.
    """
    found = lookup(**strings_to_look_up(3, plain=True), bits=2)
    return at_most(abs(2**found.value - 4), 0)


LOOKUP = Case(strings_to_look_up, {"n": 9}, {"bits": 4})
LOOKUPS = [
    LOOKUP,
    LOOKUP.but(plain=True),
    LOOKUP.but(n=10, heads=2, bits=2),
    LOOKUP.but(n=10, width=3, bits=2),
]


@claim(
    "after.lookup",
    cases=LOOKUPS,
    controls=[LOOKUP.but(rounded=False)],
    witness=four_of_eight_lists,
)
def lookup(
    strings: Tensor,
    tiles: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    rounded: bool = True,
) -> Verdict:
    """One layer whose query does not know the place answers at most 2^(H (m + 1) p) of
    the 2^n strings rightly at every place.

    Measured: log2 of how many strings the best reader knows whole. It names one string
    for each message, so that is how many messages there are.

    Args:
        strings: all strings of n bits, (2^n, n), boolean.
        tiles: (2^n, n, d), float64, the tokens that stand for them.
        query: (1, d).
        layer: H heads with values of width m.
        bits: p.
        rounded: False leaves what is told as it is.

    Returns:
        Verdict; its bound is H (m + 1) p.

    Raises:
        ValueError: for other objects.

    Claim: after.lookup
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    which = _numbered(strings, tiles, query, layer, bits, rounded)
    return at_most(math.log2(int(which.max()) + 1), _allowed(layer, bits))


def _numbered(strings, tiles, query, layer, bits, rounded) -> Tensor:
    """For each string, the number of its message; checks what is given."""
    _check_tiles(query, tiles, layer)
    _check_strings(strings, tiles)
    _check_bits(bits)
    is_a(bool, rounded=rounded)
    require(len(query) == 1, f"query must be (1, d), got {tuple(query.shape)}")
    return _which(_told(_messages(query, tiles, layer), bits, rounded))


def entropy(share: float | int) -> float:
    """h of a share, in bits: -x log2 x - (1 - x) log2 (1 - x).

    Args:
        share: x, from 0 to 1.

    Returns:
        a number from 0 to 1.

    Raises:
        ValueError: for other numbers.

    Page: notebooks/what_came_after/bits_of_a_tile
    """
    numbers(share=share)
    require(0 <= share <= 1, f"share must lie between 0 and 1, got {share}")
    terms = [-x * math.log2(x) for x in (share, 1 - share) if x > 0]
    return sum(terms)


def a_quarter_wrong() -> Verdict:
    """By hand: from the number of ones among three bits, the majority is wrong on one
    bit of six lists, so on 6 of 24 bits, and 3 (1 - h(1/4)) = 0.5662.

    Measured: the distance from that number.
    """
    wanted = 3 * (1 - (2 - 0.75 * math.log2(3)))
    objects = strings_to_look_up(3, plain=True)
    found = nearly(**objects, bits=2)
    return at_most(abs(found.value - wanted) + abs(wanted - 0.5662), 1e-4)


@claim(
    "after.nearly",
    cases=LOOKUPS,
    controls=[LOOKUP.but(rounded=False)],
    witness=a_quarter_wrong,
)
def nearly(
    strings: Tensor,
    tiles: Tensor,
    query: Tensor,
    layer: Layer,
    *,
    bits: int,
    rounded: bool = True,
) -> Verdict:
    """If the layer is wrong on a share delta of all strings and places, then
    H (m + 1) p >= n (1 - h(delta)).

    Measured: n (1 - h(delta)), for the reader who is wrong on the fewest pairs: the
    majority of the strings of a message, at each place.

    Args:
        strings: all strings of n bits, (2^n, n), boolean.
        tiles: (2^n, n, d), float64, the tokens that stand for them.
        query: (1, d).
        layer: H heads with values of width m.
        bits: p.
        rounded: False leaves what is told as it is.

    Returns:
        Verdict; its bound is H (m + 1) p.

    Raises:
        ValueError: for other objects.

    Claim: after.nearly
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    which = _numbered(strings, tiles, query, layer, bits, rounded)
    wrong = float((_by_majority(strings, which) != strings).double().mean())
    return at_most(strings.shape[1] * (1 - entropy(wrong)), _allowed(layer, bits))


# --- what tasks ask


def bits_asked(f: Callable, tiles: Sequence, others: Sequence) -> float:
    """log2 of the number of different rows of the table f(A, B): the bits that the
    theorem asks of a tile.

    Args:
        f: of a tile and of what else is read; its values can be compared.
        tiles: all A.
        others: all B.

    Returns:
        a number of bits.

    Raises:
        ValueError: for what is no function, empty lists, too many pairs, or answers
            that cannot be compared (tensors, lists, NaN).

    Cost: |tiles| |others| calls of f, and two more.
    Claim: after.tasks
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    require(callable(f), f"f must be a function of (A, B), got {type(f).__name__}")
    is_list(tiles=tiles, others=others)
    pairs = len(tiles) * len(others)
    require(pairs > 0, "tiles and others must not be empty")
    require(pairs <= MOST, f"tiles and others make {pairs:,} pairs, above {MOST:,}")
    _check_answer(f(tiles[0], others[0]), f(tiles[0], others[0]))
    rows = [tuple(f(a, b) for b in others) for a in tiles]
    for row in rows:
        for value in row:
            _check_answer(value, value)
    return math.log2(len(set(rows)))


def _check_answer(first, again) -> None:
    """Refuse answers that are not equal when they should be: tensors, NaN, dice."""
    try:
        same = hash(first) == hash(again) and bool(first == again)
    except (TypeError, ValueError, RuntimeError):
        same = False
    require(
        same and not torch.is_tensor(first),
        "f must give the same answer each time, one that can be compared (a number, a "
        f"string, a tuple), got {type(first).__name__} {first!r}, then {again!r}",
    )


def _lists(n: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in all_strings(n).int().tolist()]


def look_up(n: int) -> tuple:
    """The bit of A at the place that B names; n bits."""
    return (lambda a, b: a[b]), _lists(n), list(range(n)), n


def equality(n: int) -> tuple:
    """Whether A and B are the same string; n bits."""
    return (lambda a, b: a == b), _lists(n), _lists(n), n


def majority(n: int) -> tuple:
    """Whether more than half of all 2n bits are ones; log2(n + 1) bits."""
    return (
        (lambda a, b: sum(a) + b > n),
        _lists(n),
        list(range(n + 1)),
        math.log2(n + 1),
    )


def parity(n: int) -> tuple:
    """Whether the number of ones is odd; one bit."""
    return (lambda a, b: (sum(a) + b) % 2), _lists(n), [0, 1], 1


def match2(n: int) -> tuple:
    """Whether some number and that of the query, 2, add up to 0 modulo n + 2; a bit."""
    pairs = [(i, j) for i in range(n + 2) for j in range(n + 2)]
    return (lambda a, b: n in a + b), pairs, pairs, 1


def match3(n: int, modulus: int | None = None) -> tuple:
    """Whether two numbers (maybe the same one twice, or the query's) and that of the
    query, n + 1, add up to 0 modulo 4 (n + 1); n bits.

    Number j of A is j or n + 1, number j of B is M - (n + 1) - j or n + 1.
    """
    inert = n + 1
    M = 4 * (n + 1) if modulus is None else modulus
    tiles = []
    others = []
    for string in _lists(n):
        picks = list(enumerate(string, 1))
        tiles.append(tuple(j if bit else inert for j, bit in picks))
        others.append(tuple((M - inert - j) if bit else inert for j, bit in picks))

    def f(a, b):
        read = (inert, *a, *b)
        return any((inert + x + y) % M == 0 for x in read for y in read)

    return f, tiles, others, n


TASKS = {
    "look up": look_up,
    "equality": equality,
    "majority": majority,
    "parity": parity,
    "Match2": match2,
    "Match3": match3,
}
Task = Literal["look up", "equality", "majority", "parity", "Match2", "Match3"]


def a_task(task: Task = "Match3", n: int = 4, modulus: int | None = None) -> dict:
    """A task by name, with its tiles, what else is read, and the bits it asks."""
    one_of(TASKS, task=task)
    sizes(1, n=n)
    require(n <= 10, f"n must be at most 10, got {n}: all strings are listed")
    found = TASKS[task](n)
    if modulus is not None:
        sizes(1, modulus=modulus)
        require(task == "Match3", f"modulus must be None for {task}, got {modulus}")
        found = match3(n, modulus)
    return dict(zip(("f", "tiles", "others", "bits"), found))


def rows_of_two_bits() -> Verdict:
    """By hand, for two bits: a place has the rows 00, 01, 10, 11; the majority of four
    bits has three rows; a parity has two.

    Measured: by how much one of the numbers of rows is missed.
    """
    wanted = {"look up": 4, "equality": 4, "majority": 3, "parity": 2, "Match3": 4}
    off = 0.0
    for task, rows in wanted.items():
        objects = a_task(task, 2)
        del objects["bits"]
        off = max(off, abs(2 ** bits_asked(**objects) - rows))
    return at_most(off, 1e-12)


ASKED = Case(a_task)


@claim(
    "after.tasks",
    cases=[
        ASKED,
        *[ASKED.but(task=task, n=n) for task in TASKS for n in (1, 4)],
        ASKED.but(task="look up", n=8),
    ],
    controls=[ASKED.but(modulus=10), ASKED.but(bits=3)],
    witness=rows_of_two_bits,
)
def tasks(f: Callable, tiles: Sequence, others: Sequence, bits: float | int) -> Verdict:
    """Looking up and equality ask n bits of a tile of n bits, a majority of 2n bits
    log2(n + 1), a parity and Match2 one, Match3 at least n of a tile of n numbers.

    Measured: the distance of log2 of the number of different rows from `bits`; for
    Match3, of the rows of the 2^n tiles that the proof names.

    Args:
        f: of a tile and of what else is read.
        tiles, others: lists of all that may stand there.
        bits: what the statement says of this task.

    Returns:
        Verdict; its bound is 1e-12.

    Raises:
        ValueError: as bits_asked.

    Claim: after.tasks
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    numbers(bits=bits)
    return at_most(abs(bits_asked(f, tiles, others) - bits), 1e-12)


# --- reached


def digits_in_values(heads=2, width=2, bits=3, room=None) -> dict:
    """All strings of H m p bits, told by even attention with p of them as the digits of
    each number; room: so many digits a number are used.
    """
    room = bits if room is None else room
    sizes(1, heads=heads, width=width, bits=bits, room=room)
    n = heads * width * bits
    place = torch.arange(n)
    number = (place // room) % (heads * width)
    w_v = torch.zeros(heads, n, width, dtype=double)
    w_v[number // width, place, number % width] = (n * 2 ** (place % room)).double()
    zero = torch.zeros(heads, n, 1, dtype=double)
    w_o = torch.zeros(heads, width, n, dtype=double)
    return {
        "tiles": torch.diag_embed(all_strings(n).double()),
        "query": torch.zeros(1, n, dtype=double),
        "layer": Layer(w_q=zero, w_k=zero, w_v=w_v, w_o=w_o),
        "bits": bits,
    }


def five_and_its_bits() -> Verdict:
    """By hand: one head of width one tells 101, read from the right, as the number 5.

    Measured: the distance from the numbers 0 to 7, in the order of all_strings.
    """
    objects = digits_in_values(1, 1, 3)
    del objects["bits"]
    o, _ = messages(**objects)
    off = (o.flatten() - torch.arange(8)).abs().max()
    return at_most(off, 64 * EPS)


DIGITS = Case(digits_in_values)


@claim(
    "after.reached",
    cases=[DIGITS, DIGITS.but(heads=1, width=1, bits=10), DIGITS.but(width=1, bits=1)],
    controls=[DIGITS.but(room=2)],
    witness=five_and_its_bits,
)
def reached(tiles: Tensor, query: Tensor, layer: Layer, bits: int) -> Verdict:
    """H heads of width m with p bits a number can tell a tile of H m p bits whole, and
    all logits may be equal.

    Measured: how many messages are missing to one a tile, plus how many numbers are not
    whole, from 0 to 2^p - 1.

    Args:
        tiles: (2^(H m p), n, d), float64, all different.
        query: (1, d).
        layer: H heads with values of width m.
        bits: p.

    Returns:
        Verdict; its bound is 0.

    Raises:
        ValueError: for other objects.

    Claim: after.reached
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check_tiles(query, tiles, layer)
    _check_bits(bits)
    require(len(query) == 1, f"query must be (1, d), got {tuple(query.shape)}")
    require(layer.w_v.any(), "layer: w_v is zero, and no message tells anything")
    heads, _, width = layer.w_v.shape
    told = heads * width * bits
    different = len(tiles.flatten(1).unique(dim=0))
    require(
        told <= 20 and len(tiles) == different == 2**told,
        f"tiles must be 2^(H m p) = 2^{told} different ones (at most 2^20), got "
        f"{len(tiles)}, {different} of them different",
    )
    o, _ = _messages(query, tiles, layer)
    whole = o[0].flatten(1).round()
    unequal = float((o[0].flatten(1) - whole).abs().max()) > 1e-6
    shared = len(tiles) - len(whole.unique(dim=0))
    outside = (whole < 0) | (whole > 2**bits - 1)
    return at_most(shared + int(outside.any(0).sum()) + unequal, 0)


# --- two layers


def strings_with_marks(n=8, count=None, seed=0) -> dict:
    """All strings of n bits with each of the places, or so many random ones."""
    sizes(1, n=n)
    if count is None:
        strings = all_strings(n)
        places = torch.arange(n).repeat(len(strings))
        return {"strings": strings.repeat_interleave(n, 0), "places": places}
    sizes(1, count=count)
    g = torch.Generator().manual_seed(seed)
    strings = torch.rand(count, n, generator=g) < 0.5
    return {"strings": strings, "places": torch.randint(n, (count,), generator=g)}


def position_codes(count: int, signs: int | None = None) -> Tensor:
    """The binary digits of 0, ..., count - 1 as signs, (count, signs).

    Args:
        count: how many.
        signs: digits of each, by default as many as it takes to tell them apart.

    Returns:
        float64, entries 1 and -1.

    Raises:
        ValueError: for other sizes.

    Page: notebooks/what_came_after/bits_of_a_tile
    """
    sizes(1, count=count)
    require(count <= MOST, f"count must be at most {MOST:,}, got {count:,}")
    if signs is None:
        signs = max(1, (count - 1).bit_length())
    sizes(1, signs=signs)
    require(signs <= 62, f"signs must be at most 62, got {signs}: integers have 63")
    digits = (torch.arange(count)[:, None] >> torch.arange(signs)) % 2
    return (2 * digits - 1).double()


def _by_tiles(logits: Tensor, values: Tensor, accuracy: float | int) -> Tensor:
    """Attention that merges what its two tiles tell, bits at odd positions and the rest
    at even ones; each number first becomes a multiple of the accuracy, if above 0.
    """
    told = []
    for start in (1, 0):
        part = logits[..., start::2]
        o = torch.softmax(part, dim=-1) @ values[..., start::2, :]
        lambda_ = part.logsumexp(-1)
        if accuracy > 0:
            o = (o / accuracy).round() * accuracy
            lambda_ = (lambda_ / accuracy).round() * accuracy
        told.append((o, lambda_))
    return _merge(*told)


def one_bit_by_hand() -> Verdict:
    """By hand, n = 1: the tokens ?, b, ?. With 8 T = 24 a wrong key has at most 1/24 of
    the weight of the right one in layer 1, so the bit's note is at least 24/26.

    Measured: what is missing to 3/4, and what `notes` misses of the true softmax.
    """
    codes = position_codes(3)
    weights = torch.softmax(math.log(24) / 2 * codes @ codes.mT, dim=-1)
    wanted = float(weights[0, 0] + weights[0, 2])  # the bit looks for position 0
    strings = torch.tensor([[True], [False]])
    places = torch.zeros(2, dtype=torch.long)
    got = notes(strings, places)[:, 1]
    off = float((got - wanted).abs().max())
    return at_most(off + (not two_layers(strings, places).ok), 16 * EPS)


def notes(
    strings: Tensor,
    places: Tensor,
    *,
    signs: int | None = None,
    accuracy: float | int = 0.0,
) -> Tensor:
    """Layer 1: each token looks at the one before it, and notes how marked it is.

    Args:
        strings: (N, n), boolean; bit j stands at position 2j + 1.
        places: (N,), integers; the mark stands at position 2 places.
        signs: of the position codes.
        accuracy: as in two_layers.

    Returns:
        (N, 2n + 1), float64.

    Raises:
        ValueError: for other objects.

    Page: notebooks/what_came_after/bits_of_a_tile
    """
    _check_marks(strings, places, accuracy)
    N, n = strings.shape
    T = 2 * n + 1
    codes = position_codes(T, signs)
    marks = torch.zeros(N, T, dtype=double)
    marks[torch.arange(N), 2 * places] = 1.0
    marks[:, -1] = 1.0  # the query is a question mark too
    before = codes.roll(1, dims=0)
    logits = math.log(8 * T) / 2 * before @ codes.mT
    return _by_tiles(logits, marks.mT, accuracy).mT


MARKED = Case(strings_with_marks)


@claim(
    "after.two-layers",
    cases=[
        MARKED,
        MARKED.but(accuracy=1 / 16),
        MARKED.but(n=1),
        MARKED.but(n=5, accuracy=1 / 16),
        MARKED.but(n=100, count=50),
    ],
    controls=[
        MARKED.but(layers=1),
        MARKED.but(signs=3),
        MARKED.but(accuracy=3.0),
    ],
    witness=one_bit_by_hand,
)
def two_layers(
    strings: Tensor,
    places: Tensor,
    *,
    layers: int = 2,
    signs: int | None = None,
    accuracy: float | int = 0.0,
) -> Verdict:
    """Two layers of one head look up any of n bits; keys have ceil(log2(2n + 1)) signs.

    The output is at least 3/4 times the sign of the bit, and at least 11/16 times it if
    all that tiles tell is rounded to multiples of 1/16.
    Measured: the least output times the sign of the bit, +1 or -1.

    Args:
        strings: (N, n), boolean; bit j stands at position 2j + 1.
        places: (N,), integers; the mark stands at position 2 places.
        layers: 1 leaves out the first one.
        signs: digits of a position; fewer than enough let positions share a key.
        accuracy: round o and lambda of each tile to multiples of it; 0 for not at all.

    Returns:
        Verdict.

    Raises:
        ValueError: for other objects.

    Claim: after.two-layers
    Page: notebooks/what_came_after/bits_of_a_tile
    """
    sizes(1, layers=layers)
    require(layers <= 2, f"layers must be 1 or 2, got {layers}")
    noted = notes(strings, places, signs=signs, accuracy=accuracy)
    if layers == 1:
        noted = 0 * noted
    N, n = strings.shape
    sign = 2.0 * strings.double() - 1
    is_bit = torch.zeros(2 * n + 1, dtype=double)
    is_bit[1::2] = 1.0
    values = torch.zeros(N, 2 * n + 1, dtype=double)
    values[:, 1::2] = sign
    logits = 2 * math.log(8 * (2 * n + 1)) * (noted + is_bit)
    out = _by_tiles(logits[:, None], values[..., None], accuracy).flatten()
    margin = out * sign[torch.arange(N), places]
    return at_least(float(margin.min()), 11 / 16 if accuracy > 0 else 3 / 4)


def _check_marks(strings, places, accuracy) -> None:
    """Refuse other than (N, n) booleans, (N,) places within, and an accuracy >= 0."""
    for name, tensor in {"strings": strings, "places": places}.items():
        is_tensor(name, tensor)
    got = f"{strings.dtype} {tuple(strings.shape)}"
    good = strings.dim() == 2 and strings.numel() > 0 and strings.dtype == torch.bool
    require(good, f"strings must be boolean (N, n), got {got}")
    N, n = strings.shape
    require(
        n <= 4096,
        f"strings must have at most 4,096 bits, got {n:,}: layer 1 has 4n^2 logits",
    )
    got = f"{places.dtype} {tuple(places.shape)}"
    good = tuple(places.shape) == (N,) and places.dtype == torch.long
    require(good, f"places must be int64 ({N},) to fit strings, got {got}")
    require(
        bool(((places >= 0) & (places < n)).all()),
        f"places must lie between 0 and {n - 1}, got {int(places.min())} to "
        f"{int(places.max())}",
    )
    numbers(accuracy=accuracy)
    require(accuracy >= 0, f"accuracy must not be negative, got {accuracy}")
    require(
        accuracy == 0 or accuracy >= 1e-12,
        f"accuracy must be 0 or at least 1e-12, got {accuracy}: doubles are no finer",
    )
