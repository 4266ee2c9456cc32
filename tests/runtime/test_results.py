"""Collected records leave a task within the driver's credit."""

from __future__ import annotations

from tidegate.operators.elementwise import MapOperator
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import JobId
from tidegate.protocol.task_events import ResultsCollected
from tidegate.runtime.collected_results import CoordinatorResults
from tidegate.runtime.ports import TaskDeployment

from .fakes import ATTEMPT, RECORD_BYTES, FakePorts, subtask_of, task_settings


def test_offers_use_credit_up_until_the_driver_takes_them() -> None:
    ports = FakePorts()
    subtask = subtask_of([MapOperator(str)])
    settings = task_settings(result_credit_bytes=3 * RECORD_BYTES)
    results = CoordinatorResults(TaskDeployment(JobId("job"), ATTEMPT, 0, subtask, settings, None), ports)
    assert results.has_credit()
    results.offer("a", [1, 2])
    results.offer("b", [3])
    assert not results.has_credit()
    assert results.unconfirmed() == 2
    first, second = ports.reported(ResultsCollected)
    assert (first.attempt, first.subtask, first.key) == (ATTEMPT, subtask.subtask_id, "a")
    assert list(second.values) == [Batch([3])]
    results.taken(first.size_bytes)
    assert results.has_credit()
    assert results.unconfirmed() == 1
