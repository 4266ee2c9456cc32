"""A job's checkpoints end as traces in the Jaeger file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.datastream import CheckpointListener, KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor

logger = logging.getLogger("tidegate.tests.checkpoints")


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class LogsItsCheckpoints(Count, CheckpointListener):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value % 1_000 == 0:
            logger.info("a record")
        yield from super().process_element(value, ctx)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        logger.info("committed")


class CannotBeStored:
    """Fits no column and cannot be pickled either."""

    def __reduce__(self) -> Any:
        raise TypeError("not for storage")


class KeepsTheUnstorable(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.kept.update(CannotBeStored())


def run(tmp_path: Path, function: KeyedProcessFunction, parallelism: int) -> list[dict[str, Any]]:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("execution.checkpointing.tolerable-failed-checkpoints", "2")
    configuration.set_string("restart-strategy.type", "none")
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    configuration.set_string("tidegate.trace.file", str(tmp_path / "traces.json"))
    configuration.set_string("env.log.dir", str(tmp_path / "logs"))
    configuration.set_string("tidegate.log.format", "JSON")
    configuration.set_string("tidegate.batch.size", "50")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    numbers = env.from_source(
        NumberSequenceSource(0, 20_000), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    numbers.key_by(lambda n: n % 7).process(function).uid("count").add_sink(lambda record: None)
    client = env.execute_async("traced")
    client.wait()
    data: list[dict[str, Any]] = json.loads((tmp_path / "traces.json").read_text())["data"]
    return data


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def test_every_checkpoint_is_one_trace_with_the_parts_of_every_subtask(tmp_path: Path) -> None:
    traces = run(tmp_path, Count(), parallelism=2)
    assert traces
    for trace in traces:
        (root,) = [span for span in trace["spans"] if not span["references"]]
        assert root["operationName"] == "checkpoint"
        checkpoint_ids = {tags(span)["checkpoint.id"] for span in trace["spans"]}
        assert len(checkpoint_ids) == 1
        parts = [
            (span["operationName"], tags(span).get("operator.uid"), tags(span).get("subtask.index"))
            for span in trace["spans"]
            if span is not root
        ]
        for subtask in (0, 1):
            for uid in ("numbers", "count"):
                assert ("checkpoint.sync", uid, subtask) in parts
                assert ("checkpoint.async", uid, subtask) in parts
            assert ("checkpoint.alignment", "count", subtask) in parts
        assert len([name for name, *_ in parts if name == "checkpoint.acknowledge"]) == 4
        assert_nested(trace)


def assert_nested(trace: dict[str, Any]) -> None:
    """Every span but the root lies within its parent. Jaeger's times are whole microseconds."""
    spans = {span["spanID"]: span for span in trace["spans"]}
    for span in trace["spans"]:
        for reference in span["references"]:
            parent = spans[reference["spanID"]]
            assert parent["startTime"] <= span["startTime"]
            assert span["startTime"] + span["duration"] <= parent["startTime"] + parent["duration"] + 1


def test_an_aborted_checkpoint_ends_as_an_error_with_its_reason(tmp_path: Path) -> None:
    traces = run(tmp_path, KeepsTheUnstorable(), parallelism=1)
    roots = [span for trace in traces for span in trace["spans"] if not span["references"]]
    failed = [tags(root) for root in roots if tags(root).get("error")]
    assert failed
    assert all("could not store its snapshot" in root["checkpoint.abort_reason"] for root in failed)
    assert any("not for storage" in root["checkpoint.abort_reason"] for root in failed)


def test_lines_of_functions_and_of_the_coordinator_about_a_checkpoint_carry_its_trace(
    tmp_path: Path,
) -> None:
    traces = {trace["traceID"] for trace in run(tmp_path, LogsItsCheckpoints(), parallelism=1)}
    (path,) = (tmp_path / "logs").iterdir()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert {line.get("trace_id") for line in lines if line["message"] == "a record"} == {None}
    completed = [line["trace_id"] for line in lines if " is complete after " in line["message"]]
    assert completed
    assert set(completed) <= traces
    committed = [line["trace_id"] for line in lines if line["message"] == "committed"]
    assert set(committed) == set(completed)
