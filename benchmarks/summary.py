"""Medians, spreads and ratios of a session, as a plain table and as JSON."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from .measurement import Figure
from .plan import GOALS, Case

UNITS = {"W5": "s"}


@dataclass(frozen=True)
class Row:
    """All rounds of one case.

    Attributes:
        title: the workload.
        system: the system's label.
        unit: `k/s` (thousand records a second) or `s`.
        records: records of one run.
        median, lowest, highest: of the rounds.
        peak_mib, daemons_mib: medians of the peak memory and Ray's own part in it.
        notes: what the last round noted.
        values: the rounds, in order.
    """

    title: str
    system: str
    unit: str
    records: int
    median: float
    lowest: float
    highest: float
    peak_mib: float
    daemons_mib: float
    notes: dict[str, Any]
    values: list[float]


@dataclass(frozen=True)
class Ratio:
    """Ours over a peer's; for W5 the peer's time over ours, so that more is always better."""

    title: str
    ours: str
    other: str
    ratio: float
    goal: float | None


def row(case: Case, records: int, figures: list[Figure]) -> Row:
    """Sums up the rounds of one case."""
    values = [figure.value for figure in figures]
    return Row(
        case.title,
        case.system,
        UNITS.get(case.workload, "k/s"),
        records,
        statistics.median(values),
        min(values),
        max(values),
        statistics.median(figure.peak_mib for figure in figures),
        statistics.median(figure.daemons_mib for figure in figures),
        figures[-1].notes,
        values,
    )


def ratios(rows: list[Row]) -> list[Ratio]:
    """Every one of ours over every other system on the same workload."""
    goals = {(goal.title, goal.ours, goal.peer): goal.factor for goal in GOALS}
    found = []
    for ours in rows:
        for other in rows:
            is_pair = ours.system.startswith("tidegate") and not other.system.startswith("tidegate")
            if not is_pair or ours.title != other.title:
                continue
            quotient = ours.median / other.median
            better = 1 / quotient if ours.unit == "s" else quotient
            goal = goals.get((ours.title, ours.system, other.system))
            found.append(Ratio(ours.title, ours.system, other.system, better, goal))
    return found


def tables(rows: list[Row]) -> str:
    """The figures and the ratios as text."""
    head = ("workload", "system", "records", "median", "lowest", "highest", "peak MiB", "notes")
    body = [
        (
            one.title,
            one.system,
            f"{one.records:,}",
            f"{one.median:,.1f} {one.unit}",
            f"{one.lowest:,.1f}",
            f"{one.highest:,.1f}",
            _memory(one),
            ", ".join(f"{key} {value}" for key, value in one.notes.items()),
        )
        for one in rows
    ]
    text = _table(head, body)
    pairs = ratios(rows)
    if pairs:
        lines = [(r.title, r.ours, r.other, f"{r.ratio:.2f}", _verdict(r)) for r in pairs]
        text += "\n\n" + _table(("workload", "ours", "other", "ratio", "goal"), lines)
    return text


def write_json(folder: Path, suite: str, rows: list[Row], failures: list[str]) -> Path:
    """Writes a session to `<folder>/<UTC time>.json` and returns the path."""
    now = datetime.now(timezone.utc)
    session = {
        "date": now.isoformat(timespec="seconds"),
        "suite": suite,
        "machine": machine(),
        "rows": [asdict(one) for one in rows],
        "ratios": [asdict(one) for one in ratios(rows)],
        "failures": failures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H-%M-%S}.json"
    path.write_text(json.dumps(session, indent=1))
    return path


def machine() -> dict[str, Any]:
    """What the session ran on, and how busy it was just before."""
    models = [line for line in _cpu_lines() if line.startswith("model name")]
    return {
        "cpu": models[0].partition(":")[2].strip() if models else platform.processor(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": psutil.getloadavg()[0],
    }


def _cpu_lines() -> list[str]:
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []


def _memory(one: Row) -> str:
    if one.daemons_mib:
        return f"{one.peak_mib:,.0f} (Ray's own {one.daemons_mib:,.0f})"
    return f"{one.peak_mib:,.0f}"


def _verdict(ratio: Ratio) -> str:
    if ratio.goal is None:
        return ""
    return f"{'met' if ratio.ratio >= ratio.goal else 'MISSED'} (at least {ratio.goal:g})"


def _table(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    rule = tuple("-" * width for width in widths)
    lines = [head, rule, *body]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
