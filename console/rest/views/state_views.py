"""What is in the newest complete checkpoint of a job. Nothing is ever unpickled here."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from ....common.errors import CheckpointStorageError, StateError
from ....state.serializers.encoded_values import PickledValue
from ....state.snapshots.snapshot_columns import OperatorStateEntry, StateEntry
from ....state.snapshots.snapshot_reader import SnapshotOperator, read_snapshot
from ....state.snapshots.snapshot_states import KeyedSnapshotState, OperatorSnapshotState, SnapshotState
from ..directory import FoundJob
from ..models import state_models

MAX_VALUE_TEXT = 400
"""Characters of a key or a value in a sample."""
MAX_SAMPLED_BYTES = 64 << 20
"""A state is only sampled up to this size: its files are read and checked as a whole."""
MAX_SAMPLED_ROWS = 5_000_000
"""And up to so many rows: repeated values take next to no bytes in a file, but memory when they are read."""


class NotSampledError(StateError):
    """A state whose entries cannot be shown."""


def job_state(job: FoundJob) -> state_models.JobState:
    """The operators and states of the newest complete checkpoint; only its manifest is read."""
    path = job.details.report.newest_checkpoint
    if path is None:
        return _no_state(None, "the job has no complete checkpoint")
    if job.state_problem:
        return _no_state(path, job.state_problem)
    try:
        snapshot = read_snapshot(path)
    except CheckpointStorageError as error:
        return _no_state(path, f"the newest checkpoint cannot be read: {error}")
    return state_models.JobState(
        checkpoint_id=snapshot.checkpoint_id,
        path=path,
        kind=snapshot.kind,
        triggered_ms=snapshot.triggered_ms,
        completed_ms=snapshot.completed_ms,
        size_bytes=snapshot.size_bytes,
        operators=[_operator(operator) for operator in snapshot.operators.values()],
        note="",
    )


def _no_state(path: str | None, note: str) -> state_models.JobState:
    return state_models.JobState(
        checkpoint_id=None,
        path=path,
        kind=None,
        triggered_ms=None,
        completed_ms=None,
        size_bytes=0,
        operators=[],
        note=note,
    )


def _operator(operator: SnapshotOperator) -> state_models.OperatorState:
    return state_models.OperatorState(
        uid=operator.uid,
        name=operator.name,
        parallelism=operator.parallelism,
        max_parallelism=operator.max_parallelism,
        size_bytes=sum(state.size_bytes for state in operator.states),
        states=[_state(state) for state in operator.states],
    )


def _state(state: SnapshotState) -> state_models.StateInfo:
    def text(name: str) -> str | None:
        value = state.schema.get(name)
        return None if value is None else _cut(str(value))

    return state_models.StateInfo(
        name=state.name,
        kind=state.kind,
        key_type=text("key_type"),
        map_key_type=text("map_key_type"),
        value_type=text("value_type"),
        ttl=text("ttl"),
        stored_rows=state.stored_rows,
        size_bytes=state.size_bytes,
    )


def state_entries(job: FoundJob, uid: str, name: str, offset: int, limit: int) -> state_models.StateEntries:
    """Some entries of a state in the newest complete checkpoint.

    Raises:
        StateError: There is no checkpoint, no such state, or it is not one to show.
        CheckpointStorageError: The checkpoint cannot be read, perhaps because a newer one took its place.
    """
    path = job.details.report.newest_checkpoint
    if path is None:
        raise StateError("the job has no complete checkpoint")
    if job.state_problem:
        raise StateError(job.state_problem)
    snapshot = read_snapshot(path)
    state = snapshot.state(uid, name)
    found = list(islice(_samples(state), offset, offset + limit + 1))
    return state_models.StateEntries(
        checkpoint_id=snapshot.checkpoint_id,
        uid=uid,
        state=name,
        offset=offset,
        limit=limit,
        is_last=len(found) <= limit,
        entries=found[:limit],
    )


def _samples(state: SnapshotState) -> Iterable[state_models.StateSample]:
    if state.size_bytes > MAX_SAMPLED_BYTES:
        raise NotSampledError(
            f"the state has {state.size_bytes} bytes, and samples are taken up to {MAX_SAMPLED_BYTES}; read "
            f"it with tidegate.state.read_snapshot, which can look up single keys"
        )
    if state.stored_rows > MAX_SAMPLED_ROWS:
        raise NotSampledError(
            f"the state has {state.stored_rows} stored rows, and samples are taken up to {MAX_SAMPLED_ROWS}; "
            f"read it with tidegate.state.read_snapshot, which can look up single keys"
        )
    if isinstance(state, KeyedSnapshotState):
        return map(_keyed_sample, state.entries(trusted=False))
    if isinstance(state, OperatorSnapshotState):
        return map(_operator_sample, state.entries(trusted=False))
    raise NotSampledError(f"{state.kind} state is kept in a form of its operator's own: it has no entries")


def _keyed_sample(entry: StateEntry) -> state_models.StateSample:
    return state_models.StateSample(
        key=_shown(entry.key),
        namespace=None if entry.namespace is None else _shown(entry.namespace),
        map_key=None if entry.map_key is None else _shown(entry.map_key),
        subtask=None,
        value=_shown(entry.value),
        expiry=None if entry.expiry_ms is None else _shown(entry.expiry_ms),
    )


def _operator_sample(item: OperatorStateEntry) -> state_models.StateSample:
    return state_models.StateSample(
        key="" if item.map_key is None else _shown(item.map_key),
        namespace=None,
        map_key=None if item.map_key is None else _shown(item.map_key),
        subtask=item.subtask,
        value=_shown(item.value),
        expiry=None,
    )


def _shown(value: Any) -> str:
    if isinstance(value, PickledValue):
        return f"<pickled, {len(value.data)} bytes>"
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_TEXT else f"{text[: MAX_VALUE_TEXT - 2]} …"
