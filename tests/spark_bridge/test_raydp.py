"""A job with Spark on Ray, through RayDP: exact results although processes are killed, and nothing left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pyarrow as pa
import pytest
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.settings.spark_settings import spark_settings

from . import jobs

# Three sessions of three Java processes: 90 seconds on two cores, four minutes when others keep them busy.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

COUNT = 2_000
STEP = 500
OUTPUT = pa.schema(
    [
        ("id", pa.int64()),
        ("source_application", pa.string()),
        ("stage_application", pa.string()),
        ("task_pid", pa.int64()),
        ("executor", pa.string()),
    ]
)


@pytest.fixture(autouse=True)
def _functions_travel_by_value(ray_cluster: Any) -> Iterator[None]:
    """The workers of the cluster cannot import test modules."""
    modules = [sys.modules[__name__], jobs]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


def configuration(directory: Path) -> Configuration:
    options = {
        "execution.target": "ray",
        "tidegate.local-dir": str(directory / "local"),
        "tidegate.spark.log-dir": str(directory / "spark-logs"),
        "tidegate.spark.executor-memory": "512m",
        # Three executors run for some seconds each: compiling less halves what they cost.
        "tidegate.spark.conf": "spark.executor.extraJavaOptions:'-XX:TieredStopAtLevel=1'",
        # The slot takes every CPU of the cluster, as those of a job may; Spark has to start all the same.
        "tidegate.slot.cpus": "4",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
    }
    settings = Configuration()
    for key, value in options.items():
        settings.set_string(key, value)
    return settings


def open_gate(gate: Path, limit: int) -> None:
    """Let the source read up to a limit. It reads the file all the time, and must never find it empty."""
    written = gate.with_suffix(".new")
    written.write_text(str(limit))
    written.replace(gate)


def rows(spark: Any) -> Any:
    return spark.range(COUNT).selectExpr("id", f"'{spark.sparkContext.applicationId}' as source_application")


def kills_its_executor(directory: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Kills the Java of its executor while it reads the epoch, and the next one while it pushes results."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = int(daemon.rpartition(")")[2].split()[1])
        for number, batch in enumerate(batches):
            for moment, place in (("reading", 0), ("pushing", 3)):
                if number == place and not (directory / moment).exists():
                    (directory / moment).touch()
                    os.kill(executor, signal.SIGKILL)
            yield batch

    return run


def who_runs_it(frame: Any, directory: Path) -> Any:
    frame = frame.mapInArrow(kills_its_executor(directory), frame.schema)
    application = frame.sparkSession.sparkContext.applicationId
    return frame.selectExpr(
        "id",
        "source_application",
        f"'{application}' as stage_application",
        f"{os.getpid()}L as task_pid",
        "java_method('java.lang.ProcessHandle', 'current') as executor",
    )


def left_behind_executor() -> Any:
    """An actor as a lost session may leave it: with the name that the next executor has to get."""
    import ray

    @ray.remote(num_cpus=0)
    class Executor:
        def is_there(self) -> bool:
            return True

    made = Executor.options(name="raydp-executor-0").remote()  # type: ignore[attr-defined]
    assert ray.get(made.is_there.remote())
    return made


def kill_app_master() -> None:
    """Kill the application master; the driver's Java lives on without executors."""
    import ray

    for actor in ray._private.state.actors().values():
        if actor["Name"] == "RAY_APP_MASTER" and actor["State"] == "ALIVE":
            os.kill(actor["Pid"], signal.SIGKILL)


def test_results_are_exact_although_parts_of_the_session_are_killed(tmp_path: Path, ray_cluster: Any) -> None:
    import ray

    settings = configuration(tmp_path)
    gate = tmp_path / "may-read-up-to"
    open_gate(gate, STEP)
    java = set(jobs.java_processes())
    others = set(java)
    left_behind = left_behind_executor()

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = jobs.HeldSparkSource(rows, spark_settings(settings), lambda *_: int(gate.read_text()))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
    input_schema = pa.schema([OUTPUT.field("id"), OUTPUT.field("source_application")])
    # Results of an epoch are five batches.
    configs = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(STEP // 5)}
    function = partial(who_runs_it, directory=tmp_path)
    stage = stream.spark_stage(function, OUTPUT, input_schema, configs=configs).uid("stage")
    stage.sink_to_spark(lambda frame: frame.select("id").write.format("csv"), str(tmp_path / "out"))
    with stage.execute_and_collect() as results:
        records = list(islice(results, STEP))
        assert (tmp_path / "reading").exists()
        assert (tmp_path / "pushing").exists()
        os.kill(int(records[-1][4]), signal.SIGKILL)
        open_gate(gate, 2 * STEP)
        records += islice(results, STEP)
        java.update(jobs.java_processes())
        os.kill(records[-1][3], signal.SIGKILL)
        open_gate(gate, 3 * STEP)
        records += islice(results, STEP)
        java.update(jobs.java_processes())
        kill_app_master()
        open_gate(gate, jobs.NO_LIMIT)
        records += islice(results, STEP)
        java.update(jobs.java_processes())
        records += results

    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(left_behind.is_there.remote())
    assert [record[0] for record in records] == list(range(COUNT))
    written = [part.read_text().split() for part in (tmp_path / "out").glob("epoch=*/*.csv")]
    assert sorted(int(number) for numbers in written for number in numbers) == list(range(COUNT))
    assert all(record[1] == record[2] for record in records), "source and stage had a session each"
    applications, pids, executors = (len({record[column] for record in records}) for column in (2, 3, 4))
    assert (applications, pids, executors) == (3, 2, 4)
    assert len(java - others) == 9, "three sessions of three Java processes each"
    _gone, alive = psutil.wait_procs(java - others, timeout=jobs.WAIT_S)
    assert alive == []
    # Runs only where nothing of the job holds a CPU any more.
    everything = ray.remote(num_cpus=ray_cluster.num_cpus)(lambda: True)
    assert ray.get(everything.remote(), timeout=jobs.WAIT_S)


def with_web_ui(frame: Any) -> Any:
    """The numbers, and the address at which Spark's web UI listens."""
    context = frame.sparkSession.sparkContext
    port = int(context.uiWebUrl.rpartition(":")[2])
    java = psutil.Process(context._gateway.proc.pid)
    listening = [each.laddr for each in java.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    (address,) = [each.ip.removeprefix("::ffff:") for each in listening if each.port == port]
    return frame.repartition(4).selectExpr("id", f"'{address}' as address")


def test_processes_of_a_stage_share_each_epoch_although_one_is_killed(tmp_path: Path) -> None:
    settings = configuration(tmp_path)
    settings.set_string("tidegate.slot.cpus", "1")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    killed = tmp_path / "killed"

    def kill_once(row: Any) -> Any:
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    numbers = env.from_collection([(n,) for n in range(COUNT)]).rebalance()
    schema = pa.schema([("id", pa.int64()), ("address", pa.string())])
    stage = numbers.spark_stage(with_web_ui, schema, jobs.NUMBERS).set_parallelism(2).uid("stage")
    with stage.map(kill_once).set_parallelism(2).execute_and_collect() as results:
        found = [tuple(row) for row in results]
    assert killed.exists()
    assert sorted(number for number, _ in found) == list(range(COUNT))
    assert {address for _, address in found} == {"127.0.0.1"}
