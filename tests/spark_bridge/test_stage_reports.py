"""What a stage reports about its epochs on a real session, and what Spark's web UI shows of them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import psutil
import pytest
from tidegate.protocol.stages.epochs import EpochLimits
from tidegate.spark_bridge.session import session_host
from tidegate.spark_bridge.stage import SparkStageOperator, StageSettings

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]


def jobs_in_web_ui() -> list[dict[str, Any]]:
    """All jobs of this process's session, by the REST API of Spark's web UI."""
    spark = session_host().session().sparkContext
    # What the UI shows follows the events of the jobs.
    spark._jsc.sc().listenerBus().waitUntilEmpty(jobs.WAIT_S * 1_000)
    address = f"{spark.uiWebUrl}/api/v1/applications/{spark.applicationId}/jobs"
    with urllib.request.urlopen(address, timeout=jobs.WAIT_S) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def test_the_description_of_a_spark_job_names_the_operator_and_the_epoch() -> None:
    env = jobs.environment(options={"tidegate.batch.size": "10"})
    stream = env.from_collection([(n,) for n in range(25)])
    stage = stream.spark_stage(lambda frame: frame, jobs.NUMBERS, jobs.NUMBERS, max_epoch_records=10)
    with stage.name("described").execute_and_collect() as results:
        assert len(list(results)) == 25
    shown = [job["description"] for job in jobs_in_web_ui() if "described" in job.get("description", "")]
    assert sorted(set(shown)) == [f"described (1/1): epoch {number}" for number in (1, 2, 3)]


def test_a_stage_reports_its_run_and_the_address_of_sparks_web_ui() -> None:
    settings = StageSettings(jobs.SPARK, jobs.NUMBERS, EpochLimits(3, 1_000))
    stage = jobs.StageUnderTest(SparkStageOperator(lambda frame: frame, jobs.NUMBERS, settings))
    stage.take_mail()
    stage.process([(1,), (2,), (3,)])
    report = stage.operator.stage_report()
    assert report is not None
    assert (report.running.epochs, report.running.records, report.running.first) == (1, 3, 1)
    assert (report.records_in, report.records_out) == (3, 0)
    stage.take_mail()
    report = stage.operator.stage_report()
    assert report is not None
    assert (report.epochs, report.records_out, report.runs.epochs) == ((), 3, 1)
    with urllib.request.urlopen(f"{report.web_ui}/jobs/", timeout=jobs.WAIT_S) as answer:
        assert b"Spark Jobs" in answer.read()
    stage.operator.close()


def test_sparks_web_ui_listens_on_loopback_alone_and_kills_no_jobs() -> None:
    spark = session_host().session().sparkContext
    port = int(session_host().web_ui.rpartition(":")[2])
    assert session_host().web_ui == f"http://127.0.0.1:{port}"
    listening = [
        each.laddr.ip
        for each in psutil.Process(jobs.java_pid()).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port
    ]
    assert [ip.removeprefix("::ffff:") for ip in listening] == ["127.0.0.1"]
    assert spark.getConf().get("spark.ui.killEnabled") == "false"
