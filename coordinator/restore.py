"""Matches a checkpoint to a job graph, and says clearly where they do not fit."""

from __future__ import annotations

from ..common.errors import StateMigrationError
from ..protocol.handles import OperatorSnapshot
from ..protocol.ids import SubtaskId
from ..protocol.manifest import CheckpointManifest, OperatorManifest
from ..protocol.plan import JobGraph, StreamNode
from ..protocol.redistribution import redistribute


def check_restore(graph: JobGraph, manifest: CheckpointManifest, allow_non_restored_state: bool) -> None:
    """Raise `StateMigrationError` unless every stored operator finds its place in the graph."""
    claimed = {uid for node in graph.operators for uid in (node.uid, *node.previous_uids)}
    unclaimed = sorted(
        f"{operator.name!r} (uid {uid})"
        for uid, operator in manifest.operators.items()
        if uid not in claimed and operator.has_state
    )
    if unclaimed and not allow_non_restored_state:
        raise StateMigrationError(
            f"checkpoint {manifest.checkpoint_id} of job {manifest.job_name!r} holds state of "
            f"{', '.join(unclaimed)}, which the job does not have. Give the operator its old uid() "
            f"again, or name that in uid(..., previously=...), or drop this "
            f"state with execution.state-recovery.ignore-unclaimed-state: true"
        )
    for node in graph.operators:
        _check_max_parallelism(node, manifest)


def stored_operator(node: StreamNode, manifest: CheckpointManifest) -> OperatorManifest | None:
    """What a checkpoint holds of an operator: under its uid, else under the latest of its previous uids."""
    for uid in (node.uid, *node.previous_uids):
        if uid in manifest.operators:
            return manifest.operators[uid]
    return None


def _check_max_parallelism(node: StreamNode, manifest: CheckpointManifest) -> None:
    stored = stored_operator(node, manifest)
    if stored is None or stored.max_parallelism == node.max_parallelism:
        return
    if any(snapshot.keyed.segments for snapshot in stored.subtasks):
        raise StateMigrationError(
            f"{node} has max parallelism {node.max_parallelism}, but its state in checkpoint "
            f"{manifest.checkpoint_id} was written with {stored.max_parallelism}; keys cannot move "
            f"between key groups: call set_max_parallelism({stored.max_parallelism})"
        )


def restored_state(
    graph: JobGraph, manifest: CheckpointManifest
) -> dict[SubtaskId, dict[str, OperatorSnapshot]]:
    """State by subtask and operator uid, redistributed to the graph's parallelism.

    An operator is in it, for all its subtasks, if it had declared state, be that empty.
    """
    result: dict[SubtaskId, dict[str, OperatorSnapshot]] = {}
    for task in graph.tasks:
        for node in task.nodes:
            stored = stored_operator(node, manifest)
            if stored is None or not any(map(_declares_state, stored.subtasks)):
                # Flink's term: an operator that had no state is not restored, whatever it has now.
                continue
            parts = redistribute(stored.subtasks, node.parallelism, node.max_parallelism)
            for index, snapshot in enumerate(parts):
                result.setdefault(SubtaskId(task.task_id, index), {})[node.uid] = snapshot
    return result


def _declares_state(snapshot: OperatorSnapshot) -> bool:
    return bool(snapshot.lists or snapshot.keyed.descriptors or snapshot.keyed.segments)
