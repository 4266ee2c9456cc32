"""Checkpoints that cannot be taken fail the job, or are refused before it starts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import (
    CheckpointStorageError,
    ConfigurationError,
    JobExecutionError,
)
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
)

from .jobs import environment, held


class CannotSnapshot(KeyedProcessFunction):
    """State that does not fit its declared type is noticed when it is written."""

    def open(self, runtime_context: RuntimeContext) -> None:
        from tidegate.datastream.state import ValueStateDescriptor

        self.lock = runtime_context.get_state(ValueStateDescriptor("lock"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.lock.update(threading.Lock())
        return [value]


def test_a_snapshot_that_fails_ends_the_job_with_the_cause(tmp_path: Path) -> None:
    env = environment(tmp_path, options={"restart-strategy.type": "none"})
    held(env).key_by(lambda value: value % 2).process(CannotSnapshot()).name("Locks").add_sink(print)
    with pytest.raises(JobExecutionError, match=r"Locks.*lock"):
        env.execute()


def test_checkpoints_without_a_place_are_refused() -> None:
    env = environment()
    env.enable_checkpointing(1_000)
    env.from_collection([1]).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"set execution.checkpointing.dir"):
        env.execute()


def test_a_place_that_cannot_be_written_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the directory should be")
    env = environment(tmp_path)
    held(env).add_sink(print)
    with pytest.raises(CheckpointStorageError, match="checkpoints"):
        env.execute()
