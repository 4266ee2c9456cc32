"""Slot sharing groups, and files that travel with a job, in processes of a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import MapFunction, RuntimeContext, SlotSharingGroup, StreamExecutionEnvironment

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")


class Visit(MapFunction):
    """Adds the process that it runs in and what the job brought along to a record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        from tidegate_test_ray_module import answer

        path = runtime_context.get_distributed_cache().get_file("rates")
        self.found = (os.getpid(), answer, Path(path).read_text())

    def map(self, value: Any) -> Any:
        return value, self.found


def environment(directory: Path) -> StreamExecutionEnvironment:
    configuration = jobs.configuration(directory, parallelism=1, interval_ms=None)
    configuration.set_string("tidegate.slot.cpus", "0.2")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def group(name: str, cpus: float) -> SlotSharingGroup:
    return SlotSharingGroup.builder(name).set_cpu_cores(cpus).set_task_heap_memory_mb(64).build()


def test_each_group_has_processes_of_its_own_which_get_the_files(tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("1.5")
    (tmp_path / "tidegate_test_ray_module.py").write_text("answer = 42\n")
    env = environment(tmp_path)
    env.register_cached_file(str(tmp_path / "rates.txt"), "rates")
    env.add_python_file(str(tmp_path / "tidegate_test_ray_module.py"))
    first = env.from_collection([0]).map(Visit()).slot_sharing_group(group("small", 0.2))
    second = first.map(Visit()).slot_sharing_group(group("large", 0.3))
    ((inner, (second_pid, *second_found)),) = second.execute_and_collect()
    _, (first_pid, *first_found) = inner
    assert first_found == second_found == [42, "1.5"]
    assert len({first_pid, second_pid, os.getpid()}) == 3


def test_a_group_that_no_cluster_can_hold_is_refused(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.from_collection([0]).slot_sharing_group(group("huge", 1_000)).add_sink(print)
    with pytest.raises(JobExecutionError, match=r"asks for 1000\S* CPUs .*what slot sharing groups take"):
        env.execute()


def test_the_python_of_a_job_is_chosen_before_the_driver_connects(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.set_python_executable("/opt/python")
    env.from_collection([0]).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"runtime_env=\{'py_executable': '/opt/python'\}"):
        env.execute()
