"""What Spark's web UI shows of a stage's epochs."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from tidegate.spark_bridge.session import session_host

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
