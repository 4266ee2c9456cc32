"""The Spark jobs of an epoch are spans in the trace of its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from . import jobs

PARTS = ("spark.input", "spark.run", "spark.output")

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def test_an_epoch_and_its_jobs_lie_within_the_preparation_of_its_subtask(tmp_path: Path) -> None:
    env = jobs.environment(tmp_path, {"tidegate.trace.file": str(tmp_path / "traces.json")})
    stream = env.from_collection([{"id": number} for number in range(6)])

    def counted(frame: Any) -> Any:
        return frame.groupBy((frame.id % 2).alias("id")).count().select("id")

    stream.spark_stage(counted, jobs.NUMBERS, input_schema=pa.schema([("id", pa.int64())])).add_sink(
        lambda record: None
    )
    env.execute("counted")
    spans = {
        span["spanID"]: span
        for trace in json.loads((tmp_path / "traces.json").read_text("utf-8"))["data"]
        for span in trace["spans"]
    }

    def parent(span: dict[str, Any]) -> dict[str, Any]:
        return spans[span["references"][0]["spanID"]]

    def parent_id(span: dict[str, Any]) -> str | None:
        return span["references"][0]["spanID"] if span["references"] else None

    epochs = [span for span in spans.values() if span["operationName"] == "spark.epoch"]
    assert sum(tags(epoch)["spark.records"] for epoch in epochs) == 6
    assert {parent(epoch)["operationName"] for epoch in epochs} == {"checkpoint.prepare"}
    assert {tags(epoch)["subtask.index"] for epoch in epochs} == {0}
    jobs_of_spark = [span for span in spans.values() if span["operationName"] == "spark.job"]
    assert jobs_of_spark
    for job in jobs_of_spark:
        assert parent(job)["operationName"] == "spark.run"
        assert parent(job)["startTime"] <= job["startTime"]
        assert job["startTime"] + job["duration"] <= parent(job)["startTime"] + parent(job)["duration"] + 1
        assert tags(job)["spark.stages"] >= 1
        assert tags(job)["spark.tasks"] >= 1
    assert len({tags(job)["spark.job_id"] for job in jobs_of_spark}) == len(jobs_of_spark)
    for epoch in epochs:
        parts = [span for span in spans.values() if parent_id(span) == epoch["spanID"]]
        assert sorted(part["operationName"] for part in parts) == sorted(PARTS)
        assert tags(epoch)["spark.epoch_number"] >= 1
        for part in parts:
            assert epoch["startTime"] <= part["startTime"]
            assert part["startTime"] + part["duration"] <= epoch["startTime"] + epoch["duration"] + 1
