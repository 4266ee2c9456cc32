"""The history of checkpoints as it travels in manifests, so that the next coordinator goes on with it.

A manifest is written once per checkpoint anyway, is fenced and goes with its checkpoint: the history needs
no files of its own. What came after the newest complete checkpoint dies with its coordinator.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from ...common.errors import CorruptCheckpointError
from ...common.secrets import masked_text
from ...protocol.checkpoints.abort_reasons import AbortReason
from ...protocol.checkpoints.checkpoint_events import AcknowledgeResult, SubtaskMetrics
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId, SubtaskId
from ...protocol.key_groups import UPPER_BOUND_MAX_PARALLELISM, check_parallelism
from .json_dataclasses import from_plain, to_plain
from .statistics import (
    CheckpointOutcome,
    CheckpointStatistics,
    JobShape,
    JobStatistics,
    RecoveryStatistics,
    TaskShape,
)

_values = attrgetter(
    *(field.name for field in dataclasses.fields(SubtaskMetrics) if field.name != "upstream")
)
_VALUE_COUNT = len(dataclasses.fields(SubtaskMetrics)) - 1

_TASK_ID = re.compile("task-[0-9]{1,9}")

STORED_CHECKPOINTS = 20
"""The newest ones travel in a manifest; each takes some 180 bytes there."""

STORED_RECOVERIES = 20
"""The newest ones travel too, each with the start of its cause."""

STORED_CAUSE_CHARS = 300

STORED_SUBTASKS = 400
"""As long as there are not more of them, subtasks travel too, at some 120 bytes each; those of the newest
checkpoint always do."""


def stored_statistics(statistics: JobStatistics, newest: CheckpointStatistics) -> dict[str, Any]:
    """The history as a JSON document.

    Args:
        statistics: The job's history so far.
        newest: The checkpoint that is about to complete.
    """
    counts = statistics.counts.copy()
    counts[newest.outcome] += 1
    kept = [*list(statistics.checkpoints)[1 - STORED_CHECKPOINTS :], newest]
    shapes: list[JobShape] = []
    for checkpoint in kept:
        if checkpoint.shape not in shapes:
            shapes.append(checkpoint.shape)
    return {
        "counts": {outcome.name: count for outcome, count in counts.items()},
        "acknowledgements": {result.name: count for result, count in statistics.acknowledgements.items()},
        "restored_count": statistics.restored_count,
        "shapes": [
            {task_id: [task.name, task.parallelism] for task_id, task in shape.items()} for shape in shapes
        ],
        "checkpoints": _within_bounds(kept, shapes),
        "restarts": statistics.restarts,
        "last_result_ms": statistics.last_result_ms,
        "recoveries": [_recovery_to_json(one) for one in list(statistics.recoveries)[-STORED_RECOVERIES:]],
    }


def _recovery_to_json(recovery: RecoveryStatistics) -> dict[str, Any]:
    cause = masked_text(recovery.cause)[:STORED_CAUSE_CHARS]
    return {**dataclasses.asdict(recovery), "cause": cause}


def read_statistics(stored: Mapping[str, Any]) -> JobStatistics:
    """The history that `stored_statistics` made a document of.

    Raises:
        CorruptCheckpointError: It is not such a document.
    """
    try:
        statistics = _read(stored)
        # Compares every field with its type.
        from_plain(JobStatistics, to_plain(statistics))
        _check_shapes(shape for checkpoint in statistics.checkpoints for shape in (checkpoint.shape,))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise CorruptCheckpointError(
            f"the manifest's history of checkpoints is damaged, or no release wrote it "
            f"({type(error).__name__}: {str(error)[:200]!a}). Restore another checkpoint"
        ) from error
    return statistics


def _check_shapes(shapes: Iterable[JobShape]) -> None:
    for shape in shapes:
        for task_id, task in shape.items():
            check_parallelism(task_id, task.parallelism, UPPER_BOUND_MAX_PARALLELISM)
            if not _TASK_ID.fullmatch(task_id):
                raise ValueError(f"{task_id[:80]!a} is not the id of a task")


def _read(stored: Mapping[str, Any]) -> JobStatistics:
    statistics = JobStatistics()
    shapes = [
        {task_id: TaskShape(*task) for task_id, task in shape.items()} for shape in stored.get("shapes", ())
    ]
    for entry in stored["checkpoints"]:
        statistics.ended(_from_json(entry, shapes))
    statistics.counts.clear()
    statistics.counts.update({CheckpointOutcome[name]: n for name, n in stored["counts"].items()})
    statistics.acknowledgements = {
        **statistics.acknowledgements,
        **{AcknowledgeResult[name]: n for name, n in stored["acknowledgements"].items()},
    }
    statistics.restored_count = stored["restored_count"]
    # Earlier releases did not store these.
    statistics.restarts = stored.get("restarts", 0)
    statistics.last_result_ms = stored.get("last_result_ms")
    statistics.recoveries.extend(RecoveryStatistics(**one) for one in stored.get("recoveries", ()))
    return statistics


def _within_bounds(
    checkpoints: Sequence[CheckpointStatistics], shapes: Sequence[JobShape]
) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    subtasks = 0
    for checkpoint in reversed(checkpoints):
        subtasks += len(checkpoint.subtasks)
        entry = _to_json(checkpoint, not entries or subtasks <= STORED_SUBTASKS)
        entries.append({**entry, "shape": shapes.index(checkpoint.shape)})
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
            [subtask.task_id, subtask.index, *_metrics_to_json(metrics)] for subtask, metrics in subtasks
        ],
        "notified_ms": round(checkpoint.notified_ms, 3),
        "clean_up_ms": round(checkpoint.clean_up_ms, 3),
    }


@lru_cache(maxsize=2 * STORED_SUBTASKS)
def _metrics_to_json(metrics: SubtaskMetrics) -> list[Any]:
    """To be read only: each checkpoint is in twenty manifests."""
    upstream = metrics.upstream
    whose = [] if upstream is None else [upstream.task_id, upstream.index]
    return [*(value and round(value, 3) for value in _values(metrics)), *whose]


def _metrics_from_json(values: list[Any]) -> SubtaskMetrics:
    """Earlier versions stored fewer values."""
    whose = values[_VALUE_COUNT:]
    metrics = SubtaskMetrics(*values[:_VALUE_COUNT])
    return dataclasses.replace(metrics, upstream=SubtaskId(*whose)) if whose else metrics


def _from_json(entry: Mapping[str, Any], shapes: Sequence[JobShape]) -> CheckpointStatistics:
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
            SubtaskId(task_id, index): _metrics_from_json(metrics)
            for task_id, index, *metrics in entry["subtasks"]
        },
        SnapshotKind(entry["kind"]),
        entry["subtask_count"],
        entry.get("notified_ms", 0.0),
        entry.get("clean_up_ms", 0.0),
        shapes[entry["shape"]] if "shape" in entry else {},
    )
