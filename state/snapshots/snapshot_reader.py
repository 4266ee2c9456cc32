"""Opens a checkpoint for reading, without the job that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...common.errors import StateError
from ...protocol.checkpoints.handles import OperatorListHandle, SegmentHandle
from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ..keyed.raw_state import RAW_KEYED, split_raw
from ..storage.checkpoint_storage import open_storage
from ..storage.stored_checkpoint import read_checkpoint
from .snapshot_columns import StoredValues
from .snapshot_files import CheckedFiles, StateLocation, StateSegments, content_of
from .snapshot_raw import RawKeyedSnapshotState
from .snapshot_states import KeyedSnapshotState, OperatorSnapshotState, SnapshotState


@dataclass(frozen=True)
class SnapshotOperator:
    """One operator in a checkpoint.

    Attributes:
        uid, name: of the operator.
        max_parallelism: its number of key groups.
        parallelism: how many subtasks wrote the checkpoint.
        keyed_states: its keyed states by name.
        operator_states: its operator states by name.
        raw_keyed_state: what it keeps in a form of its own, if anything.
    """

    uid: str
    name: str
    max_parallelism: int
    parallelism: int
    keyed_states: Mapping[str, KeyedSnapshotState]
    operator_states: Mapping[str, OperatorSnapshotState]
    raw_keyed_state: RawKeyedSnapshotState | None

    @property
    def states(self) -> list[SnapshotState]:
        """All states: the keyed ones first."""
        raw = [] if self.raw_keyed_state is None else [self.raw_keyed_state]
        return [*self.keyed_states.values(), *self.operator_states.values(), *raw]

    def state(self, name: str) -> SnapshotState:
        """The state of a name; a keyed state comes before an operator state of the same name.

        Raises:
            StateError: when there is none; the message lists those there are.
        """
        found = next((state for state in self.states if state.name == name), None)
        if found is None:
            there = ", ".join(repr(state.name) for state in self.states) or "none"
            raise StateError(
                f"operator {self.name!r} (uid {self.uid}) has no state {name!r} in the checkpoint; there "
                f"is: {there}"
            )
        return found

    def keyed_state(self, name: str) -> KeyedSnapshotState:
        """The keyed state of a name; `StateError` when there is none."""
        found = self.state(name)
        if not isinstance(found, KeyedSnapshotState):
            raise StateError(f"{found.where} is {found.kind} state: it has no keys")
        return found


class Snapshot:
    """A checkpoint opened for reading.

    Attributes:
        path: where it is, as it was given.
        job_id, job_name: of the job that took it.
        checkpoint_id: its number.
        kind: `checkpoint`, `savepoint` or another kind of snapshot.
        triggered_ms, completed_ms: when, in milliseconds since the epoch.
        operators: by uid.
    """

    def __init__(self, path: str, manifest: CheckpointManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.job_id = manifest.job_id
        self.job_name = manifest.job_name
        self.checkpoint_id = int(manifest.checkpoint_id)
        self.kind = manifest.kind.value
        self.triggered_ms = manifest.triggered_ms
        self.completed_ms = manifest.completed_ms
        # Every handle has an absolute address, so any storage of the same kind can open it.
        files = CheckedFiles(open_storage(path))
        self.operators: dict[str, SnapshotOperator] = {}
        for uid, operator in manifest.operators.items():
            with content_of(f"{path}: operator {operator.name!r} (uid {uid})"):
                self.operators[uid] = _operator(operator, files)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.checkpoint_id} of job {self.job_name!r} with {', '.join(self.operators)}>"

    @property
    def size_bytes(self) -> int:
        """Bytes of state; a file that several subtasks refer to counts once."""
        return self.manifest.size_bytes

    def operator(self, uid: str) -> SnapshotOperator:
        """The operator of a uid.

        Raises:
            StateError: when there is none; the message lists those there are.
        """
        if uid not in self.operators:
            there = ", ".join(f"{each.uid} ({each.name})" for each in self.operators.values()) or "none"
            raise StateError(
                f"checkpoint {self.checkpoint_id} of job {self.job_name!r} has no operator with uid "
                f"{uid!r}; there is: {there}"
            )
        return self.operators[uid]

    def state(self, uid: str, name: str) -> SnapshotState:
        """A state by the uid of its operator and its own name; `StateError` when there is none."""
        return self.operator(uid).state(name)

    def keyed_state(self, uid: str, name: str) -> KeyedSnapshotState:
        """The same for a keyed state, which can be asked for keys."""
        return self.operator(uid).keyed_state(name)

    def verify(self) -> None:
        """Compare every file with its SHA-256.

        Raises:
            CorruptCheckpointError: naming the first damaged or missing file, its operator and its state.
        """
        for operator in self.operators.values():
            for state in operator.states:
                state.verify()


def read_snapshot(path: str) -> Snapshot:
    """Open a checkpoint or savepoint; only its manifest is read.

    Args:
        path: its directory (`…/<job id>/chk-12`) or the manifest in it; a local path, which may be
            relative, or any address of a checkpoint storage, such as `s3://…`.

    Raises:
        CheckpointNotFoundError: there is no checkpoint at `path`.
        CorruptCheckpointError: its manifest is damaged, or of a newer format.
    """
    return Snapshot(path, read_checkpoint(path))


def _operator(operator: OperatorManifest, files: CheckedFiles) -> SnapshotOperator:
    schemas: dict[str, dict[str, object]] = {}
    for snapshot in operator.subtasks:
        schemas.update(snapshot.keyed.descriptors)
    raw_schema = schemas.pop(RAW_KEYED, None)
    keyed = {name: _keyed_state(operator, name, schema, files) for name, schema in sorted(schemas.items())}
    lists: dict[str, OperatorListHandle] = {
        handle.state_name: handle for snapshot in operator.subtasks for handle in snapshot.lists
    }
    return SnapshotOperator(
        operator.uid,
        operator.name,
        operator.max_parallelism,
        len(operator.subtasks),
        keyed,
        {name: _operator_state(operator, handle, files) for name, handle in sorted(lists.items())},
        None if raw_schema is None else _raw_state(operator, raw_schema, files),
    )


def _raw_state(
    operator: OperatorManifest, schema: dict[str, object], files: CheckedFiles
) -> RawKeyedSnapshotState:
    segments = [segment for snapshot in operator.subtasks for segment in split_raw(snapshot.keyed)[1]]
    return RawKeyedSnapshotState(
        StateLocation(operator.uid, operator.name, RAW_KEYED), schema, files, segments
    )


def _operator_state(
    operator: OperatorManifest, latest: OperatorListHandle, files: CheckedFiles
) -> OperatorSnapshotState:
    parts = [
        (subtask, part)
        for subtask, snapshot in enumerate(operator.subtasks)
        for handle in snapshot.lists
        if handle.state_name == latest.state_name
        for part in handle.parts
    ]
    where = StateLocation(operator.uid, operator.name, latest.state_name)
    return OperatorSnapshotState(where, latest.mode, latest.schema, files, parts)


def _keyed_state(
    operator: OperatorManifest, name: str, schema: dict[str, object], files: CheckedFiles
) -> KeyedSnapshotState:
    subtasks = [
        tuple(segment for segment in snapshot.keyed.segments if segment.state_name == name)
        for snapshot in operator.subtasks
    ]
    distinct: dict[str, SegmentHandle] = {
        segment.file.path: segment for segments in subtasks for segment in segments
    }
    where = StateLocation(operator.uid, operator.name, name)
    return KeyedSnapshotState(
        where,
        schema,
        StateSegments(files, where, subtasks, StoredValues(where, schema, is_keyed=True).conversion),
        operator.max_parallelism,
        sum(segment.entry_count for segment in distinct.values()),
        sum(segment.file.size_bytes for segment in distinct.values()),
    )
