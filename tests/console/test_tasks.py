"""What `tidegate status` tells of the tasks of a job."""

from __future__ import annotations

import pytest
from tidegate.common import Configuration
from tidegate.console.tasks import task_documents
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import StreamExecutionEnvironment


@pytest.fixture
def finished() -> JobClient:
    configuration = Configuration.from_dict({"execution.target": "local", "parallelism.default": "2"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_collection(range(10)).name("numbers")
    numbers.key_by(lambda number: number % 2).sum().name("totals").add_sink(lambda number: None).name("out")
    client = env.execute_async("told")
    client.wait()
    return client


def test_operators_of_a_task_come_together_with_all_their_subtasks(finished: JobClient) -> None:
    tasks = task_documents(finished.details())
    assert [(task["name"], task["parallelism"]) for task in tasks] == [
        ("Source: numbers", 1),
        ("totals -> Sink: out", 2),
    ]
    assert [task["states"] for task in tasks] == [{"FINISHED": 1}, {"FINISHED": 2}]
    assert [len(task["subtasks"]) for task in tasks] == [1, 2]
