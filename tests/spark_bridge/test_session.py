"""The session survives a restart of the job, or is replaced. Its Java is killed here, so these come last."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import psutil
import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.protocol.stages.epochs import EpochLimits
from tidegate.spark_bridge.launch import warm_up_query
from tidegate.spark_bridge.session import SparkSessionError, SparkSessionHost, session_host
from tidegate.spark_bridge.stage import SparkStageOperator, StageSettings

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

COUNT = 1_000


class FailsOnce:
    """Lets a source read on half way after its second snapshot, but the first time does `action` instead."""

    def __init__(self, directory: Path, action: Callable[[], None]) -> None:
        self._flag = directory / "failed"
        self._action = action

    def __call__(self, snapshots: int, start: int) -> int:
        if start:
            self._flag.with_name("resumed").write_text(str(start))
        if snapshots > 1 and not self._flag.exists():
            self._flag.touch()
            self._action()
        return jobs.NO_LIMIT if self._flag.exists() else COUNT // 2

    def resumed_at(self) -> int:
        return int(self._flag.with_name("resumed").read_text())


def run_with(tmp_path: Path, limit: FailsOnce) -> list[Any]:
    """The rows of a Spark source and a stage in a job that fails half way."""
    source = jobs.HeldSparkSource(lambda spark: spark.range(COUNT), jobs.SPARK, limit)
    numbers = jobs.environment(tmp_path).from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    stage = numbers.uid("numbers").spark_stage(lambda frame: frame, jobs.NUMBERS, jobs.NUMBERS).uid("stage")
    with stage.execute_and_collect() as results:
        return list(results)


def test_a_restarted_job_goes_on_at_its_position_in_the_live_session(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("another task failed")

    limit = FailsOnce(tmp_path, fail)
    before = jobs.java_pid()
    assert run_with(tmp_path, limit) == [(n,) for n in range(COUNT)]
    assert limit.resumed_at() == COUNT // 2
    assert jobs.java_pid() == before


def test_a_restarted_job_gets_a_new_session_when_its_java_was_killed(tmp_path: Path) -> None:
    pid = jobs.java_pid()

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)

    assert run_with(tmp_path, FailsOnce(tmp_path, kill)) == [(n,) for n in range(COUNT)]
    assert not psutil.pid_exists(pid)
    assert jobs.java_pid() != pid


def kills_java(frame: Any) -> Any:
    from pyspark.sql import functions

    os.kill(frame.sparkSession.sparkContext._gateway.proc.pid, signal.SIGKILL)
    return frame.select(functions.col("id"))


def test_a_stage_whose_java_is_killed_reports_a_lost_session() -> None:
    session_host().acquire(jobs.SPARK).release()
    pid = jobs.java_pid()
    env = jobs.environment(options={"restart-strategy.type": "none"})
    stage = env.from_collection([(1,)]).spark_stage(kills_java, jobs.NUMBERS, jobs.NUMBERS).name("stage")
    with pytest.raises(JobExecutionError) as failed, stage.execute_and_collect() as results:
        list(results)
    cause = str(failed.value).partition("\n\n")[0]
    for words in (
        "operator stage (1/1), epoch 1: the Spark session was lost: ",
        f"its Java process {pid} was killed by SIGKILL",
        f"{jobs.SPARK.log_dir}/spark-{os.getpid()}.log",
    ):
        assert words in cause
    assert "does not exist in the JVM" not in cause
    assert Path(jobs.SPARK.log_dir, f"spark-driver-{os.getpid()}.out").exists()


def test_a_session_that_dies_in_every_attempt_ends_the_job_and_a_later_one_loses_nothing(
    tmp_path: Path,
) -> None:
    checkpoints, deaths = tmp_path / "checkpoints", tmp_path / "deaths"

    def dies_after_a_checkpoint(frame: Any) -> Any:
        before = newest_checkpoint(checkpoints)
        while newest_checkpoint(checkpoints) == before:
            threading.Event().wait(0.01)
        with deaths.open("ab") as file:
            file.write(b"x")
        return kills_java(frame)

    options = {
        "restart-strategy.fixed-delay.attempts": "1",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    with pytest.raises(JobExecutionError) as failed:
        numbers_through(dies_after_a_checkpoint, jobs.environment(tmp_path, options))
    cause = str(failed.value).partition("\n\n")[0]
    assert "operator stage (1/1), epoch 1: the Spark session was lost: " in cause
    assert "was killed by SIGKILL" in cause
    assert deaths.read_bytes() == b"xx"
    path = {"execution.state-recovery.path": str(newest_checkpoint(checkpoints))}
    resumed = numbers_through(lambda frame: frame, jobs.environment(tmp_path, path))
    assert resumed == [(n,) for n in range(COUNT)]


def newest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint that was completed last."""
    # `Path.glob` fails for a directory that the job deletes meanwhile.
    paths = map(Path, glob(f"{directory}/*/chk-*/MANIFEST"))
    found = {int(path.parent.name[4:]): path.parent for path in paths}
    return found[max(found)] if found else None


