"""Medians, spreads, ratios and goals of a session, as plain tables and as JSON."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from . import metrics
from .goals import Verdict, verdicts
from .measurement import Figure
from .plan import Case


@dataclass(frozen=True)
class Row:
    """All rounds of one case.

    Attributes:
        title: the workload.
        system: the system's label.
        is_ours: whether it is Tidegate's.
        records: records of one run.
        metric: the name of the figure that counts most.
        median, lowest, highest, spread: of that figure over the rounds.
        metrics: the medians of all figures, by name.
        notes: what the last round noted, and what the system does differently.
        values: that figure in each round, in order.
    """

    title: str
    system: str
    is_ours: bool
    records: int
    metric: str
    median: float
    lowest: float
    highest: float
    spread: float
    metrics: dict[str, float]
    notes: dict[str, Any]
    values: list[float]


@dataclass(frozen=True)
class Ratio:
    """How many times better ours is than another: more is always better."""

    title: str
    ours: str
    other: str
    ratio: float


def row(case: Case, records: int, figures: list[Figure]) -> Row:
    """Sums up the rounds of one case."""
    values = [figure.metrics[case.main_metric] for figure in figures]
    names = figures[0].metrics
    return Row(
        case.title,
        case.system,
        case.is_ours,
        records,
        case.main_metric,
        statistics.median(values),
        min(values),
        max(values),
        metrics.spread(values),
        {name: statistics.median(figure.metrics[name] for figure in figures) for name in names},
        figures[-1].notes | ({"note": case.note} if case.note else {}),
        values,
    )


def ratios(rows: Sequence[Row]) -> list[Ratio]:
    """Every one of ours against every other system on the same workload."""
    return [
        Ratio(
            ours.title,
            ours.system,
            other.system,
            metrics.times_better(ours.metric, ours.median, other.median),
        )
        for ours in rows
        for other in rows
        if ours.is_ours and not other.is_ours and ours.title == other.title
    ]


def judged(rows: Sequence[Row]) -> list[Verdict]:
    """The goals about which the session says something."""
    return verdicts({(one.title, one.system): one.metrics for one in rows})


def tables(rows: Sequence[Row]) -> str:
    """The figures, the ratios and the goals as text."""
    head = ("workload", "system", "records", "median", "lowest", "highest", "spread",
            "CPU s/M", "memory MiB", "notes")  # fmt: skip
    parts = [_table(head, [_cells(one) for one in rows])]
    pairs = [(r.title, r.ours, r.other, f"{r.ratio:.2f}") for r in ratios(rows)]
    if pairs:
        parts.append(_table(("workload", "ours", "other", "times better"), pairs))
    goals = [(v.goal.text, f"{v.measured:.2f}", v.goal.wanted, v.word) for v in judged(rows)]
    if goals:
        parts.append(_table(("goal", "measured", "wanted", ""), goals))
    return "\n\n".join(parts)


def findings(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows, ratios and goals, as a session's JSON holds them."""
    return {
        "rows": [asdict(one) for one in rows],
        "ratios": [asdict(one) for one in ratios(rows)],
        "goals": [
            {"text": v.goal.text, "measured": v.measured, "wanted": v.goal.wanted, "met": v.is_met}
            for v in judged(rows)
        ],
    }


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


def _cells(one: Row) -> tuple[str, ...]:
    unit = metrics.UNITS[one.metric]
    more = {
        name: one.metrics[name]
        for name in ("p99_ms", "p999_ms", "sync_ms", "checkpoint_mb")
        if name in one.metrics
    }
    notes = {name: f"{value:.1f}" for name, value in more.items()} | one.notes
    return (
        one.title,
        one.system,
        f"{one.records:,}",
        f"{one.median:,.1f} {unit}",
        f"{one.lowest:,.1f}",
        f"{one.highest:,.1f}",
        f"{one.spread:.0%}",
        f"{one.metrics['cpu_s']:.2f}" if "cpu_s" in one.metrics else "",
        _memory(one.metrics),
        ", ".join(f"{key} {value}" for key, value in notes.items()),
    )  # fmt: skip


def _memory(found: dict[str, float]) -> str:
    if found["ray_memory_mib"]:
        return f"{found['memory_mib']:,.0f} (Ray's own {found['ray_memory_mib']:,.0f})"
    return f"{found['memory_mib']:,.0f}"


def _table(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    rule = tuple("-" * width for width in widths)
    lines = [head, rule, *body]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
