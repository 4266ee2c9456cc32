"""An exception in any method of the user's ends the job with one error that says where it happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import (
    Committer,
    DataStream,
    MapFunction,
    ProcessFunction,
    Sink,
    SinkFunction,
    SinkWriter,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.protocol.elements import Batch

from . import programs

CAUSE = "ValueError: boom"


def boom(*_: object) -> Any:
    raise ValueError("boom")


def ignore(_: object) -> None:
    """A sink that takes anything."""


class MapThatFails(MapFunction):
    def __init__(self, method: str) -> None:
        self._method = method

    def open(self, runtime_context: object) -> None:
        if self._method == "open":
            boom()

    def map(self, value: Any) -> Any:
        return value if value != 3 or self._method != "map" else boom()

    def close(self) -> None:
        if self._method == "close":
            boom()


class ProcessThatFails(ProcessFunction):
    def process_element(self, value: Any, ctx: object) -> Any:
        yield value if value != 3 else boom()


class SourceThatFails(Source):
    """Gives 1 to 5 and then nothing for ever, so that the job lives until a checkpoint was tried."""

    def __init__(self, method: str) -> None:
        self._method = method

    def create_splits(self, parallelism: int) -> list[Any]:
        return boom() if self._method == "create_splits" else [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return ReaderThatFails(self._method)

    def max_source_parallelism(self) -> int:
        return 1


class ReaderThatFails(SourceReader):
    def __init__(self, method: str) -> None:
        self._method = method
        self._polls = 0

    def open(self, context: object) -> None:
        if self._method == "open":
            boom()

    def poll(self, max_records: int) -> Batch | None:
        self._polls += 1
        if self._method == "poll" and self._polls == 2:
            boom()
        if self._method == "close":
            return None
        return Batch([1, 2, 3, 4, 5] if self._polls == 1 else [])

    def snapshot_state(self) -> list[Any]:
        return boom() if self._method == "snapshot_state" else [0]

    def close(self) -> None:
        if self._method == "close":
            boom()


class SinkThatFails(Sink, SinkWriter, Committer):
    """Sink, writer and committer in one; one of its methods fails."""

    def __init__(self, method: str) -> None:
        self._method = method

    def _maybe(self, method: str) -> None:
        if self._method == method:
            boom()

    def create_writer(self) -> SinkWriter:
        self._maybe("create_writer")
        return self

    def create_committer(self) -> Committer:
        return self

    def open(self, context: object) -> None:
        self._maybe("open")

    def write_batch(self, values: list[Any]) -> None:
        self._maybe("write_batch")

    def prepare_commit(self) -> list[Any]:
        self._maybe("prepare_commit")
        return ["committable"]

    def commit(self, committables: list[Any]) -> None:
        self._maybe("commit")

    def close(self) -> None:
        self._maybe("close")


class SinkFunctionThatFails(SinkFunction):
    def invoke(self, value: Any) -> None:
        if value == 3:
            boom()


@dataclass(frozen=True)
class Case:
    """`build` makes the failing operator and names it `culprit`; `says` must be in the error."""

    name: str
    build: Callable[[StreamExecutionEnvironment], Any]
    says: tuple[str, ...]


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3, 4, 5])


def source(method: str) -> Callable[[StreamExecutionEnvironment], Any]:
    return lambda env: env.from_source(
        SourceThatFails(method), WatermarkStrategy.no_watermarks(), "culprit"
    ).add_sink(print)


def sink(method: str) -> Callable[[StreamExecutionEnvironment], Any]:
    return lambda env: numbers(env).sink_to(SinkThatFails(method)).name("culprit")


def mapped(function: Any) -> Callable[[StreamExecutionEnvironment], Any]:
    return lambda env: numbers(env).map(function).name("culprit").add_sink(ignore)


ON_RECORD = "on the record 3"
CASES = [
    Case("map open", mapped(MapThatFails("open")), ("open()",)),
    Case("map map", mapped(MapThatFails("map")), ("map()", ON_RECORD)),
    Case("map close", mapped(MapThatFails("close")), ("close()",)),
    Case(
        "filter",
        lambda env: numbers(env).filter(lambda n: n != 3 or boom()).name("culprit").add_sink(ignore),
        ("filter()", ON_RECORD),
    ),
    Case(
        "flat_map",
        lambda env: (
            numbers(env).flat_map(lambda n: [n] if n != 3 else boom()).name("culprit").add_sink(ignore)
        ),
        ("flat_map()", ON_RECORD),
    ),
    Case(
        "process",
        lambda env: numbers(env).process(ProcessThatFails()).name("culprit").add_sink(ignore),
        ("process_element()", ON_RECORD),
    ),
    Case(
        "keyed process",
        lambda env: (
            numbers(env).key_by(lambda n: n).process(programs.CountPerKey(3)).name("culprit").add_sink(ignore)
        ),
        ("process_element()", ON_RECORD),
    ),
    Case(
        "key selector",
        lambda env: (
            numbers(env)
            .map(lambda n: n)
            .name("culprit")
            .key_by(lambda n: n if n != 3 else boom())
            .process(programs.CountPerKey())
            .add_sink(ignore)
        ),
        ("the key selector", ON_RECORD),
    ),
    Case(
        "reduce",
        lambda env: (
            numbers(env)
            .key_by(lambda n: 0)
            .reduce(lambda a, b: a if b != 3 else boom())
            .name("culprit")
            .add_sink(ignore)
        ),
        ("reduce()", ON_RECORD),
    ),
    Case("source create_splits", source("create_splits"), ("opening the source",)),
    Case("source open", source("open"), ("opening the source",)),
    Case("source poll", source("poll"), ("reading the source",)),
    Case(
        "source snapshot",
        source("snapshot_state"),
        ("a task could not take its snapshot", "snapshotting the source"),
    ),
    Case("source close", source("close"), ("closing the source",)),
    Case("sink create_writer", sink("create_writer"), ("opening the sink",)),
    Case("sink open", sink("open"), ("opening the sink",)),
    Case("sink write", sink("write_batch"), ("writing to the sink",)),
    Case("sink prepare", sink("prepare_commit"), ("preparing the sink's commit",)),
    Case("sink commit", sink("commit"), ("committing checkpoint",)),
    Case("sink close", sink("close"), ("closing the sink",)),
    Case(
        "sink function",
        lambda env: numbers(env).add_sink(SinkFunctionThatFails()).name("culprit"),
        ("invoke()", ON_RECORD),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_exception_of_the_user_names_operator_subtask_record_and_cause(case: Case, tmp_path: Path) -> None:
    env = programs.environment(tmp_path, **programs.CHECKPOINTING, **{"restart-strategy.type": "none"})
    case.build(env)
    with programs.leaving_no_thread(), pytest.raises(JobExecutionError) as failure:
        env.execute()
    text = str(failure.value)
    cause, _, details = text.partition("\n\n")
    for words in ("culprit", "(1/1)", CAUSE, *case.says):
        assert words in cause
    assert "\n" not in cause
    # What declines a checkpoint is a reason in the statistics, and as such has no traceback.
    assert case.name == "source snapshot" or 'raise ValueError("boom")' in details
