"""A task that does not see the coordinator's checkpoint directory says so before it runs."""

from __future__ import annotations

import pytest
from tidegate.operators.elementwise import MapOperator
from tidegate.protocol import task_events as events
from tidegate.runtime.tasks.task import TaskPhase
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import TaskUnderTest, subtask_of


def task(storage: MemoryCheckpointStorage, attempt_number: int = 0) -> TaskUnderTest:
    subtask = subtask_of([MapOperator(lambda value: value)])
    test = TaskUnderTest(
        subtask, None, attempt_number, storage=storage, storage_probe="epochs/4", local_dir="/nonexistent"
    )
    test.task.initialize()
    return test


@pytest.mark.parametrize(("attempt_number", "may_help"), [(0, False), (1, True)])
def test_a_directory_that_is_not_shared_ends_the_job_unless_it_has_worked_before(
    attempt_number: int, may_help: bool
) -> None:
    elsewhere = MemoryCheckpointStorage()
    elsewhere.write_file("epochs/0", b"")
    test = task(elsewhere, attempt_number)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert failed.is_recoverable == may_help
    assert "do not share the checkpoint directory; set execution.checkpointing.dir" in failed.cause
    assert not test.ports.reported(events.TaskInitialized)


def test_a_task_that_sees_the_coordinators_file_starts() -> None:
    shared = MemoryCheckpointStorage()
    shared.write_file("epochs/4", b"")
    test = task(shared)
    assert test.task.phase is TaskPhase.INITIALIZED
