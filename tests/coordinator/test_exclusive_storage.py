"""Exactly-once needs storage in which only one of two coordinators can create a file."""

from __future__ import annotations

import logging

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.barrier_mode import BarrierMode
from tidegate.coordinator.deployment.validation import validate_before_start
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.protocol.elements import CheckpointingMode
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, check_exclusive, register_scheme
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import FakeCluster, job_spec


class ReplacingStorage(MemoryCheckpointStorage):
    """Ignores the condition of a write, as object stores do that do not know it."""

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self.write_file(path, data)
        return True

    def sub(self, prefix: str) -> CheckpointStorage:
        return ReplacingStorage(f"{self.uri.removeprefix('memory://')}/{prefix}")


@pytest.fixture
def replacing() -> str:
    storage = ReplacingStorage()
    register_scheme("replacing", lambda path: storage.sub(path) if path else storage)
    return "replacing://"


def test_a_store_that_ignores_the_condition_is_refused_before_an_exactly_once_job_starts(
    replacing: str,
) -> None:
    spec = job_spec(checkpoint_dir=replacing, mode=CheckpointingMode.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match=r"memory://.*exactly-once.*replaces a file.*AT_LEAST_ONCE"):
        validate_before_start(spec)


def test_an_at_least_once_job_may_use_any_storage(caplog: pytest.LogCaptureFixture) -> None:
    register_scheme("racing", lambda path: FileSystemCheckpointStorage(f"memory://{path}"))
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": "racing://place",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, 2]).uid("numbers").print()
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert env.execute("job").report.status is JobStatus.FINISHED
    assert "memory:// cannot create a file only if" in caplog.text
    assert "checkpoints may be lost" in caplog.text


def test_a_coordinator_checks_its_own_storage() -> None:
    spec = job_spec(mode=CheckpointingMode.EXACTLY_ONCE)
    cluster = FakeCluster(spec, ReplacingStorage())
    cluster.coordinator.start()
    assert cluster.coordinator.status is JobStatus.FAILED
    assert "replaces a file" in str(cluster.coordinator.failure)


def test_a_running_job_cannot_become_exactly_once_on_such_a_storage() -> None:
    cluster = FakeCluster(job_spec(mode=CheckpointingMode.AT_LEAST_ONCE), ReplacingStorage()).run()
    problem = cluster.requests.set_barrier_mode(BarrierMode(CheckpointingMode.EXACTLY_ONCE))
    assert "replaces a file" in problem


def test_a_file_system_without_conditional_writes_is_named() -> None:
    storage = FileSystemCheckpointStorage("memory://checkpoints")
    storage.write_file("epochs/0", b"")
    with pytest.raises(ConfigurationError, match=r"memory://.*cannot create a file only if.*s3:// or gs://"):
        check_exclusive(storage, "epochs/0")


def test_an_address_with_a_password_is_masked() -> None:
    class Secret(ReplacingStorage):
        @property
        def uri(self) -> str:
            return "s3://user:hunter2@bucket/x"

    with pytest.raises(ConfigurationError) as caught:
        check_exclusive(Secret(), "epochs/0")
    assert "hunter2" not in str(caught.value)
