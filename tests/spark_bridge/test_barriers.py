"""A barrier passes a stage at once, whatever Spark does."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tidegate.common.errors import TidegateError
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.stages.epochs import EpochLimits
from tidegate.spark_bridge.stage import SparkStageOperator, StageSettings

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

RELEASED = threading.Event()
RUNNING: dict[str, threading.Barrier] = {}


def held(frame: Any) -> Any:
    RELEASED.wait(jobs.WAIT_S)
    return frame


def in_another_order(frame: Any) -> Any:
    return frame.orderBy(frame["id"].desc())


def meets(frame: Any) -> Any:
    """Returns only if two epochs run at the same time."""
    RUNNING["both"].wait(jobs.WAIT_S)
    return frame


def fails(frame: Any) -> Any:
    raise ValueError("boom")


def stage_of(function: Any, restored: OperatorSnapshot | None = None, **limits: Any) -> jobs.StageUnderTest:
    settings = StageSettings(
        jobs.SPARK, jobs.NUMBERS, EpochLimits(**{"max_records": 1_000, "interval_ms": 0, **limits})
    )
    return jobs.StageUnderTest(SparkStageOperator(function, jobs.NUMBERS, settings), restored)


def test_a_barrier_does_not_wait_for_spark_and_a_restore_runs_the_epoch_again() -> None:
    RELEASED.clear()
    stage = stage_of(held)
    stage.take_mail()
    stage.process([(1,), (2,)])
    stage.process([(3,)])
    snapshot = stage.checkpoint(1)
    assert not RELEASED.is_set()
    assert jobs.emitted(stage) == []
    RELEASED.set()
    stage.take_mail()
    assert jobs.emitted(stage) == [(1,), (2,)]
    later = stage.checkpoint(2)
    stage.take_mail()
    assert jobs.emitted(stage) == [(1,), (2,), (3,)]
    assert stage.checkpoint(3).size_bytes == 0
    stage.operator.close()

    for stored, epochs, expected in ((snapshot, 2, [(2,), (1,), (3,)]), (later, 1, [(3,)])):
        restored = stage_of(in_another_order, stored)
        for _ in range(1 + epochs):
            restored.take_mail()
        assert jobs.emitted(restored) == expected
        restored.operator.close()


def test_a_barrier_between_two_results_stores_those_that_follow() -> None:
    stage = stage_of(held)
    RELEASED.set()
    stage.take_mail()
    stage.operator.most_emitted = 2
    stage.process([(number,) for number in range(5)])
    stage.mail.get(timeout=jobs.WAIT_S)()
    stage.processing_time.run_due()
    assert jobs.emitted(stage) == [(0,), (1,)]
    snapshot = stage.checkpoint(1)
    stage.operator.close()
    restored = stage_of(fails, snapshot)
    restored.advance_to(0)
    assert jobs.emitted(restored) == [(2,), (3,), (4,)]
    assert restored.operator.is_drained()
    restored.operator.close()


def test_a_checkpoint_from_before_stages_had_state_is_restored() -> None:
    restored = stage_of(held, OperatorSnapshot())
    assert restored.operator.is_drained()
    restored.operator.close()


def test_a_barrier_passes_before_the_session_has_started() -> None:
    stage = stage_of(in_another_order)
    # Its mail says that the session is there; as long as nothing takes it, the session starts.
    stage.process([(1,)])
    assert stage.checkpoint(1).size_bytes > 0
    assert stage.operator.is_ready()
    stage.operator.process_watermark(7)
    assert stage.watermarks == []
    stage.take_mail()
    stage.take_mail()
    assert (jobs.emitted(stage), stage.watermarks) == ([(1,)], [7])
    stage.operator.close()


def test_epochs_run_at_the_same_time_and_leave_in_order() -> None:
    RUNNING["both"] = threading.Barrier(2)
    stage = stage_of(meets, max_running=2)
    stage.take_mail()
    stage.process([(1,)])
    stage.process([(2,)])
    stage.take_mail()
    stage.take_mail()
    assert jobs.emitted(stage) == [(1,), (2,)]
    stage.operator.close()


def test_a_failing_epoch_fails_the_task_and_not_its_thread() -> None:
    stage = stage_of(fails)
    stage.take_mail()
    stage.process([(1,)])
    with pytest.raises(TidegateError, match="ValueError: boom"):
        stage.take_mail()
    stage.operator.close()


def test_what_arrives_after_the_end_is_dropped() -> None:
    RELEASED.clear()
    stage = stage_of(held)
    stage.take_mail()
    stage.process([(1,)])
    barrier = CheckpointBarrier(CheckpointId(1), 0)
    stage.operator.snapshot_state(barrier)
    stage.operator.close()
    RELEASED.set()
    assert jobs.emitted(stage) == []
