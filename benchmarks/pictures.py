"""Pictures of sessions, as SVG to be put into a page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from . import metrics

OURS, THEIRS, FAINT = "#2f7ab8", "#b9b9b9", "#666666"
WIDTH_IN = 8.5
Rows = Sequence[dict[str, Any]]


def bars(rows: Rows) -> str:
    """One bar for each system, with its lowest and highest round."""
    figure = _figure(0.9 + 0.3 * len(rows))
    axes = figure.subplots()
    middle = [row["median"] for row in rows]
    below = [row["median"] - row["lowest"] for row in rows]
    above = [row["highest"] - row["median"] for row in rows]
    colours = [OURS if row["is_ours"] else THEIRS for row in rows]
    axes.barh([row["system"] for row in rows], middle, color=colours, xerr=[below, above], ecolor=FAINT)
    axes.invert_yaxis()
    if max(middle) > 20 * min(middle):
        axes.set_xscale("log")
    for place, row in enumerate(rows):
        axes.annotate(f"  {row['median']:,.1f}", (row["highest"], place), va="center", fontsize=8)
    axes.margins(x=0.15)
    metric = rows[0]["metric"]
    better = "more" if metrics.is_more_better(metric) else "less"
    axes.set_xlabel(f"{metrics.WORDS[metric]}, {metrics.UNITS[metric]}: {better} is better")
    return _svg(figure)


def shares(parts: dict[str, float], label: str) -> str:
    """A bar for each part of a whole, in nanoseconds."""
    figure = _figure(0.9 + 0.32 * len(parts))
    axes = figure.subplots()
    drawn = axes.barh(list(parts), list(parts.values()), color=OURS)
    axes.bar_label(drawn, fmt="{:,.0f} ns", padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    return _svg(figure)


def curves(rows: Rows) -> dict[str, str]:
    """How cost grows: CPU time per record, or a checkpoint's time, over the number in the systems' names."""
    drawn = {}
    for title, metric, size in (
        ("W8", "cpu_s", "parallelism"),
        ("W9 keys", "cpu_s", "keys"),
        ("W9 subtasks", "cpu_s", "subtasks"),
        ("W9 checkpoints", "checkpoint_ms", "changed between two checkpoints, %"),
    ):
        lines = series(rows, title, metric)
        if lines:
            drawn[f"{title}: how {metrics.WORDS[metric]} grows"] = _lines(lines, metrics.label(metric), size)
    return drawn


def series(rows: Rows, title: str, metric: str) -> dict[str, list[tuple[float, float]]]:
    """Points (size, figure) by line.

    A line is what a row's title and its system say beside the number; `W8`'s systems end in `p=4`, the
    others' begin with the number.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        number = re.search(r"p=(\d+)|^([\d,]+)", row["system"])
        if not row["title"].startswith(title) or metric not in row["metrics"] or number is None:
            continue
        size = float((number[1] or number[2]).replace(",", ""))
        name = f"{row['title'].removeprefix(title)} {row['system'].replace(number[0], '')}".strip()
        found.setdefault(name, []).append((size, row["metrics"][metric]))
    return {name: sorted(points) for name, points in found.items() if len(points) > 1}


def history(sessions: Sequence[dict[str, Any]]) -> str:
    """The ratio to the bare loop in every session that measured it; empty where fewer than two did."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for number, one in enumerate(sessions):
        for ratio in one["ratios"]:
            if ratio["other"] == "bare loop":
                name = f"{ratio['title']} {ratio['ours']}"
                lines.setdefault(name, []).append((number + 1, ratio["ratio"]))
    lines = {name: points for name, points in lines.items() if len(points) > 1}
    return _lines(lines, "times the bare loop", "session", "linear") if lines else ""


def _lines(lines: dict[str, list[tuple[float, float]]], label: str, across: str, scale: str = "log") -> str:
    figure = _figure(3.4)
    axes = figure.subplots()
    for name, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    axes.set_xscale(scale)
    sizes = sorted({x for points in lines.values() for x, _ in points})
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel(across)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return _svg(figure)


def _figure(height_in: float) -> Figure:
    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def _svg(figure: Figure) -> str:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    # Text stays text, and the same figures give the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tidegate"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
