"""Matches a checkpoint to a job graph, and says clearly where they do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...common.errors import StateMigrationError
from ...protocol.checkpoints.channel_state import RecoveredChannel, StoredExchange
from ...protocol.checkpoints.handles import ChannelRange, OperatorSnapshot
from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ...protocol.checkpoints.redistribution import redistribute
from ...protocol.ids import SubtaskId
from ...protocol.scheduling.plan import JobGraph, StreamNode


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
    if not allow_non_restored_state:
        _check_records(graph, manifest)


def _check_records(graph: JobGraph, manifest: CheckpointManifest) -> None:
    """Every record under way must still have an edge to travel on."""
    exchanges = list(_exchanges(graph, manifest))
    for operator in manifest.operators.values():
        for each in _ranges(operator):
            if not any(one.stored is operator and one.claims(each) for one in exchanges):
                raise StateMigrationError(
                    f"checkpoint {manifest.checkpoint_id} of job {manifest.job_name!r} holds records that "
                    f"were under way from the operator with uid {each.upstream_uid!r} to "
                    f"{operator.name!r} (uid {operator.uid}), {each.partitioning}; the job has no such "
                    f"exchange. Keep the two operators, their uids and their chaining as they were, or "
                    f"start from a savepoint, which holds no such records, or drop them with "
                    f"execution.state-recovery.ignore-unclaimed-state: true"
                )


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


def recovered_records(
    graph: JobGraph, manifest: CheckpointManifest
) -> dict[SubtaskId, tuple[RecoveredChannel, ...]]:
    """Where each subtask finds the records that were under way to it, at the graph's parallelism."""
    result: dict[SubtaskId, tuple[RecoveredChannel, ...]] = {}
    for exchange in _exchanges(graph, manifest):
        for index, recovered in exchange.recovered():
            subtask = SubtaskId(exchange.task.task_id, index)
            result[subtask] = (*result.get(subtask, ()), recovered)
    return result


def _exchanges(graph: JobGraph, manifest: CheckpointManifest) -> Iterator[StoredExchange]:
    """The edges into tasks of whose first operator the checkpoint holds something."""
    nodes = {node.node_id: node for node in graph.operators}
    for task in graph.tasks:
        stored = stored_operator(task.head, manifest)
        if stored is not None:
            for edge, origin in graph.inputs_of(task):
                upstream = nodes[edge.source_id]
                uids = frozenset((upstream.uid, *upstream.previous_uids))
                yield StoredExchange(edge, origin, uids, stored, task)


def _ranges(operator: OperatorManifest) -> Iterable[ChannelRange]:
    for snapshot in operator.subtasks:
        if snapshot.channels is not None:
            yield from snapshot.channels.channels


def _declares_state(snapshot: OperatorSnapshot) -> bool:
    return bool(snapshot.lists or snapshot.keyed.descriptors or snapshot.keyed.segments)
