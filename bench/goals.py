"""What the jobs are held to: each goal names a ratio of a record, a target and the
floor that may stand in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attnbook.data.timings import Quartiles, Record, parts, peers, ratio, share


class Goal(NamedTuple):
    """A ratio and what it should be.

    Args:
        number: of the goal.
        words: what is measured.
        job, case: where; case is the beginning of its name.
        figure: from a record to quartiles and median, None if its peer was not run.
        target: a number.
        least: the ratio should be at least the target; else at most.
        device: "cpu" or "cuda".

    Page:
        book/benchmarks
    """

    number: int
    words: str
    job: str
    case: str
    figure: Callable
    target: float
    least: bool = True
    device: str = "cpu"

    def met(self, value: float | int) -> bool:
        """Whether a value reaches the target."""
        if self.least:
            return value >= self.target
        return value <= self.target


class Judged(NamedTuple):
    """A goal and what was measured.

    Args:
        goal: the goal.
        figure: quartiles and median, None if it was not run.
        case: its name, or "".
        word: reached, missed or not run.

    Page:
        book/benchmarks
    """

    goal: Goal
    figure: tuple[float, float, float] | None
    case: str

    @property
    def word(self) -> str:
        """reached, missed, or not run."""
        if self.figure is None:
            return "not run"
        return "reached" if self.goal.met(_median(self.figure)) else "missed"


def _median(figure: Quartiles) -> float:
    return figure[1]


def peer(*names: str) -> Callable[[Record], Quartiles | None]:
    """How many times our time a peer takes; of several, the quickest that ran."""

    def figure(record: Record) -> Quartiles | None:
        seconds = record["seconds"]
        found = []
        for name in peers(record):
            if name.startswith(names):
                found.append(ratio(seconds[name], seconds["ours"]))
        return min(found, key=_median, default=None)

    return figure


def floor(name: str) -> Callable[[Record], Quartiles | None]:
    """Our time over that of a floor."""

    def figure(record: Record) -> Quartiles | None:
        seconds = record["seconds"]
        below = seconds.get(f"floor {name}")
        return ratio(seconds["ours"], below) if below else None

    return figure


def of_rate(what: str) -> Callable[[Record], Quartiles | None]:
    """The share of this machine's rate."""
    return lambda record: share(record, what)


def of_density(record: Record) -> Quartiles | None:
    """The speed-up over SDPA with a mask, as a share of 1/density."""
    found = peer("SDPA + mask")(record)
    if found is None:
        return None
    density = record["sizes"]["density"]
    return tuple(q * density for q in found)


def of_parts(record: Record) -> Quartiles | None:
    """Our time over that of all parts together."""
    together = parts(record)
    return ratio(record["seconds"]["ours"], together) if together else None


def in_forwards(record: Record) -> Quartiles | None:
    """Our time in forward passes with given attention, as a share of (L + 1)/2 of
    them.
    """
    found = floor("forward, attention given")(record)
    if found is None:
        return None
    passes = (record["sizes"]["L"] + 1) / 2
    return tuple(q / passes for q in found)


def of_either(record: Record) -> Quartiles:
    """The share of this machine's rate that binds: of operations or of bytes, whichever
    is larger.
    """
    return max(share(record, "flop"), share(record, "bytes"), key=_median)


def reads(record: Record) -> Quartiles:
    """Our time in reads of the input, at the rate of a copy."""
    return tuple(1 / q for q in reversed(share(record, "bytes")))


def of_square(record: Record) -> Quartiles:
    """Our bytes at the peak as a share of an n x n matrix of 32-bit floats, three
    times.
    """
    square = 4 * record["sizes"]["n"] ** 2
    return (record["peak bytes"]["ours"] / square,) * 3


def error(record: Record) -> Quartiles:
    """The worst error of our run, three times."""
    return (record["worst error"]["ours"],) * 3


# The beginnings of the names of cases.
FORWARD = "window 129, n = 8192, forward:"
BOTH = "window 129, n = 8192, forward and backward:"
BLOCKS = "BigBird, blocks of 64, n = 4096"
UNION = "window 65 + stride 64 + 16 columns, n = 4096"
LONG = "window 257, n = 131072, bfloat16, forward:"
SMALL = "all 1.56e+04 paths"
LARGE = "all 2.82e+11 paths"
BATCH = "all 2.82e+11 paths, L = 12, H = 8, n = 128, d = 64, d_v = 64, 256 sequences"
FLOATS = "float code, log-sum-exp, n = 32768"
SIGNS = "sign code, n = 32768"
MILLION = "sign code, n = 1048576"
GAPS = "smallest gap of 1e+07 ids"
GPU_GAPS = "smallest gap of 1e+08 ids"
AVERAGES = "Boltzmann averages, 500000 x 32"

