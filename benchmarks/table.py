"""The goals of issue 8 and what kept sessions measured, as the Markdown table of benchmarks/README.md.

    python -m benchmarks.table SESSION.json [SESSION.json ...]

A goal is judged within one session, the last of those named that measured it: ratios between sessions say
nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import goals, metrics

Session = dict[str, Any]
# Of the kept rows, by title and system.
Rows = dict[tuple[str, str], dict[str, Any]]
HEAD = ("goal", "wanted", "ours", "beside", "measured", "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of the sessions that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sessions", nargs="+", type=Path, metavar="SESSION.json")
    print(table([json.loads(path.read_text()) for path in parser.parse_args(arguments).sessions]))


def table(sessions: Sequence[Session]) -> str:
    """Where and when, the goals, and how many were met."""
    places: list[str] = []
    lines = []
    met = missed = 0
    for goal in goals.GOALS:
        session, verdict = last_verdict(goal, sessions)
        if session is None or verdict is None:
            lines.append(f"| {goal.text} | {goal.wanted} | | | not measured | |")
            continue
        if (place := where(session)) not in places:
            places.append(place)
        *figures, measured, word = cells(verdict, rows_of(session))
        lines.append(f"| {' | '.join(figures)} | **{measured}** | {word} |")
        met += verdict.is_met
        missed += not verdict.is_met
    unknown = len(goals.GOALS) - met - missed
    count = f"{met} of {len(goals.GOALS)} goals met, {missed} missed, {unknown} not measured."
    head = f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}"
    return "\n".join([*places, "", head, *lines, "", count])


def last_verdict(
    goal: goals.Goal, sessions: Sequence[Session]
) -> tuple[Session | None, goals.Verdict | None]:
    """The last session that measured a goal, and what it says."""
    for session in reversed(sessions):
        found = {key: row["metrics"] for key, row in rows_of(session).items()}
        verdict = goal.measure(found)
        if verdict is not None:
            return session, verdict
    return None, None


def rows_of(session: Session) -> Rows:
    """A session's rows, by title and system."""
    return {(row["title"], row["system"]): row for row in session["rows"]}


def cells(verdict: goals.Verdict, rows: Rows) -> tuple[str, ...]:
    """A goal that was measured: both medians, with lowest and highest where rounds differ."""
    goal = verdict.goal
    ours = _figure(rows[goal.title, goal.ours], goal.metric)
    beside = ""
    if verdict.best:
        theirs = rows[goal.other_title or goal.title, verdict.best]
        named = "" if verdict.best in goal.text else f" {verdict.best}"
        beside = _figure(theirs, goal.metric) + named
    measured = f"{verdict.measured:.2f}" if verdict.best else ours.partition(" (")[0]
    return goal.text, goal.wanted, ours, beside, measured, verdict.word


def where(session: Session) -> str:
    """When and on what a session ran, and whether its figures count."""
    machine = session["machine"]
    text = (
        f"{session['date'][:16].replace('T', ' ')} UTC, suite {session['suite']}, "
        f"medians of {session['rounds']} rounds (lowest to highest), {machine['cpu']}, "
        f"{machine['cores']} cores, load {machine['load_1min']:.1f} before it."
    )
    if session.get("share", 1.0) != 1.0:
        text += f" Only {session['share']:g} of the records: no figures to quote."
    if session.get("pending"):
        text += f" Interrupted: {session['pending']} runs are missing."
    if session["failures"]:
        text += f" {len(session['failures'])} runs failed."
    return text


def _figure(row: dict[str, Any], metric: str) -> str:
    middle = _number(row["metrics"][metric])
    if metric == row["metric"] and row["lowest"] != row["highest"]:
        middle += f" ({_number(row['lowest'])} to {_number(row['highest'])})"
    # The unit follows the median, so that the range reads as one.
    number, _, rest = middle.partition(" ")
    return " ".join(word for word in (number, metrics.UNITS[metric], rest) if word)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
