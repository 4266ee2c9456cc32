"""The history of checkpoints as it travels in manifests, so that the next coordinator goes on with it.

A manifest is written once per checkpoint anyway, is fenced and goes with its checkpoint: the history needs
no files of its own. What came after the newest complete checkpoint dies with its coordinator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from ..protocol.abort_reasons import AbortReason
from ..protocol.checkpoint_events import AcknowledgeResult, SubtaskMetrics
from ..protocol.elements import SnapshotKind
from ..protocol.ids import CheckpointId, SubtaskId
from .statistics import CheckpointOutcome, CheckpointStatistics, JobStatistics

_values = attrgetter(*(field.name for field in dataclasses.fields(SubtaskMetrics)))

STORED_CHECKPOINTS = 20
"""The newest ones travel in a manifest; each takes some 150 bytes there."""

STORED_SUBTASKS = 400
"""As long as there are not more of them, subtasks travel too, at some 60 bytes each; those of the newest
checkpoint always do."""


def stored_statistics(statistics: JobStatistics, newest: CheckpointStatistics) -> dict[str, Any]:
    """The history as a JSON document.

    Args:
        statistics: The job's history so far.
        newest: The checkpoint that is about to complete.
    """
    counts = statistics.counts.copy()
    counts[newest.outcome] += 1
    before = list(statistics.checkpoints)[1 - STORED_CHECKPOINTS :]
    return {
        "counts": {outcome.name: count for outcome, count in counts.items()},
        "acknowledgements": {result.name: count for result, count in statistics.acknowledgements.items()},
        "restored_count": statistics.restored_count,
        "checkpoints": _within_bounds([*before, newest]),
    }


def read_statistics(stored: Mapping[str, Any]) -> JobStatistics:
    """The history that `stored_statistics` made a document of."""
    statistics = JobStatistics()
    for entry in stored["checkpoints"]:
        statistics.ended(_from_json(entry))
    statistics.counts.clear()
    statistics.counts.update({CheckpointOutcome[name]: n for name, n in stored["counts"].items()})
    statistics.acknowledgements = {
        **statistics.acknowledgements,
        **{AcknowledgeResult[name]: n for name, n in stored["acknowledgements"].items()},
    }
    statistics.restored_count = stored["restored_count"]
    return statistics


def _within_bounds(checkpoints: Iterable[CheckpointStatistics]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    subtasks = 0
    for checkpoint in reversed(list(checkpoints)):
        subtasks += len(checkpoint.subtasks)
        entries.append(_to_json(checkpoint, not entries or subtasks <= STORED_SUBTASKS))
    return entries[::-1]


def _to_json(checkpoint: CheckpointStatistics, has_subtasks: bool) -> dict[str, Any]:
    subtasks = checkpoint.subtasks.items() if has_subtasks else ()
    return {
        "id": checkpoint.checkpoint_id,
        "outcome": checkpoint.outcome.name,
        "triggered_ms": checkpoint.triggered_ms,
        "duration_ms": round(checkpoint.duration_ms, 3),
        "size_bytes": checkpoint.size_bytes,
        "new_bytes": checkpoint.new_bytes,
        "reason": checkpoint.reason,
        "abort_reason": None if checkpoint.abort_reason is None else checkpoint.abort_reason.name,
        "kind": checkpoint.kind.value,
        "subtask_count": checkpoint.subtask_count,
        "subtasks": [
            [subtask.task_id, subtask.index, *(round(value, 3) for value in _values(metrics))]
            for subtask, metrics in subtasks
        ],
    }


def _from_json(entry: Mapping[str, Any]) -> CheckpointStatistics:
    reason = entry["abort_reason"]
    return CheckpointStatistics(
        CheckpointId(entry["id"]),
        CheckpointOutcome[entry["outcome"]],
        entry["triggered_ms"],
        entry["duration_ms"],
        entry["size_bytes"],
        entry["new_bytes"],
        entry["reason"],
        None if reason is None else AbortReason[reason],
        {
            SubtaskId(task_id, index): SubtaskMetrics(*metrics)
            for task_id, index, *metrics in entry["subtasks"]
        },
        SnapshotKind(entry["kind"]),
        entry["subtask_count"],
    )
