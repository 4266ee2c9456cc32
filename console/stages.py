"""The epochs of a job's stages for people and programs: one entry for each subtask of a stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from ..coordinator.job_details import SubtaskDetails
from ..protocol.epochs import EpochPhase
from ..protocol.listening import is_loopback
from ..protocol.stage_reports import StageReport
from .text import size

NOTHING = "-"


def stage_documents(subtasks: Iterable[SubtaskDetails]) -> list[dict[str, Any]]:
    """The stages in some subtasks."""
    return [_document(subtask, stage) for subtask in subtasks for stage in subtask.metrics.stages]


def _document(subtask: SubtaskDetails, stage: StageReport) -> dict[str, Any]:
    web_ui = stage.web_ui if urlsplit(stage.web_ui).scheme in ("http", "https") else ""
    return {
        "name": stage.operator_name,
        "uid": stage.operator_uid,
        "subtask": subtask.subtask.index,
        "host": subtask.host,
        **{name: asdict(getattr(stage, name)) for name in (phase.name.lower() for phase in EpochPhase)},
        "epochs": [
            {
                "number": each.number,
                "phase": each.phase.name.lower(),
                "records": each.records,
                "size_bytes": each.size_bytes,
            }
            for each in stage.epochs
        ],
        "buffered_bytes": stage.buffered_bytes,
        "buffer_limit_bytes": stage.buffer_limit_bytes,
        "records_in": stage.records_in,
        "records_out": stage.records_out,
        "epochs_run": stage.runs.epochs,
        "last_run_ms": stage.runs.last_ms,
        "run_ms": stage.runs.total_ms,
        "web_ui": web_ui,
        "web_ui_is_on_loopback": is_loopback(urlsplit(web_ui).hostname or ""),
    }


STAGE_HEADINGS = (
    "stage",
    "gathering",
    "waiting",
    "running",
    "emitting",
    "buffered",
    "in",
    "out",
    "runs",
    "last",
    "total",
)


def stage_row(stage: dict[str, Any]) -> list[object]:
    """The cells of a stage below `STAGE_HEADINGS`."""
    has_results = [stage[phase] for phase in ("emitting", "finished") if stage[phase]["epochs"]]
    last_ms = stage["last_run_ms"]
    return [
        f"{stage['name']} ({stage['subtask'] + 1})",
        _gathering(stage["gathering"]),
        _phase(stage["waiting"]),
        _phase(stage["running"]),
        ", ".join(map(_phase, has_results)) or NOTHING,
        f"{size(stage['buffered_bytes'])} of {size(stage['buffer_limit_bytes'])}",
        stage["records_in"],
        stage["records_out"],
        stage["epochs_run"],
        NOTHING if last_ms is None else _seconds(last_ms),
        _seconds(stage["run_ms"]),
    ]


def web_ui_lines(stages: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Where Spark's web UI is, one line for each."""
    found = {(stage["web_ui"], stage["host"], stage["web_ui_is_on_loopback"]) for stage in stages}
    for address, host, is_on_loopback in sorted(found):
        if address:
            note = f" (listens on loopback: open it on {host} or forward its port)" if is_on_loopback else ""
            yield f"Spark's web UI: {address}{note}"


def _gathering(totals: dict[str, int]) -> str:
    return f"{_phase(totals)}, {size(totals['size_bytes'])}" if totals["epochs"] else NOTHING


def _phase(totals: dict[str, int]) -> str:
    """`#4: 12,000`: the number of the epoch and its records; of several epochs, how many there are."""
    if not totals["epochs"]:
        return NOTHING
    several = f"{totals['epochs']} from " if totals["epochs"] > 1 else ""
    return f"{several}#{totals['first']}: {totals['records']:,}"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1_000:.2f} s"
