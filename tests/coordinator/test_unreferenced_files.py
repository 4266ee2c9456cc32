"""While a job runs, its directory holds what its retained checkpoints name, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tidegate.common import Types
from tidegate.protocol.checkpoints.checkpoint import Acknowledgement, SubtaskAcknowledged
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.manifest import decode_manifest
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.ids import CheckpointId, SubtaskId
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.snapshots.segment_log import TINY_ENTRIES

from .fakes import SOURCE, TOTALS, FakeCluster, job_spec

HOUR_S = 3_600
INTERVAL_S = 5
KEYS = 4 * TINY_ENTRIES
"""So many that their state is stored as increments, and merged."""
CHANGED = 20
EVERY_SECOND = TriggerPolicy(interval_ms=INTERVAL_S * 1_000, timeout_ms=5_000, tolerable_failures=9)
TOTAL = ValueStateDescriptor("total", Types.LONG())


class KeyedJob:
    """A job whose totals are kept by real backends, with every file of state in storage.

    Args:
        backend: Of the keyed subtasks.
        directory: For their local state.
    """

    def __init__(self, backend: StateBackend, directory: Path) -> None:
        self.cluster = FakeCluster(job_spec(trigger=EVERY_SECOND)).run()
        self._random = Random(18)
        self.backends = {
            subtask: backend.create_keyed_backend(self._parameters(subtask, str(directory)))
            for subtask in TOTALS
        }
        self._totals = {subtask: each.get_value_state(TOTAL) for subtask, each in self.backends.items()}
        self.change(range(KEYS))

    def _parameters(self, subtask: SubtaskId, directory: str) -> KeyedStateBackendParameters:
        return KeyedStateBackendParameters(
            operator_uid="totals",
            operator_name="Totals",
            subtask_index=subtask.index,
            attempt=self.cluster.attempt,
            max_parallelism=128,
            key_groups=key_group_range_of_subtask(subtask.index, 128, 2),
            key_type=Types.LONG(),
            local_dir=f"{directory}/{subtask.index}",
            storage=self.cluster.storage.sub("job"),
            file_prefix="shared/op-totals",
            now_ms=lambda: self.cluster.time_ms,
        )

    def change(self, keys: range | list[int]) -> None:
        for key in keys:
            subtask = TOTALS[key_group_of(key, 128) * 2 // 128]
            self.backends[subtask].current_key = key
            self._totals[subtask].update(self.cluster.time_ms + key)

    def change_some(self) -> None:
        self.change(self._random.sample(range(KEYS), CHANGED))

    def spill(self) -> None:
        """Write buffers are full: they are stored before the checkpoint."""
        for backend in self.backends.values():
            backend.spill().persist()

    def trigger(self) -> CheckpointId:
        self.cluster.pass_ms(INTERVAL_S * 1_000)
        return self.cluster.triggered().checkpoint_id

    def acknowledge(self, subtask: SubtaskId, checkpoint_id: CheckpointId) -> None:
        self.cluster.coordinator.handle(
            SubtaskAcknowledged(
                self.cluster.attempt, subtask, checkpoint_id, self._stored(subtask, checkpoint_id)
            )
        )

    def _stored(self, subtask: SubtaskId, checkpoint_id: CheckpointId) -> Acknowledgement:
        if subtask == SOURCE:
            return self.cluster.stored(subtask, checkpoint_id)
        return Acknowledgement({"totals": OperatorSnapshot(self.backends[subtask].freeze().persist())})

    def complete(self) -> None:
        checkpoint_id = self.trigger()
        for subtask in [SOURCE, *TOTALS]:
            self.acknowledge(subtask, checkpoint_id)

    def unreferenced(self) -> set[str]:
        """Files of state that no manifest in storage names."""
        storage, found = self.cluster.storage.sub("job"), self.cluster.files()
        manifests = [path for path in found if path.endswith("MANIFEST")]
        named = {
            file.path
            for path in manifests
            for file in decode_manifest(storage.read(path), path).files()
            if not file.is_inline
        }
        return {path for path in found if path.startswith("shared/")} - named


@pytest.fixture(params=["hashmap", "lmdb"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyedJob]:
    backend = HashMapStateBackend() if request.param == "hashmap" else LmdbStateBackend()
    job = KeyedJob(backend, tmp_path)
    yield job
    backends: list[KeyedStateBackend] = list(job.backends.values())
    for each in backends:
        each.close()


@pytest.mark.slow
@pytest.mark.parametrize("job", ["hashmap"], indirect=True)
def test_an_hour_of_checkpoints_leaves_no_file_that_no_manifest_names(job: KeyedJob) -> None:
    merged = 0
    for _ in range(HOUR_S // INTERVAL_S):
        job.change_some()
        before = len(job.cluster.files())
        job.complete()
        merged += len(job.cluster.files()) < before
        assert job.unreferenced() == set()
    assert merged > 30, "increments were merged again and again"


def test_spills_that_are_merged_before_a_checkpoint_names_them_are_deleted(job: KeyedJob) -> None:
    for _ in range(40):
        for _ in range(5):
            job.change_some()
            job.spill()
        job.complete()
        assert job.unreferenced() == set()
