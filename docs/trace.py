"""Writes what `docs/telemetry.md` shows of a real run: the explanation of a checkpoint, and its picture.

Run it with `python docs/trace.py` (extra `plan`, for matplotlib). It runs `examples/guide/trace.py`; the
figures are those of the machine and of the moment, so no test compares them.
"""

from __future__ import annotations

import json
import runpy
import tempfile
from pathlib import Path
from typing import Any

from tidegate.coordinator.monitoring.critical_path import critical_path, explain_lines
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics
from tidegate.protocol.ids import SubtaskId

DOCS = Path(__file__).parent
PICTURE = DOCS / "guide" / "pictures" / "trace.png"
PAGE = DOCS / "telemetry.md"

INK, PATH = "#333333", "#c8401e"
COLORS = {
    "start_delay": ("#c9d6e4", "the barrier is on its way, or waits for its turn"),
    "alignment": ("#7fa7cf", "waits for the barriers of other channels"),
    "sync": ("#3b5f8a", "snapshot, synchronous"),
    "async": ("#8cc19a", "snapshot, stored in the background"),
    "acknowledge": ("#e3c878", "acknowledgement"),
    "commit": ("#a784b8", "manifest"),
    "notify": ("#d9a7c7", "commits what the checkpoint covers"),
}
Axes = Any


def spans_of(checkpoint: CheckpointStatistics, file: Path) -> list[tuple[str, str, float, float]]:
    """Row, part, start and length in milliseconds of each span of a checkpoint in a trace file."""
    for trace in json.loads(file.read_text("utf-8"))["data"]:
        spans = [(span, {tag["key"]: tag["value"] for tag in span["tags"]}) for span in trace["spans"]]
        (root, about) = next((span, tags) for span, tags in spans if not span["references"])
        if about.get("checkpoint.id") == checkpoint.checkpoint_id:
            return [
                (
                    _row(checkpoint, tags),
                    span["operationName"].partition(".")[2],
                    (span["startTime"] - root["startTime"]) / 1_000,
                    span["duration"] / 1_000,
                )
                for span, tags in spans
                if span is not root
            ]
    raise LookupError(f"{file} has no checkpoint {checkpoint.checkpoint_id}")


def _row(checkpoint: CheckpointStatistics, tags: dict[str, Any]) -> str:
    if "subtask.index" not in tags:
        return "coordinator"
    name, index = tags["operator.name"], tags["subtask.index"]
    (parallelism,) = [task.parallelism for task in checkpoint.shape.values() if task.name == name]
    return f"{name} ({index + 1}/{parallelism})"


def draw(axes: Axes, checkpoint: CheckpointStatistics, file: Path) -> None:
    """One row per subtask, its parts one after the other, and the critical path through the rows."""
    spans = spans_of(checkpoint, file)
    subtasks = [
        checkpoint.subtask_name(SubtaskId(task_id, index))
        for task_id, task in checkpoint.shape.items()
        for index in range(task.parallelism)
    ]
    rows = {row: number for number, row in enumerate([*subtasks, "coordinator"])}
    for row, part, start, length in spans:
        if part in COLORS:
            axes.barh(rows[row], length, left=start, height=0.62, color=COLORS[part][0], lw=0)
    path = critical_path(checkpoint)
    points = []
    for step in path.steps:
        y = rows[step.subtask_name]
        points += [(step.start_ms, y), (step.start_ms + step.duration_ms, y)]
    axes.plot(*zip(*points), color=PATH, lw=2.4, solid_joinstyle="round", label="critical path")
    for part, (color, words) in COLORS.items():
        axes.barh(0, 0, color=color, label=f"{part}: {words}")
    axes.set_yticks(list(rows.values()), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds since the trigger", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.01)
    axes.text(0, 1.03, path.cause, transform=axes.transAxes, color=PATH)
    title = f'Checkpoint {checkpoint.checkpoint_id} of the job "orders"'
    axes.set_title(title, loc="left", color=INK, pad=24)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2, frameon=False, fontsize=8)


def main() -> None:
    """Run the example, and put what it says into the page and the picture."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"font.size": 9})
    import matplotlib.pyplot as plt

    program = runpy.run_path(str(DOCS.parent / "examples" / "guide" / "trace.py"))
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = program["run"](Path(directory))
        figure, axes = plt.subplots(figsize=(10, 4.6))
        draw(axes, checkpoint, Path(directory) / "traces.json")
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight")
    lines = "\n".join(explain_lines(checkpoint))
    page = PAGE.read_text("utf-8")
    begin, end = "<!-- explain: begin -->", "<!-- explain: end -->"
    before, _, rest = page.partition(begin)
    PAGE.write_text(f"{before}{begin}\n```text\n{lines}\n```\n{end}{rest.partition(end)[2]}", "utf-8")


if __name__ == "__main__":
    main()
