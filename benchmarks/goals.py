"""What the figures should be: the goals of a session as data, and whether they are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import metrics
from .cases import COLUMNS, LARGE, LOCAL, RAY, RAY_2, RAY_LMDB, SMALL
from .nexmark import cases as nexmark

# The metrics of a session's rows, by (title, system).
Found = Mapping[tuple[str, str], Mapping[str, float]]


@dataclass(frozen=True)
class Goal:
    """A figure of ours, or its ratio to the best of others, and the bound it has to keep.

    Attributes:
        title: the workload.
        ours: the system.
        metric: which of its figures.
        least: the bound where more is better.
        most: the bound where less is better.
        others: systems that ours is divided by, the best of them; none for the figure itself.
        other_title: their workload, where it is another one.
        others_name: what they are called together.
    """

    title: str
    ours: str
    metric: str = "rate"
    least: float | None = None
    most: float | None = None
    others: tuple[str, ...] = ()
    other_title: str = ""
    others_name: str = ""

    @property
    def text(self) -> str:
        """What is measured, in words."""
        words = [self.title, self.ours, "" if self.metric == "rate" else metrics.WORDS[self.metric]]
        if self.others:
            words += ["÷", self.other_title, self.others_name or " or ".join(self.others)]
        return " ".join(word for word in words if word)

    @property
    def wanted(self) -> str:
        """The bound, in words."""
        unit = "times" if self.others else metrics.UNITS[self.metric]
        sign, bound = ("≤", self.most) if self.least is None else ("≥", self.least)
        return f"{sign} {bound:g} {unit}"

    def measure(self, found: Found) -> Verdict | None:
        """What a session says about it; None where it lacks ours or all of the others."""
        ours = found.get((self.title, self.ours), {}).get(self.metric)
        if ours is None:
            return None
        if not self.others:
            return Verdict(self, ours)
        title = self.other_title or self.title
        theirs = {name: found[title, name][self.metric] for name in self.others if (title, name) in found}
        if not theirs:
            return None
        best = (max if metrics.is_more_better(self.metric) else min)(theirs, key=lambda name: theirs[name])
        return Verdict(self, ours / theirs[best], best)


@dataclass(frozen=True)
class Verdict:
    """A goal, what was measured, and whether that is enough.

    Attributes:
        measured: the ratio, or our figure where there are no others.
        best: the best of the others.
    """

    goal: Goal
    measured: float
    best: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the bound was kept."""
        if self.goal.least is not None:
            return self.measured >= self.goal.least
        assert self.goal.most is not None
        return self.measured <= self.goal.most

    @property
    def word(self) -> str:
        """`met` or `MISSED`."""
        return "met" if self.is_met else "MISSED"


def verdicts(found: Found) -> list[Verdict]:
    """All goals about which something was measured."""
    measured = (goal.measure(found) for goal in GOALS)
    return [verdict for verdict in measured if verdict is not None]


_PEERS = (
    "bytewax", "bytewax p=2", "pyflink", "pyflink p=2", "pyflink hashmap", "pyflink rocksdb", "pathway",
    "spark built-in", "spark rocksdb",
)  # fmt: skip
_PYFLINK = ("pyflink", "pyflink p=2", "pyflink process")
_PYTHON_PATHS = (
    "bytewax", "bytewax p=2", "pyflink", "pyflink p=2", "pyflink process", "spark pandas state",
    "spark transformWithState",
)  # fmt: skip
RUNNING = "tidegate running ray"
BEST_PEER, BEST_PYFLINK, BEST_PYTHON = "best peer", "best PyFlink", "best Python of the peers"

GOALS = (
    Goal("W1", RAY, least=1.1, others=("bytewax",)),
    Goal("W1", RAY_2, least=1.1, others=("bytewax p=2",)),
    Goal("W1", RAY, least=25, others=_PYFLINK, others_name=BEST_PYFLINK),
    Goal(SMALL, RAY, least=3, others=("bytewax",)),
    Goal(SMALL, RAY_2, least=3, others=("bytewax p=2",)),
    Goal(SMALL, RAY, least=30, others=_PYFLINK, others_name=BEST_PYFLINK),
    Goal(SMALL, RAY, least=2, others=("spark built-in",)),
    Goal(SMALL, LOCAL, least=0.6, others=("bare loop",)),
    Goal(SMALL, COLUMNS, least=20, others=_PYTHON_PATHS, others_name=BEST_PYTHON),
    Goal(SMALL, COLUMNS, least=0.3, others=("bare numpy",)),
    Goal(LARGE, RAY, least=6, others=_PEERS, others_name=BEST_PEER),
    Goal(LARGE, RAY_LMDB, least=4, others=_PEERS, others_name=BEST_PEER),
    Goal(LARGE, RAY, least=18, others=("pyflink", "pyflink rocksdb"), others_name=BEST_PYFLINK),
    Goal(LARGE, RAY_LMDB, "own_memory_mib", most=1, others=("bytewax",)),
    Goal("W3", RAY_LMDB, least=4, others=("pathway",)),
    Goal("W3", RAY_LMDB, least=25, others=("bytewax",)),
    Goal("W3", RAY_LMDB, least=12, others=("pyflink hashmap", "pyflink rocksdb"), others_name=BEST_PYFLINK),
    Goal("W3", RAY, least=0.85, others=(RAY,), other_title=LARGE),
    Goal("W3", RAY_LMDB, least=0.85, others=(RAY_LMDB,), other_title=LARGE),
    Goal("W4", RAY, least=4, others=("bytewax",)),
    Goal("W4", COLUMNS, least=5, others=("spark built-in",)),
    Goal("W4", COLUMNS, least=20, others=_PYTHON_PATHS, others_name=BEST_PYTHON),
    Goal("W4", COLUMNS, least=0.3, others=("bare numpy",)),
    Goal("W5", "tidegate running ray lmdb", "seconds", most=2.5),
    Goal("W7 1k/s", RAY, "p99_ms", most=5),
    Goal("W7 50k/s", RAY, "p50_ms", most=1),
    Goal("W7 50k/s", RAY, "p99_ms", most=5),
    Goal("W7 50k/s", RAY, "p999_ms", most=12),
    Goal("W7 200k/s", RAY, "p99_ms", most=10),
    *(
        Goal("W8", f"tidegate ray p={p}", "cpu_s", most=most, others=("tidegate ray p=1",))
        for p, most in ((2, 1.15), (4, 1.25), (8, 1.4), (32, 1.8))
    ),
    Goal("W8", "tidegate ray p=8", least=25, others=("pyflink p=8",)),
    Goal("W8", "tidegate ray p=8", least=4, others=("bytewax p=8",)),
    Goal("start", LOCAL, "seconds", most=1),
    Goal("start", RUNNING, "seconds", most=2.5),
    # The best program of a query is the one on columns where there is one.
    *(
        Goal(
            f"Nexmark {query}",
            nexmark.RECORDS,
            least=8 if query in nexmark.ON_COLUMNS else 10,
            others=("pyflink",),
        )
        for query in nexmark.QUERIES
    ),
    *(
        Goal(f"Nexmark {query}", nexmark.COLUMNS, least=10, others=("pyflink",))
        for query in nexmark.ON_COLUMNS
    ),
)