def numbers_through(function: Callable[[Any], Any], env: StreamExecutionEnvironment) -> list[Any]:
    """What a stage with this function makes of some numbers."""
    source = env.from_collection([(n,) for n in range(COUNT)]).uid("numbers")
    stage = source.spark_stage(function, jobs.NUMBERS, jobs.NUMBERS).name("stage").uid("stage")
    with stage.execute_and_collect() as results:
        return list(results)


def test_a_session_with_other_settings_has_to_wait_for_the_jobs_that_use_it() -> None:
    other = replace(jobs.SPARK, executor_cores=2)
    with_one_core = session_host().acquire(jobs.SPARK)
    assert with_one_core.session().sparkContext.defaultParallelism == 1
    with pytest.raises(SparkSessionError, match="Give both jobs the same settings"):
        session_host().acquire(other)
    with_one_core.release()
    with pytest.raises(SparkSessionError, match="has released"):
        with_one_core.session()
    with_two_cores = session_host().acquire(other)
    assert with_two_cores.session().sparkContext.defaultParallelism == 2
    with_two_cores.release()


def test_the_query_that_warms_a_session_up_is_valid() -> None:
    lease = session_host().acquire(jobs.SPARK)
    assert [tuple(row) for row in warm_up_query(lease.session()).collect()] == [(2, "n2"), (3, "n3")]
    lease.release()


def test_a_search_for_a_table_leaves_nothing_in_the_working_directory() -> None:
    lease = session_host().acquire(jobs.SPARK)
    session = lease.session()
    assert not session.catalog.tableExists("no_such_table")
    created = Path(session.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    lease.release()
    assert created.is_dir()
    assert created.parent == Path(jobs.SPARK.log_dir).resolve()


def test_a_session_of_somebody_else_is_left_alone() -> None:
    host = SparkSessionHost()
    lease = host.acquire(jobs.SPARK)
    with pytest.raises(SparkSessionError, match=r"has a Spark session already.*stop\(\)"):
        lease.session()
    host.stop()
    assert psutil.pid_exists(jobs.java_pid())


def test_a_session_that_does_not_start_in_time_fails_the_attempt() -> None:
    settings = replace(jobs.SPARK, start_timeout_s=0.01)
    operator = SparkStageOperator(
        lambda frame: frame, jobs.NUMBERS, StageSettings(settings, jobs.NUMBERS, EpochLimits(10, 0))
    )
    stage = jobs.StageUnderTest(operator)
    stage.process([(1,)])
    with pytest.raises(SparkSessionError, match=r"within 0\.01 s; look at Spark's log .*start-timeout"):
        stage.take_mail()
    stage.operator.close()
    # It starts all the same, and the next attempt uses it.
    lease = session_host().acquire(settings)
    assert lease.session() is not None
    lease.release()
