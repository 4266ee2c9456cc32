"""The sessions kept in `benchmarks/results` as one HTML page with pictures; nothing is loaded from elsewhere.

    python -m benchmarks.report [FOLDER]

The page shows the newest session of each suite, with its goals, and how ours went from session to session.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import goals, metrics, pictures, table

Session = dict[str, Any]
MISSED_REASON = "A missed line stays until it is met; docs/performance.md says why it is missed."
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
td:first-child { white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.ours { background: #eef5fb; }
.met { color: #17692f; } .missed { color: #a3161b; font-weight: 600; }
figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; }
"""


def sessions(folder: Path) -> list[Session]:
    """All kept sessions of `benchmarks.run`, oldest first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    # Other programs keep theirs in the same folder, and older sessions have no metrics.
    mine = [one for one in found if "suite" in one and all("metrics" in row for row in one["rows"])]
    return sorted((one for one in mine if one["rows"]), key=lambda one: str(one["date"]))


def newest(found: Iterable[Session]) -> list[Session]:
    """The last session of each suite, in the order of their dates."""
    last = {one["suite"]: one for one in found}
    return sorted(last.values(), key=lambda one: str(one["date"]), reverse=True)


def page(found: Sequence[Session]) -> str:
    """The whole page."""
    parts = [_session(one) for one in newest(found)]
    history = pictures.history(found)
    if history:
        parts.append(f"<h2>From session to session</h2><figure>{history}</figure>")
    body = "\n".join(parts) or "<p>No session has been kept yet: run <code>make bench</code>.</p>"
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Tidegate: benchmarks</title>"
        f"<style>{STYLE}</style><h1>Tidegate: benchmarks</h1>{body}</html>\n"
    )


def write(folder: Path) -> Path:
    """Writes `report.html` into the folder of the sessions and returns its path."""
    path = folder / "report.html"
    path.write_text(page(sessions(folder)))
    return path


def _session(one: Session) -> str:
    parts = [f"<h2>Suite {html.escape(one['suite'])}</h2><p>{html.escape(table.where(one))}</p>"]
    judged = goals_table(one)
    if judged:
        parts.append(f"<h3>Goals</h3>{judged}<p>{MISSED_REASON}</p>")
    for title in dict.fromkeys(row["title"] for row in one["rows"]):
        rows = [row for row in one["rows"] if row["title"] == title]
        parts.append(f"<h3>{html.escape(title)}</h3><figure>{pictures.bars(rows)}</figure>{rows_table(rows)}")
        parts.append(ratios_table([ratio for ratio in one["ratios"] if ratio["title"] == title]))
    for name, drawn in pictures.curves(one["rows"]).items():
        parts.append(f"<h3>{html.escape(name)}</h3><figure>{drawn}</figure>")
    for failure in one["failures"]:
        parts.append(f"<p class='missed'>FAILED {html.escape(failure.splitlines()[0])}</p>")
    return "\n".join(parts)


def goals_table(one: Session) -> str:
    """The goals about which a session says something, met or missed."""
    rows = table.rows_of(one)
    judged = goals.verdicts({key: row["metrics"] for key, row in rows.items()})
    lines = [table.cells(verdict, rows) for verdict in judged]
    return _table(table.HEAD, lines, numbers={4}, last_is_verdict=True) if lines else ""


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures of one workload."""
    names = [name for name in metrics.UNITS if any(name in row["metrics"] for row in rows)]
    main = rows[0]["metric"]
    others = [name for name in names if name != main and name != "ray_memory_mib"]
    labels = [metrics.label(name) for name in others]
    head = ("system", "records", metrics.label(main), "lowest", "highest", "spread", *labels, "notes")
    lines = []
    for row in rows:
        notes = ", ".join(f"{key} {value}" for key, value in row["notes"].items())
        figures = [f"{row['metrics'][name]:,.2f}" if name in row["metrics"] else "" for name in others]
        middle = [f"{row[name]:,.1f}" for name in ("median", "lowest", "highest")]
        lines.append((row["system"], f"{row['records']:,}", *middle, f"{row['spread']:.0%}", *figures, notes))
    ours = {number for number, row in enumerate(rows) if row["is_ours"]}
    return _table(head, lines, numbers=set(range(1, len(head) - 1)), ours=ours)


def ratios_table(ratios: Sequence[dict[str, Any]]) -> str:
    """How many times better each of ours is than each of the others; empty where there are no others."""
    if not ratios:
        return ""
    found = {(ratio["other"], ratio["ours"]): ratio["ratio"] for ratio in ratios}
    ours = list(dict.fromkeys(ratio["ours"] for ratio in ratios))
    others = list(dict.fromkeys(ratio["other"] for ratio in ratios))
    lines = [(other, *(f"{found[other, name]:.2f}" for name in ours)) for other in others]
    return _table(("times better than", *ours), lines, numbers=set(range(1, len(ours) + 1)))


def _table(
    head: Sequence[str],
    lines: Sequence[Sequence[str]],
    numbers: set[int],
    ours: Iterable[int] = (),
    last_is_verdict: bool = False,
) -> str:
    marked = set(ours)
    parts = ["<table><tr>", *(f"<th>{html.escape(word)}</th>" for word in head), "</tr>"]
    for number, line in enumerate(lines):
        parts.append("<tr class='ours'>" if number in marked else "<tr>")
        for place, word in enumerate(line):
            kind = "number" if place in numbers else ""
            if last_is_verdict and place == len(line) - 1:
                kind = word.lower()
            parts.append(f"<td class='{kind}'>{html.escape(word)}</td>")
        parts.append("</tr>")
    return "".join([*parts, "</table>"])


def main() -> None:
    """Writes the page and says where."""
    here = Path(__file__).resolve().parent / "results"
    print(write(Path(sys.argv[1]) if len(sys.argv) > 1 else here))


if __name__ == "__main__":
    main()
