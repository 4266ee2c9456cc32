"""A job on Ray whose Spark session cannot start, since its executor requires more CPUs than there are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest
from tidegate.common import Configuration
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import StreamExecutionEnvironment

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def same(frame: Any) -> Any:
    return frame


def test_a_session_that_cannot_start_fails_the_job_and_leaves_no_process(
    tmp_path: Path, ray_cluster: Any
) -> None:
    cpus = 10 * ray_cluster.num_cpus
    options = {
        "execution.target": "ray",
        "tidegate.local-dir": str(tmp_path / "local"),
        "tidegate.spark.log-dir": str(tmp_path / "spark-logs"),
        "tidegate.spark.executor-memory": "512m",
        "tidegate.spark.conf": f"spark.ray.raydp_spark_executor.actor.resource.cpu:{cpus}",
        # Less than a start takes anywhere, so that the result does not depend on the machine.
        "tidegate.spark.start-timeout": "3 s",
        "restart-strategy.type": "none",
    }
    before = set(jobs.java_processes())
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        stage = env.from_collection([(1,), (2,)]).spark_stage(same, jobs.NUMBERS, jobs.NUMBERS).name("join")
        with pytest.raises(JobExecutionError) as failed, stage.execute_and_collect() as results:
            list(results)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    cause = str(failed.value).partition("\n\n")[0]
    for words in (
        "join (1/1)",
        "no Spark executor started within 3 s: ",
        f"requires 512m of memory and {cpus} CPUs",
        "raise tidegate.spark.start-timeout",
    ):
        assert words in cause
    _gone, alive = psutil.wait_procs(set(jobs.java_processes()) - before, timeout=jobs.WAIT_S)
    assert alive == []
