"""The interval join against a plain reference: any order, late records, restarts with other parallelism."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common.errors import UserCodeError
from tidegate.operators.keyed.interval_join import Interval, IntervalJoinOperator
from tidegate.operators.window_functions import ProcessJoinFunction
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch

from .windows.rig import LATE, Rig, key_of


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        assert (ctx.get_left_timestamp(), ctx.get_right_timestamp()) == (left[2], right[2])
        yield left, right, ctx.get_timestamp()


def rig_of(lower: int, upper: int, backend: str = "memory", directory: str = "/nonexistent") -> Rig:
    interval = Interval(lower, upper, (LATE, LATE))
    return Rig(lambda: IntervalJoinOperator(Pairs(), interval, (key_of, key_of)), backend, Path(directory))


class Reference:
    """Keeps every record for ever, and knows from its time and the watermarks whether it still counts."""

    def __init__(self, lower: int, upper: int) -> None:
        self._bounds = lower, upper
        self._kept: tuple[list[Any], list[Any]] = ([], [])
        self._watermark: int | None = None
        self.pairs: list[Any] = []
        self.late: list[Any] = []

    def process(self, side: int, record: Any) -> None:
        if self._watermark is not None and record[2] < self._watermark:
            self.late.append(record)
            return
        lower, upper = self._bounds
        self._kept[side].append(record)
        for other in self._kept[1 - side]:
            left, right = (record, other) if side == 0 else (other, record)
            if left[0] == right[0] and left[2] + lower <= right[2] <= left[2] + upper:
                self.pairs.append((left, right, max(left[2], right[2])))

    def advance_watermark(self, timestamp: int) -> None:
        self._watermark = max(timestamp, self._watermark or timestamp)
        lower, upper = self._bounds
        # Nothing before the watermark is to come: who pairs only with that is forgotten.
        for side, reach in ((0, max(0, upper)), (1, max(0, -lower))):
            self._kept[side][:] = [r for r in self._kept[side] if r[2] + reach > self._watermark]

    def restore(self) -> None:
        self._watermark = None


RECORDS = st.lists(st.tuples(st.sampled_from(["a", 7]), st.integers(0, 99), st.integers(0, 15)), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0, 1]), RECORDS),
        st.tuples(st.just("watermark"), st.integers(0, 18)),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
@settings(max_examples=25)
@given(bounds=st.lists(st.integers(-6, 6), min_size=2, max_size=2).map(sorted), steps=STEPS)
def test_pairs_are_those_of_the_reference(backend: str, bounds: list[int], steps: list[Any]) -> None:
    lower, upper = bounds
    reference = Reference(lower, upper)
    with tempfile.TemporaryDirectory() as directory:
        rig = rig_of(lower, upper, backend, directory)
        for step, argument in [*steps, ("watermark", MAX_WATERMARK_MS)]:
            if step == "rescale":
                rig.rescale(argument)
                reference.restore()
            elif step == "watermark":
                for side in (0, 1):
                    rig.advance_watermark(argument, side)
                reference.advance_watermark(argument)
            else:
                rig.process(argument, step)
                for record in argument:
                    reference.process(step, record)
            got = rig.taken()
            assert all(pair[2] == time for pair, time in got)
            assert sorted(map(repr, (pair for pair, _ in got))) == sorted(map(repr, reference.pairs))
            assert sorted(map(repr, rig.late())) == sorted(map(repr, reference.late))
            reference.pairs, reference.late = [], []
        rig.close()


@pytest.mark.parametrize(
    ("bounds", "left_until", "right_until"), [((-3, 2), 7, 23), ((-9, -4), 5, 29), ((4, 9), 14, 20)]
)
def test_what_can_pair_with_nothing_to_come_is_forgotten(
    bounds: tuple[int, int], left_until: int, right_until: int
) -> None:
    rig = rig_of(*bounds)
    rig.process([("a", 1, 5)], 0)
    rig.process([("a", 2, 20)], 1)
    keyed = rig.subtasks[0].operator.keyed
    for watermark in sorted({left_until, right_until, left_until - 1, right_until - 1}):
        for side in (0, 1):
            rig.advance_watermark(watermark, side)
        assert bool(keyed.query("_left_buffer", "a")) == (watermark < left_until)
        assert bool(keyed.query("_right_buffer", "a")) == (watermark < right_until)


def test_the_side_that_lags_holds_event_time_back() -> None:
    rig = rig_of(-3, 2)
    rig.advance_watermark(50, 0)
    rig.process([("a", 1, 5)], 0)
    rig.process([("a", 2, 6)], 1)
    assert len(rig.taken()) == 1
    assert rig.late() == []


def test_a_record_without_a_timestamp_is_refused_with_what_to_do() -> None:
    (subtask,) = rig_of(-1, 1).subtasks
    with pytest.raises(
        UserCodeError, match=r"has no timestamp.*assign_timestamps_and_watermarks\(\) on both"
    ):
        subtask.operator.process_batch(Batch([("a", 1, 1)]), 1)


def test_late_records_that_nobody_takes_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(
        lambda: IntervalJoinOperator(Pairs(), Interval(-1, 1), (key_of, key_of)),
        "memory",
        Path("/nonexistent"),
    )
    for side in (0, 1):
        rig.advance_watermark(50, side)
    rig.process([("a", 1, 5), ("a", 1, 50)], 0)
    assert rig.subtasks[0].operator.late_records.count == 1
    assert "behind the watermark" in caplog.text
