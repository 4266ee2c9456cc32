"""Has Tidegate become slower beside bare Python? Pure: what was measured goes in, a verdict comes out.

Figures are ratios to a limit that was measured in the same session, so that the machine's speed cancels out.
A ratio below its recorded bound divided by `TOLERANCE` counts only if a second run says so too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

TOLERANCE = 1.5
# Ratios of the named cases, measured anew.
Measure = Callable[[Sequence[str]], Mapping[str, float]]


class Outcome(Enum):
    """What became of a case's ratio."""

    KEPT = "kept"
    NOISE = "fell in the first run only"
    FALLEN = "FALLEN"


@dataclass(frozen=True)
class Finding:
    """One case.

    Attributes:
        name: of the case.
        bound: the recorded ratio.
        ratio: what was measured; the better of two runs where there was a second.
        outcome: what it means.
    """

    name: str
    bound: float
    ratio: float
    outcome: Outcome


def judge(bounds: Mapping[str, float], measure: Measure) -> list[Finding]:
    """Measures every case with a bound, and those that seem to have fallen once more.

    Args:
        bounds: the recorded ratios, by case.
        measure: measures cases; called once, and a second time if there is doubt.
    """
    first = measure(list(bounds))
    doubtful = [name for name, bound in bounds.items() if has_fallen(first[name], bound)]
    second = measure(doubtful) if doubtful else {}
    return [_finding(name, bound, first[name], second.get(name)) for name, bound in bounds.items()]


def has_fallen(ratio: float, bound: float) -> bool:
    """Whether a ratio is too far below what was recorded."""
    return ratio * TOLERANCE < bound


def ratio_of(ours_cpu: Sequence[float], limits_cpu: Sequence[float]) -> float:
    """Ours as a share of the limit: the limit's CPU time for a record over ours, in the middle of rounds.

    Each round has one of both, run one after the other.
    """
    return statistics.median(limit / ours for ours, limit in zip(ours_cpu, limits_cpu, strict=True))


def _finding(name: str, bound: float, first: float, second: float | None) -> Finding:
    if second is None:
        return Finding(name, bound, first, Outcome.KEPT)
    best = max(first, second)
    return Finding(name, bound, best, Outcome.FALLEN if has_fallen(best, bound) else Outcome.NOISE)
