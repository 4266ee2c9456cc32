"""Small checkpoints that the tests of snapshot readers write: backends frozen into a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.manifest import (
    CheckpointManifest,
    OperatorManifest,
    decode_manifest,
    encode_manifest,
)
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, wall_clock_ms
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.keyed.raw_state import RawKeyedState, RawKeyedStateParameters
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, open_storage
from tidegate.state.storage.stored_checkpoint import MANIFEST_NAME, read_checkpoint

UID = "totals-uid"
NAME = "Totals"
MAX_PARALLELISM = 128
TOTAL = ValueStateDescriptor("total", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))


class Job:
    """A keyed operator with some subtasks, which takes checkpoints when it is told to."""

    def __init__(
        self,
        root: Path | str | CheckpointStorage,
        parallelism: int = 2,
        key_type: TypeInformation | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        attempt: int = 1,
    ) -> None:
        self.now_ms = now_ms
        self.attempt = attempt
        self.storage = root if isinstance(root, CheckpointStorage) else open_storage(str(root))
        self.parallelism = parallelism
        self.backends = [self._backend(index, key_type) for index in range(parallelism)]
        self.operator_states = [self._operator_state(index) for index in range(parallelism)]
        self.taken = 0

    def _operator_state(self, index: int) -> OperatorStateBackend:
        return OperatorStateBackend(
            OperatorStateBackendParameters(UID, NAME, index, self.attempt, self.storage, f"shared/{UID}")
        )

    def _backend(self, index: int, key_type: TypeInformation | None) -> KeyedStateBackend:
        return HashMapStateBackend().create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid=UID,
                operator_name=NAME,
                subtask_index=index,
                attempt=self.attempt,
                max_parallelism=MAX_PARALLELISM,
                key_groups=key_group_range_of_subtask(index, MAX_PARALLELISM, self.parallelism),
                key_type=key_type,
                local_dir="",
                storage=self.storage,
                file_prefix=f"shared/{UID}",
                now_ms=self.now_ms,
            )
        )

    def restore(self, path: str) -> None:
        """Start from a checkpoint of another job of the same parallelism; before any state is declared."""
        self._restore(read_checkpoint(path))

    def restart(self, checkpoint_id: int) -> None:
        """Start from a checkpoint of this job itself; before any state is declared."""
        path = f"chk-{checkpoint_id}/{MANIFEST_NAME}"
        self._restore(decode_manifest(self.storage.read(path), path))
        self.taken = checkpoint_id

    def _restore(self, manifest: CheckpointManifest) -> None:
        snapshots = manifest.operators[UID].subtasks
        for backend, snapshot in zip(self.backends, snapshots, strict=True):
            backend.restore(snapshot.keyed, True)

    def subtask_of(self, key: Any) -> int:
        """The subtask that owns a key."""
        return key_group_of(key, MAX_PARALLELISM) * self.parallelism // MAX_PARALLELISM

    def each(
        self,
        keys: Iterable[Any],
        declare: Callable[[KeyedStateBackend], Any],
        act: Callable[[Any, Any], None],
    ) -> None:
        """Call `act(state handle, key)` for every key in the subtask that owns it."""
        handles = [declare(backend) for backend in self.backends]
        for key in keys:
            subtask = self.subtask_of(key)
            self.backends[subtask].current_key = key
            act(handles[subtask], key)

    def _snapshot(self, index: int, raw: Mapping[int, bytes]) -> OperatorSnapshot:
        held = key_group_range_of_subtask(index, MAX_PARALLELISM, self.parallelism)
        raw_state = RawKeyedState(
            RawKeyedStateParameters(UID, NAME, index, self.attempt, held, self.storage, f"shared/{UID}")
        )
        output = raw_state.new_output()
        for key_group, data in raw.items():
            if held.contains(key_group):
                output.start_new_key_group(key_group)
                output.write(data)
        keyed = raw_state.write(output, self.backends[index].freeze().persist())
        return OperatorSnapshot(keyed, self.operator_states[index].snapshot().persist())

    def checkpoint(self, raw: Mapping[int, bytes] | None = None) -> str:
        """Take a checkpoint, with some raw state by key group; returns its directory."""
        self.taken += 1
        subtasks = tuple(self._snapshot(index, raw or {}) for index in range(self.parallelism))
        manifest = CheckpointManifest(
            "job-1",
            "flights",
            CheckpointId(self.taken),
            SnapshotKind.CHECKPOINT,
            1_000,
            1_200,
            {UID: OperatorManifest(UID, NAME, MAX_PARALLELISM, subtasks)},
        )
        self.storage.create_exclusive(f"chk-{self.taken}/{MANIFEST_NAME}", encode_manifest(manifest))
        return f"{self.storage.uri}/chk-{self.taken}"


def totals(job: Job, keys: Any, factor: float = 0.5) -> None:
    job.each(
        keys,
        lambda backend: backend.get_value_state(TOTAL),
        lambda state, key: state.update((key, key * factor)),
    )
