"""What the jobs are held to: each goal names a ratio of a record, a target and the
floor that may stand in the way. Goals for a GPU, which no run has decided, stand on the
page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attnbook.data.timings import Quartiles, Record, parts, peers, ratio, share

Figure = Callable[[Record], Quartiles | None]  # None if its peer was not run


class Goal(NamedTuple):
    """A ratio and what it should be.

    Args:
        number: of the goal.
        words: what is measured.
        job, case: where; case is the beginning of its name.
        figure: from a record to quartiles and median.
        target: a number.
        least: the ratio should be at least the target; else at most.
    """

    number: int
    words: str
    job: str
    case: str
    figure: Figure | None
    target: float
    least: bool = True

    def met(self, value: float) -> bool:
        """Whether a value reaches the target."""
        if self.least:
            return value >= self.target
        return value <= self.target


class Judged(NamedTuple):
    """A goal and what was measured: quartiles and median, None if it was not run."""

    goal: Goal
    figure: Quartiles | None

    @property
    def word(self) -> str:
        """reached, missed, or not run."""
        if self.figure is None:
            return "not run"
        return "reached" if self.goal.met(_median(self.figure)) else "missed"


def _median(figure: Quartiles) -> float:
    return figure[1]


def peer(names: str) -> Figure:
    """The time of a peer over ours; of several whose names begin so the quickest."""

    def figure(record: Record) -> Quartiles | None:
        seconds = record["seconds"]
        found = []
        for name in peers(record):
            if name.startswith(names):
                found.append(ratio(seconds[name], seconds["ours"]))
        return min(found, key=_median, default=None)

    return figure


def floor(name: str) -> Figure:
    """Our time over that of a floor."""

    def figure(record: Record) -> Quartiles | None:
        seconds = record["seconds"]
        below = seconds.get(f"floor {name}")
        return ratio(seconds["ours"], below) if below else None

    return figure


def of_product(record: Record) -> Quartiles:
    """The share of this machine's rate of a matrix product."""
    return share(record, "flop")


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


def of_square(record: Record) -> Quartiles:
    """Our bytes at the peak as a share of an n x n matrix of 32-bit floats, three
    times.
    """
    square = 4 * record["sizes"]["n"] ** 2
    return (record["peak bytes"]["ours"] / square,) * 3


def error(record: Record) -> Quartiles:
    """The worst error of our run, three times."""
    return (record["worst error"]["ours"],) * 3


LEAST = True
MOST = False
TABLE = {  # job, the beginning of the name of a case: its goals
    ("sparse", "window 129, n = 8192, forward:"): [
        (1, "flex, best block size / ours", peer("flex"), 1.05, LEAST),
        (1, "Longformer / ours", peer("Longformer"), 2.2, LEAST),
        (1, "local-attention / ours", peer("local-attention"), 2.2, LEAST),
        (1, "useful FLOPs, share of the rate of a product", of_product, 0.55, LEAST),
    ],
    ("sparse", "window 129, n = 8192, forward and backward:"): [
        (2, "Longformer / ours, with gradients", peer("Longformer"), 2.2, LEAST),
        (2, "SDPA + mask / ours, with gradients", peer("SDPA + mask"), 35, LEAST),
        (
            2,
            "useful FLOPs with gradients, share of the rate of a product",
            of_product,
            0.45,
            LEAST,
        ),
    ],
    ("sparse", "BigBird, blocks of 64, n = 4096"): [
        (3, "SDPA + mask / ours, as a share of 1/density", of_density, 0.92, LEAST),
        (3, "flex / ours", peer("flex"), 1.1, LEAST),
    ],
    ("sparse", "window 65 + stride 64 + 16 columns, n = 4096"): [
        (4, "SDPA + mask / ours", peer("SDPA + mask"), 18, LEAST),
        (4, "ours / sum of the parts", of_parts, 1.05, MOST),
        (4, "worst error against float64", error, 1e-6, MOST),
    ],
    ("paths", "all 1.56e+04 paths"): [
        (6, "one by one / ours", peer("one by one"), 1900, LEAST),
        (6, "prefix tree / ours", peer("prefix tree"), 450, LEAST),
    ],
    ("paths", "all 2.82e+11 paths"): [
        (6, "ours in forward passes / ((L + 1)/2)", in_forwards, 0.9, MOST),
    ],
    ("verify", "float code, log-sum-exp, n = 32768"): [
        (8, "ours / bare product", floor("bare product"), 1.25, MOST),
        (8, "row chunks / ours", peer("row chunks"), 3.5, LEAST),
        (8, "peak bytes / those of an n x n matrix", of_square, 0.02, MOST),
    ],
    ("verify", "sign code, n = 32768"): [
        (8, "integers: ours / bare product", floor("bare product"), 1.3, MOST),
        (8, "integers: worst error against float64", error, 0, MOST),
    ],
    ("ids", "smallest gap of 1e+07 ids"): [
        (10, "torch.sort + difference / ours", peer("torch.sort"), 13, LEAST),
    ],
}
GOALS = []
for (job, case), rows in TABLE.items():
    for number, words, figure, target, least in rows:
        GOALS.append(Goal(number, words, job, case, figure, target, least))


def judge(records: Sequence[Record], goals: Sequence[Goal] = GOALS) -> list[Judged]:
    """Every goal beside what was measured; where several cases of a goal were, the one
    nearest to missing it.
    """
    return [_judge(goal, records) for goal in goals]


def _judge(goal: Goal, records: Sequence[Record]) -> Judged:
    figures = [goal.figure(record) for record in records if _concerns(goal, record)]
    known = [figure for figure in figures if figure is not None]
    nearest = min if goal.least else max
    return Judged(goal, nearest(known, key=_median, default=None))


def _concerns(goal: Goal, record: Record) -> bool:
    """Whether a record is of the goal's job, on a CPU, and of a case that it names."""
    if (record["job"], record["device"]) != (goal.job, "cpu"):
        return False
    # The colon ends the name, so that "forward:" leaves "forward and backward" out.
    return f"{record['case']}:".startswith(goal.case)
