"""What the jobs are held to: each goal names a ratio of a record, a target and the
floor that may stand in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attnlib.bench.record import Record, parts, peers, share
from attnlib.bench.timing import ratio

Quartiles = tuple[float, float, float]


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

    def met(self, value: float | int, slack: float | int = 1) -> bool:
        """Whether a value reaches the target."""
        return (
            value >= self.target / slack if self.least else value <= self.target * slack
        )


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
        return "reached" if self.goal.met(self.figure[1]) else "missed"


def peer(*names: str) -> Callable[[Record], Quartiles | None]:
    """How many times our time a peer takes; of several, the quickest that ran."""

    def figure(record: Record) -> Quartiles | None:
        found = [
            ratio(record["seconds"][name], record["seconds"]["ours"])
            for name in peers(record)
            if name.startswith(names)
        ]
        return min(found, key=lambda q: q[1], default=None)

    return figure


def floor(name: str) -> Callable[[Record], Quartiles | None]:
    """Our time over that of a floor."""

    def figure(record: Record) -> Quartiles | None:
        below = record["seconds"].get(f"floor {name}")
        return below and ratio(record["seconds"]["ours"], below)

    return figure


def of_rate(what: str) -> Callable[[Record], Quartiles | None]:
    """The share of this machine's rate."""
    return lambda record: share(record, what)


def of_density(record: Record) -> Quartiles | None:
    """The speed-up over SDPA with a mask, as a share of 1/density."""
    found = peer("SDPA + mask")(record)
    return found and tuple(q * record["sizes"]["density"] for q in found)


def of_parts(record: Record) -> Quartiles | None:
    """Our time over that of all parts together."""
    together = parts(record)
    return ratio(record["seconds"]["ours"], together) if together else None


def in_forwards(record: Record) -> Quartiles | None:
    """Our time in forward passes with given attention, as a share of (L + 1)/2 of
    them.
    """
    found = floor("forward, attention given")(record)
    return found and tuple(q / ((record["sizes"]["L"] + 1) / 2) for q in found)


def of_either(record: Record) -> Quartiles:
    """The share of this machine's rate that binds: of operations or of bytes, whichever
    is larger.
    """
    return max(share(record, "flop"), share(record, "bytes"), key=lambda q: q[1])


def reads(record: Record) -> Quartiles:
    """Our time in reads of the input, at the rate of a copy."""
    return tuple(1 / q for q in reversed(share(record, "bytes")))


def of_square(record: Record) -> Quartiles:
    """Our bytes at the peak as a share of an n x n matrix of 32-bit floats, three
    times.
    """
    return (record["peak bytes"]["ours"] / (4 * record["sizes"]["n"] ** 2),) * 3


def error(record: Record) -> Quartiles:
    """The worst error of our run, three times."""
    return (record["worst error"]["ours"],) * 3


FORWARD, BOTH = (
    "window 129, n = 8192, forward:",
    "window 129, n = 8192, forward and backward:",
)
BLOCKS, UNION = (
    "BigBird, blocks of 64, n = 4096",
    "window 65 + stride 64 + 16 columns, n = 4096",
)
SMALL, LARGE = "all 1.56e+04 paths", "all 2.82e+11 paths"
BATCH = "all 2.82e+11 paths, L = 12, H = 8, n = 128, d = 64, d_v = 64, 256 sequences"
LONG = "window 257, n = 131072, bfloat16, forward:"
FLOATS, SIGNS = "float code, log-sum-exp, n = 32768", "sign code, n = 32768"
MILLION = "sign code, n = 1048576"
GAPS, GPU_GAPS, AVERAGES = (
    "smallest gap of 1e+07 ids",
    "smallest gap of 1e+08 ids",
    "Boltzmann averages, 500000 x 32",
)

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
        2, "Longformer / ours, with gradients", "sparse", BOTH, peer("Longformer"), 2.2
    ),
    Goal(
        2, "SDPA + mask / ours, with gradients", "sparse", BOTH, peer("SDPA + mask"), 35
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
    Goal(4, "ours / sum of the parts", "sparse", UNION, of_parts, 1.05, False),
    Goal(4, "worst error against float64", "sparse", UNION, error, 1e-6, False),
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
        False,
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
        8, "ours / bare product", "verify", FLOATS, floor("bare product"), 1.25, False
    ),
    Goal(8, "row chunks / ours", "verify", FLOATS, peer("row chunks"), 3.5),
    Goal(
        8,
        "peak bytes / those of an n x n matrix",
        "verify",
        FLOATS,
        of_square,
        0.02,
        False,
    ),
    Goal(
        8,
        "int8: ours / bare product in floats",
        "verify",
        SIGNS,
        floor("bare product"),
        0.14,
        False,
    ),
    Goal(8, "int8: worst error against float64", "verify", SIGNS, error, 0, False),
    Goal(
        9, "row chunks / ours", "verify", MILLION, peer("row chunks"), 8, device="cuda"
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
    Goal(9, "worst error against float64", "verify", MILLION, error, 0, False, "cuda"),
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
    Goal(11, "ours / copy", "ids", AVERAGES, floor("copy"), 1.12, False),
    Goal(11, "eager / ours", "ids", AVERAGES, peer("eager"), 2.7),
    Goal(
        11,
        "ours in reads of the input, at the rate of a copy",
        "ids",
        AVERAGES,
        reads,
        1.1,
        False,
        "cuda",
    ),
    Goal(11, "eager / ours", "ids", AVERAGES, peer("eager"), 2.7, device="cuda"),
]


def judge(
    records: Sequence[Record], goals: Sequence[Goal] | None = None
) -> list[Judged]:
    """Every goal beside what was measured; where several cases of a goal were, the one
    nearest to missing it.
    """
    return [_judge(goal, records) for goal in (GOALS if goals is None else goals)]


def _judge(goal: Goal, records: Sequence[Record]) -> Judged:
    alike = [
        r
        for r in records
        if (r["job"], r["device"]) == (goal.job, goal.device)
        and f"{r['case']}:".startswith(goal.case)
    ]
    found = [
        (figure, record["case"])
        for record in alike
        if (figure := goal.figure(record)) is not None
    ]
    if not found:
        return Judged(goal, None, "")
    return Judged(
        goal, *(min if goal.least else max)(found, key=lambda pair: pair[0][1])
    )