GOALS = [
    Goal(1, "flex, best block size / ours", "sparse", FORWARD, peer("flex"), 1.05),
    Goal(1, "Longformer / ours", "sparse", FORWARD, peer("Longformer"), 2.2),
    Goal(1, "local-attention / ours", "sparse", FORWARD, peer("local-attention"), 2.2),
    Goal(
        1,
        "useful FLOPs, share of the rate of a product",
        "sparse",
        FORWARD,
        of_rate("flop"),
        0.55,
    ),
    Goal(
        2,
        "Longformer / ours, with gradients",
        "sparse",
        BOTH,
        peer("Longformer"),
        2.2,
    ),
    Goal(
        2,
        "SDPA + mask / ours, with gradients",
        "sparse",
        BOTH,
        peer("SDPA + mask"),
        35,
    ),
    Goal(
        2,
        "useful FLOPs with gradients, share of the rate of a product",
        "sparse",
        BOTH,
        of_rate("flop"),
        0.45,
    ),
    Goal(
        3,
        "SDPA + mask / ours, as a share of 1/density",
        "sparse",
        BLOCKS,
        of_density,
        0.92,
    ),
    Goal(3, "flex / ours", "sparse", BLOCKS, peer("flex"), 1.1),
    Goal(4, "SDPA + mask / ours", "sparse", UNION, peer("SDPA + mask"), 18),
    Goal(4, "ours / sum of the parts", "sparse", UNION, of_parts, 1.05, least=False),
    Goal(4, "worst error against float64", "sparse", UNION, error, 1e-6, least=False),
    Goal(
        5,
        "flex, best block size / ours",
        "sparse",
        LONG,
        peer("flex"),
        1.2,
        device="cuda",
    ),
    Goal(
        5,
        "useful FLOPs or bytes, share of the rate that binds",
        "sparse",
        LONG,
        of_either,
        0.5,
        device="cuda",
    ),
    Goal(6, "one by one / ours", "paths", SMALL, peer("one by one"), 1900),
    Goal(6, "prefix tree / ours", "paths", SMALL, peer("prefix tree"), 450),
    Goal(
        6,
        "ours in forward passes / ((L + 1)/2)",
        "paths",
        LARGE,
        in_forwards,
        0.9,
        least=False,
    ),
    Goal(
        7,
        "useful FLOPs, share of the rate of a product",
        "paths",
        BATCH,
        of_rate("flop"),
        0.6,
        device="cuda",
    ),
    Goal(
        8,
        "ours / bare product",
        "verify",
        FLOATS,
        floor("bare product"),
        1.25,
        least=False,
    ),
    Goal(8, "row chunks / ours", "verify", FLOATS, peer("row chunks"), 3.5),
    Goal(
        8,
        "peak bytes / those of an n x n matrix",
        "verify",
        FLOATS,
        of_square,
        0.02,
        least=False,
    ),
    Goal(
        8,
        "int8: ours / bare product in floats",
        "verify",
        SIGNS,
        floor("bare product"),
        0.14,
        least=False,
    ),
    Goal(
        8,
        "int8: worst error against float64",
        "verify",
        SIGNS,
        error,
        0,
        least=False,
    ),
    Goal(
        9,
        "row chunks / ours",
        "verify",
        MILLION,
        peer("row chunks"),
        8,
        device="cuda",
    ),
    Goal(
        9,
        "useful FLOPs, share of the rate of a product",
        "verify",
        MILLION,
        of_rate("flop"),
        0.6,
        device="cuda",
    ),
    Goal(
        9,
        "worst error against float64",
        "verify",
        MILLION,
        error,
        0,
        least=False,
        device="cuda",
    ),
    Goal(10, "torch.sort + difference / ours", "ids", GAPS, peer("torch.sort"), 13),
    Goal(
        10,
        "torch.sort + difference / ours",
        "ids",
        GPU_GAPS,
        peer("torch.sort"),
        1.5,
        device="cuda",
    ),
    Goal(
        10,
        "136 bytes a key, share of the rate of a copy",
        "ids",
        GPU_GAPS,
        of_rate("bytes"),
        0.4,
        device="cuda",
    ),
    Goal(11, "ours / copy", "ids", AVERAGES, floor("copy"), 1.12, least=False),
    Goal(11, "eager / ours", "ids", AVERAGES, peer("eager"), 2.7),
    Goal(
        11,
        "ours in reads of the input, at the rate of a copy",
        "ids",
        AVERAGES,
        reads,
        1.1,
        least=False,
        device="cuda",
    ),
    Goal(11, "eager / ours", "ids", AVERAGES, peer("eager"), 2.7, device="cuda"),
]


def judge(
    records: Sequence[Record], goals: Sequence[Goal] | None = None
) -> list[Judged]:
    """Every goal beside what was measured; where several cases of a goal were, the one
    nearest to missing it.
    """
    if goals is None:
        goals = GOALS
    return [_judge(goal, records) for goal in goals]


def _judge(goal: Goal, records: Sequence[Record]) -> Judged:
    found = []
    for record in records:
        if not _concerns(goal, record):
            continue
        figure = goal.figure(record)
        if figure is not None:
            found.append((figure, record["case"]))
    if not found:
        return Judged(goal, None, "")
    nearest = min if goal.least else max
    figure, case = nearest(found, key=lambda pair: _median(pair[0]))
    return Judged(goal, figure, case)


def _concerns(goal: Goal, record: Record) -> bool:
    """Whether a record is of the goal's job and device, and of a case that it names."""
    if (record["job"], record["device"]) != (goal.job, goal.device):
        return False
    # The colon ends the name, so that "forward:" leaves "forward and backward" out.
    return f"{record['case']}:".startswith(goal.case)
