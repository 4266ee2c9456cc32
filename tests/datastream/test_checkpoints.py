"""Checkpoints, restarts and restores of whole jobs: nothing is lost, nothing comes twice."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import JobStatus
from tidegate.common.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    JobExecutionError,
    StateMigrationError,
)
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.datastream import (
    CheckpointingMode,
    Committer,
    DataStream,
    ExternalizedCheckpointRetention,
    MapFunction,
    RuntimeContext,
    Sink,
    SinkWriter,
    StreamExecutionEnvironment,
)
from tidegate.operators.base import OperatorContext
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, register_scheme
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage

from .jobs import COUNT, WAIT_S, CountDown, RunningSum, environment, expected_sums, held

KEYS = 9


class FailOnce(MapFunction):
    """Fails on one record as long as a file says that it has not done so `times` times.

    Args:
        diary: File with one line per record seen and per failure.
    """

    def __init__(self, diary: Path, record: int, times: int = 1) -> None:
        self.diary = diary
        self.record = record
        self.times = times

    def open(self, runtime_context: RuntimeContext) -> None:
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value: int) -> int:
        with self.diary.open("a+", encoding="utf-8") as diary:
            diary.seek(0)
            failures = diary.read().count("failed")
            if value == self.record and failures < self.times:
                diary.write(f"failed in attempt {self.attempt}\n")
                raise RuntimeError("poisoned record")
            diary.write(f"{value}\n")
        return value

    @staticmethod
    def seen(diary: Path) -> list[int]:
        return [int(line) for line in diary.read_text("utf-8").splitlines() if line.isdigit()]


def sums(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value % KEYS).process(RunningSum()).uid("sums")


# ---------------------------------------------------------------- restart


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_a_job_that_failed_goes_on_from_its_checkpoint_exactly_once(
    tmp_path: Path, parallelism: int, backend: str
) -> None:
    env = environment(tmp_path, parallelism, {"state.backend.type": backend})
    diary = tmp_path / "diary"
    # The record lies in the second half of its split: behind two checkpoints.
    stream = sums(held(env).map(FailOnce(diary, COUNT - 1)))
    results = list(stream.execute_and_collect())
    assert len(results) == COUNT
    assert expected_sums(COUNT, KEYS) <= set(results)
    assert Counter(results) == Counter(set(results))
    seen = FailOnce.seen(diary)
    assert set(seen) == set(range(COUNT))
    assert COUNT <= len(seen) < 2 * COUNT, "it went on from a checkpoint and not from the start"


def test_every_restart_is_counted_and_reported(tmp_path: Path) -> None:
    env = environment(tmp_path)
    held(env).map(FailOnce(tmp_path / "diary", COUNT - 1, times=2)).sink_to(Vault())
    report = env.execute().report
    assert report.status is JobStatus.FINISHED
    assert report.restarts == 2
    assert [recovery.restored_checkpoint is not None for recovery in report.statistics.recoveries] == [
        True
    ] * 2
    assert all("poisoned record" in recovery.cause for recovery in report.statistics.recoveries)
    diary = (tmp_path / "diary").read_text("utf-8")
    assert [f"failed in attempt {attempt}" in diary for attempt in range(3)] == [True, True, False]


def test_a_job_that_fails_too_often_names_operator_record_and_strategy(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"restart-strategy.fixed-delay.attempts": "1"})
    held(env).map(FailOnce(tmp_path / "diary", COUNT - 1, times=9)).name("Poison").sink_to(Vault())
    with pytest.raises(JobExecutionError) as raised:
        env.execute()
    message = str(raised.value)
    assert "operator Poison (1/1): map() raised RuntimeError: poisoned record on the record 199" in message
    assert "all 1 restarts of the fixed-delay strategy are used" in message
    assert "Traceback" in message


class Mistaken(MapFunction):
    """Cannot be opened, as a file notes."""

    def __init__(self, diary: Path) -> None:
        self.diary = diary

    def open(self, runtime_context: RuntimeContext) -> None:
        with self.diary.open("a", encoding="utf-8") as diary:
            diary.write("opened\n")
        self.missing.append(object())  # type: ignore[attr-defined]

    def map(self, value: int) -> int:
        raise AssertionError("no record is ever processed")


def test_a_function_that_cannot_be_opened_twice_ends_its_job(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"restart-strategy.fixed-delay.attempts": "10"})
    held(env).map(Mistaken(tmp_path / "diary")).name("Mistaken").sink_to(Vault())
    with pytest.raises(JobExecutionError) as raised:
        env.execute()
    assert "open() raised AttributeError: 'Mistaken' object has no attribute 'missing'" in str(raised.value)
    assert "an earlier attempt ended in the same way" in str(raised.value)
    assert (tmp_path / "diary").read_text("utf-8") == "opened\n" * 2


def test_without_checkpoints_the_first_failure_is_final(tmp_path: Path) -> None:
    stream = environment().from_collection([1, 2]).map(FailOnce(tmp_path / "diary", 2))
    with pytest.raises(JobExecutionError, match="poisoned record on the record 2"):
        list(stream.execute_and_collect())


def test_records_that_were_not_committed_are_not_seen_when_the_job_fails(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"restart-strategy.type": "none"})
    seen: list[int] = []
    results = held(env).map(FailOnce(tmp_path / "diary", COUNT - 1)).execute_and_collect()
    with pytest.raises(JobExecutionError):
        seen.extend(results)
    assert len(seen) == len(set(seen)) < COUNT


class Vault(Sink):
    """Two phases: committed values land in a class attribute, since sinks run in this process."""

    committed: list[Any] = []  # noqa: RUF012

    def create_writer(self) -> SinkWriter:
        return VaultWriter()

    def create_committer(self) -> Committer | None:
        return VaultCommitter()


class VaultWriter(SinkWriter):
    def open(self, context: OperatorContext) -> None:
        self.values: list[Any] = []

    def write_batch(self, values: list[Any]) -> None:
        self.values += values

    def prepare_commit(self) -> list[Any]:
        values, self.values = self.values, []
        return [values] if values else []


class VaultCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        for values in committables:
            # Idempotent, as a commit must be: what is there already is not added again.
            Vault.committed += [value for value in values if value not in Vault.committed]


@pytest.fixture(autouse=True)
def empty_vault() -> None:
    Vault.committed.clear()


def test_a_two_phase_sink_shows_every_result_once_across_restarts(tmp_path: Path) -> None:
    env = environment(tmp_path, parallelism=2)
    sums(held(env).map(FailOnce(tmp_path / "diary", COUNT - 1, times=2))).sink_to(Vault())
    env.execute()
    assert len(Vault.committed) == COUNT
    assert expected_sums(COUNT, KEYS) <= set(Vault.committed)


def test_at_least_once_loses_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path, parallelism=2)
    env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    stream = held(env).map(FailOnce(tmp_path / "diary", COUNT - 1)).rebalance().map(lambda value: value)
    assert set(stream.execute_and_collect()) == set(range(COUNT))


def test_checkpoints_go_on_after_a_source_has_ended(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"execution.checkpointing.timeout": "10 s"})
    short = env.from_collection([-1])
    iterator = short.union(held(env, snapshots=4)).execute_and_collect()
    assert sorted(iterator) == [-1, *range(COUNT)]


# ---------------------------------------------------------------- restore in another job


def retained(tmp_path: Path, parallelism: int = 2, threshold: str = "20kb", **settings: Any) -> str:
    """Runs a job up to the middle of its input, cancels it, and returns its newest checkpoint."""
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.data-inline-threshold": threshold,
    }
    env = environment(tmp_path, parallelism, options)
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    sums(held(env, snapshots=None, **settings)).map(CountDown(COUNT // 2)).sink_to(Vault()).uid("vault")
    client = env.execute_async()
    assert CountDown.reached.wait(WAIT_S), "half of the records never came"
    checkpoint_id = client.trigger_checkpoint()
    client.cancel().result()
    assert client.wait() is JobStatus.CANCELED
    path = client.report().newest_checkpoint
    client.close()
    assert path is not None
    assert path.endswith(f"/chk-{checkpoint_id}")
    return path


@pytest.fixture(autouse=True)
def restarted_count_down() -> None:
    CountDown.restart()


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_a_job_starts_from_a_retained_checkpoint_at_any_parallelism(
    tmp_path: Path, parallelism: int, backend: str
) -> None:
    path = retained(tmp_path)
    options = {"execution.state-recovery.path": path, "state.backend.type": backend}
    env = environment(tmp_path, parallelism, options)
    # The second job has another shape: only uids count.
    sums(held(env, snapshots=0).map(lambda value: value)).sink_to(Vault()).uid("vault")
    env.execute()
    assert len(Vault.committed) == len(set(Vault.committed)) == COUNT
    assert expected_sums(COUNT, KEYS) <= set(Vault.committed)


def test_a_restored_job_leaves_the_checkpoint_it_came_from_alone(tmp_path: Path) -> None:
    path = Path(retained(tmp_path).removeprefix("file://"))
    before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
    for _ in range(2):
        env = environment(tmp_path, options={"execution.state-recovery.path": str(path)})
        sums(held(env, snapshots=0)).sink_to(Vault()).uid("vault")
        env.execute()
        assert len(Vault.committed) == COUNT
    assert {file: file.read_bytes() for file in before} == before


def test_a_restored_job_that_fails_goes_on_from_its_own_checkpoints(tmp_path: Path) -> None:
    path = retained(tmp_path)
    env = environment(tmp_path, 3, {"execution.state-recovery.path": path})
    stream = sums(held(env, snapshots=2).map(FailOnce(tmp_path / "diary", COUNT - 1)))
    stream.sink_to(Vault()).uid("vault")
    assert env.execute().report.restarts == 1
    assert len(Vault.committed) == len(set(Vault.committed)) == COUNT
    assert expected_sums(COUNT, KEYS) <= set(Vault.committed)


def restore(tmp_path: Path, path: str) -> StreamExecutionEnvironment:
    return environment(tmp_path, options={"execution.state-recovery.path": path})


def test_an_unknown_checkpoint_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    env = restore(tmp_path, str(tmp_path / "nowhere" / "chk-1"))
    sums(held(env)).sink_to(Vault())
    with pytest.raises(CheckpointStorageError, match=r"no checkpoint at .*nowhere/chk-1"):
        env.execute()


def test_a_damaged_manifest_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    path = retained(tmp_path)
    manifest = Path(path.removeprefix("file://")) / "MANIFEST"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    env = restore(tmp_path, path)
    sums(held(env)).sink_to(Vault())
    with pytest.raises(CorruptCheckpointError, match="MANIFEST is damaged"):
        env.execute()


def test_a_tiny_checkpoint_is_one_file(tmp_path: Path) -> None:
    directory = Path(retained(tmp_path).removeprefix("file://"))
    assert [file.name for file in directory.iterdir()] == ["MANIFEST"]
    assert not list(directory.parent.glob("shared/**/*.parquet"))


def test_a_damaged_state_file_fails_the_job_without_restarts(tmp_path: Path) -> None:
    path = retained(tmp_path, threshold="0")
    segment = next(Path(path.removeprefix("file://")).parent.glob("shared/op-sums/*.parquet"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    env = restore(tmp_path, path)
    sums(held(env, snapshots=0)).sink_to(Vault()).uid("vault")
    with pytest.raises(JobExecutionError, match=rf"CorruptCheckpointError.*{segment.name}"):
        env.execute()


def test_state_of_an_operator_that_is_gone_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    path = retained(tmp_path)
    env = restore(tmp_path, path)
    held(env).sink_to(Vault()).uid("vault")
    with pytest.raises(StateMigrationError, match=r"'KeyedProcess' \(uid sums\)"):
        env.execute()
    options = {
        "execution.state-recovery.path": path,
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    env = environment(tmp_path, options=options)
    assert len(list(held(env, snapshots=0).execute_and_collect())) == COUNT // 2


def test_another_max_parallelism_is_refused(tmp_path: Path) -> None:
    env = restore(tmp_path, retained(tmp_path))
    sums(held(env)).set_max_parallelism(64).sink_to(Vault()).uid("vault")
    with pytest.raises(StateMigrationError, match=r"call set_max_parallelism\(128\)"):
        env.execute()


# ---------------------------------------------------------------- what stays


def stored(tmp_path: Path) -> list[str]:
    root = tmp_path / "checkpoints"
    return [file.name for file in root.rglob("*") if file.is_file()]


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_no_retention_keeps_the_checkpoints_of_a_finished_job(
    tmp_path: Path, retention: ExternalizedCheckpointRetention
) -> None:
    env = environment(tmp_path)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    held(env).sink_to(Vault())
    report = env.execute().report
    assert report.newest_checkpoint is None
    assert stored(tmp_path) == []


def test_checkpoints_of_a_finished_job_stay_if_asked_to(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"tidegate.checkpointing.retain-on-finish": "true"})
    held(env).sink_to(Vault())
    newest = env.execute().report.newest_checkpoint
    assert newest is not None
    assert (Path(newest) / "MANIFEST").is_file()
    assert stored(tmp_path).count("MANIFEST") == 1


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_a_failed_job_keeps_its_newest_checkpoint_if_asked_to(
    tmp_path: Path, retention: ExternalizedCheckpointRetention
) -> None:
    env = environment(tmp_path, options={"restart-strategy.type": "none"})
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    held(env).map(FailOnce(tmp_path / "diary", COUNT - 1)).sink_to(Vault())
    client = env.execute_async()
    assert client.wait(WAIT_S) is JobStatus.FAILED
    keeps = retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert (client.report().newest_checkpoint is not None) == keeps
    assert stored(tmp_path).count("MANIFEST") == int(keeps)
    client.close()


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_checkpoints_of_a_cancelled_job_stay_only_if_asked_to(
    tmp_path: Path, retention: ExternalizedCheckpointRetention
) -> None:
    env = environment(tmp_path)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    held(env, snapshots=None).sink_to(Vault())
    client = env.execute_async()
    client.trigger_checkpoint()
    client.close()
    assert client.wait(WAIT_S) is JobStatus.CANCELED
    keeps = retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert ("MANIFEST" in stored(tmp_path)) == keeps


class HeldUploads(FileSystemCheckpointStorage):
    """Uploads of state wait until the clean-up of the ended job has looked at what is there."""

    has_begun = threading.Event()
    may_end = threading.Event()

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if path.startswith("shared/"):
            if not HeldUploads.has_begun.is_set():
                HeldUploads.may_end.clear()
            HeldUploads.has_begun.set()
            assert HeldUploads.may_end.wait(WAIT_S)
        return super().write_file(path, data)

    def list_unfinished(self, prefix: str) -> list[str]:
        found = super().list_unfinished(prefix)
        HeldUploads.may_end.set()
        return found

    def delete_all(self) -> None:
        super().delete_all()
        HeldUploads.may_end.set()

    def sub(self, prefix: str) -> CheckpointStorage:
        return HeldUploads(f"{self.uri}/{prefix}")


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_what_is_stored_after_the_end_of_a_job_does_not_stay(
    tmp_path: Path, retention: ExternalizedCheckpointRetention
) -> None:
    register_scheme("held", HeldUploads)
    HeldUploads.has_begun.clear()
    options = {
        "execution.checkpointing.dir": f"held://{tmp_path / 'checkpoints'}",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    env = environment(tmp_path, options=options)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    sums(held(env, snapshots=None)).sink_to(Vault())
    client = env.execute_async()
    assert HeldUploads.has_begun.wait(WAIT_S)
    client.close()
    assert client.wait(WAIT_S) is JobStatus.CANCELED
    assert not list((tmp_path / "checkpoints").rglob("*.parquet"))


def test_a_finished_job_leaves_no_directory_behind(tmp_path: Path) -> None:
    env = environment(tmp_path)
    held(env).sink_to(Vault())
    env.execute()
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_completed_checkpoints_are_in_the_report(tmp_path: Path) -> None:
    env = environment(tmp_path, 2)
    sums(held(env)).sink_to(Vault())
    history = env.execute().report.statistics.checkpoints
    assert len(history) >= 3
    assert [entry.checkpoint_id for entry in history] == list(range(1, len(history) + 1))
    assert {entry.outcome for entry in history} == {CheckpointOutcome.COMPLETED}
    assert all(entry.size_bytes > 0 and entry.duration_ms >= 0 for entry in history)
