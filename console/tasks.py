"""The tasks of a job for people and programs: states and rates, all subtasks of a task together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..coordinator.monitoring.job_details import JobDetails, SubtaskDetails


def task_documents(details: JobDetails) -> list[dict[str, Any]]:
    """Every task, each after those that it gets records from.

    Rates are sums over its subtasks; `busy` and `backpressured` are shares of time, from 0 to 1, of the
    subtask that has most.
    """
    names: dict[int, list[str]] = {}
    task_ids: dict[int, str] = {}
    for node in details.plan["nodes"]:
        names.setdefault(node["task"], []).append(str(node["type"]))
        # A task is called after its first operator.
        task_ids.setdefault(node["task"], f"task-{node['id']}")
    subtasks: dict[str, list[SubtaskDetails]] = {}
    for each in details.subtasks:
        subtasks.setdefault(each.subtask.task_id, []).append(each)
    return [
        _described(" -> ".join(names[number]), subtasks.get(task_id, []))
        for number, task_id in sorted(task_ids.items())
    ]


def _described(name: str, subtasks: Sequence[SubtaskDetails]) -> dict[str, Any]:
    rates = [each.rates for each in subtasks]
    return {
        "name": name,
        "parallelism": len(subtasks),
        "states": dict(Counter(each.state.value for each in subtasks)),
        "records_in_per_s": sum(each.records_in for each in rates),
        "records_out_per_s": sum(each.records_out for each in rates),
        "busy": max((each.busy_ms for each in rates), default=0.0) / 1_000,
        "backpressured": max((each.backpressured_ms for each in rates), default=0.0) / 1_000,
        "subtasks": [
            {
                "index": each.subtask.index,
                "state": each.state.value,
                "attempt": each.attempt,
                "host": each.host,
                "process_id": each.process_id,
            }
            for each in subtasks
        ],
    }
