"""The epochs of a job's stages for people and programs: one entry for each subtask of a stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from ..coordinator.monitoring.job_details import SubtaskDetails
from ..coordinator.monitoring.stage_metrics import reports_by_stage
from ..protocol.channels.listening import is_loopback
from ..protocol.stages.epochs import EpochPhase
from ..protocol.stages.stage_reports import StageReport, whole_stage
from .text import size

NOTHING = "-"


def stage_documents(subtasks: Iterable[SubtaskDetails]) -> list[dict[str, Any]]:
    """The stages in some subtasks: an entry for each subtask."""
    return [_of_subtask(subtask, stage) for subtask in subtasks for stage in subtask.metrics.stages]


def whole_stage_documents(subtasks: Iterable[SubtaskDetails]) -> list[dict[str, Any]]:
    """The same: an entry for each stage, in which each epoch counts once."""
    reports = reports_by_stage(stage for subtask in subtasks for stage in subtask.metrics.stages)
    return [{**_document(whole_stage(found)), "subtasks": len(found)} for found in reports.values()]


def _of_subtask(subtask: SubtaskDetails, stage: StageReport) -> dict[str, Any]:
    web_ui = stage.web_ui if urlsplit(stage.web_ui).scheme in ("http", "https") else ""
    return {
        **_document(stage),
        "subtask": subtask.subtask.index,
        "host": subtask.host,
        "web_ui": web_ui,
        "web_ui_is_on_loopback": is_loopback(urlsplit(web_ui).hostname or ""),
    }


def _document(stage: StageReport) -> dict[str, Any]:
    runs = stage.runs
    return {
        "name": stage.operator_name,
        "uid": stage.operator_uid,
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
        "epochs_run": None if runs is None else runs.epochs,
        "last_run_ms": None if runs is None else runs.last_ms,
        "run_ms": None if runs is None else runs.total_ms,
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


def stage_rows(
    whole_stages: Iterable[dict[str, Any]], stages: Iterable[dict[str, Any]]
) -> Iterator[list[object]]:
    """The cells below `STAGE_HEADINGS`: each stage with several subtasks, then its subtasks.

    Args:
        whole_stages: See `whole_stage_documents`.
        stages: See `stage_documents`.
    """
    of_subtasks = list(stages)
    for whole in whole_stages:
        if whole["subtasks"] > 1:
            yield _row(whole["name"], whole)
        for each in of_subtasks:
            if each["uid"] == whole["uid"]:
                yield _row(f"{each['name']} ({each['subtask'] + 1})", each)


def _row(title: str, stage: dict[str, Any]) -> list[object]:
    has_results = [stage[phase] for phase in ("emitting", "finished") if stage[phase]["epochs"]]
    runs = stage["epochs_run"]
    return [
        title,
        _gathering(stage["gathering"]),
        _phase(stage["waiting"]),
        _phase(stage["running"]),
        ", ".join(map(_phase, has_results)) or NOTHING,
        f"{size(stage['buffered_bytes'])} of {size(stage['buffer_limit_bytes'])}",
        stage["records_in"],
        stage["records_out"],
        NOTHING if runs is None else runs,
        _seconds(stage["last_run_ms"]),
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


def _seconds(milliseconds: int | None) -> str:
    return NOTHING if milliseconds is None else f"{milliseconds / 1_000:.2f} s"
