"""Windows by event time against a plain reference: any order, any lateness, any restarts, both paths."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.operators.windows.batched_operator import BatchedWindowOperator, is_common_case
from tidegate.operators.windows.batched_sessions import BatchedSessionOperator, is_common_session
from tidegate.operators.windows.merging_operator import MergingWindowOperator
from tidegate.operators.windows.session_assigners import (
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from tidegate.operators.windows.time_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tidegate.operators.windows.window_contents import AggregatedContents, ReducedContents
from tidegate.operators.windows.window_function_calls import call_after_folding
from tidegate.protocol.elements import MAX_WATERMARK_MS

from .reference import EventTimeReference, SessionReference, sliding
from .rig import LATE, Count, Rig, key_of, operator_of, windowing

Step = tuple[str, Any]

# Few different times, so that records and watermarks meet the very edges of windows.
RECORDS = st.lists(
    st.tuples(st.sampled_from(["a", 7]), st.integers(0, 99), st.integers(-3, 14)), min_size=1, max_size=10
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("records"), RECORDS),
        st.tuples(st.just("watermark"), st.integers(-4, 18)),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
    ),
    min_size=3,
    max_size=14,
)
SIZES = st.sampled_from([1, 2, 3, 4, 6, 10])


def compare(rig: Rig, reference: EventTimeReference, steps: list[Step], in_order: bool = True) -> None:
    """Run the steps on both, and look after each at what came out."""
    for kind, argument in [*steps, ("watermark", MAX_WATERMARK_MS)]:
        if kind == "records":
            rig.process(argument)
            for record in argument:
                reference.process(*record)
        elif kind == "watermark":
            rig.advance_watermark(argument)
            reference.advance_watermark(argument)
        else:
            rig.rescale(argument)
            reference.restore()
        got = [((key, (w.start, w.end), values), time) for (key, w, values), time in rig.taken()]
        assert all(time == window[1] - 1 for (_, window, _), time in got)
        order = list if in_order else sorted
        assert sorted(repr((k, w, order(v))) for (k, w, v), _ in got) == sorted(
            repr((k, w, order(v))) for k, w, v in reference.fired
        )
        assert sorted(map(repr, rig.late())) == sorted(map(repr, reference.late))
        reference.fired, reference.late = [], []


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
@settings(max_examples=30)
@given(size=SIZES, slide=SIZES, offset=st.integers(0, 9), lateness=st.sampled_from([0, 0, 3]), steps=STEPS)
def test_tumbling_and_sliding_windows_are_those_of_the_reference(
    backend: str, size: int, slide: int, offset: int, lateness: int, steps: list[Step]
) -> None:
    offset %= slide
    assigner = SlidingEventTimeWindows(size, slide, offset)
    spec = windowing(assigner, allowed_lateness_ms=lateness, late_tag_id=LATE)
    reference = EventTimeReference(sliding(size, slide, offset), lateness)
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(lambda: operator_of(spec), backend, Path(directory))
        compare(rig, reference, steps)
        rig.close()


class GapOfValue(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + element[1] % 5


def sessions(is_dynamic: bool, lateness: int) -> tuple[Any, SessionReference]:
    """An assigner, and the reference for it."""
    if is_dynamic:
        assigner: Any = EventTimeSessionWindows.with_dynamic_gap(GapOfValue())
        return assigner, SessionReference(lambda value: 1 + value % 5, lateness)
    return EventTimeSessionWindows(3), SessionReference(lambda value: 3, lateness)


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
@pytest.mark.parametrize("is_dynamic", [False, True])
@settings(max_examples=20)
@given(lateness=st.sampled_from([0, 0, 3]), steps=STEPS)
def test_sessions_are_those_of_the_reference(
    backend: str, is_dynamic: bool, lateness: int, steps: list[Step]
) -> None:
    assigner, reference = sessions(is_dynamic, lateness)
    spec = windowing(assigner, allowed_lateness_ms=lateness, late_tag_id=LATE)
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(lambda: operator_of(spec), backend, Path(directory))
        compare(rig, reference, steps, in_order=False)
        rig.close()


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
@pytest.mark.parametrize("is_dynamic", [False, True])
@settings(max_examples=20)
@given(switches=st.booleans(), steps=STEPS)
def test_sessions_a_batch_at_a_time_are_those_of_the_reference(
    backend: str, is_dynamic: bool, switches: bool, steps: list[Step]
) -> None:
    assigner, reference = sessions(is_dynamic, 0)
    spec = windowing(assigner, late_tag_id=LATE)
    assert is_common_session(spec)
    kinds = [BatchedSessionOperator, MergingWindowOperator if switches else BatchedSessionOperator]
    attempts = iter(range(100))
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(lambda: kinds[next(attempts) % 2](spec, key_of), backend, Path(directory))
        compare(rig, reference, steps, in_order=False)
        rig.close()


def joined(first: Any, second: Any) -> Any:
    """A reduce whose order shows."""
    return first[0], (first[1], second[1]), first[2]


CONTENTS = {
    "reduce": lambda: ReducedContents(joined, None),
    "aggregate": lambda: AggregatedContents(Count(), None),
    "collect": lambda: None,
}


@pytest.mark.parametrize("kind", sorted(CONTENTS))
@settings(max_examples=30)
@given(size=SIZES, slide=SIZES, is_tumbling=st.booleans(), switches=st.booleans(), steps=STEPS)
def test_a_batch_at_a_time_gives_what_a_record_at_a_time_gives(
    kind: str, size: int, slide: int, is_tumbling: bool, switches: bool, steps: list[Step]
) -> None:
    assigner: Any = (
        TumblingEventTimeWindows(size, 0) if is_tumbling else SlidingEventTimeWindows(size, slide, 0)
    )
    call = None if kind == "collect" else call_after_folding(None, is_keyed=True)
    spec = windowing(assigner, contents=CONTENTS[kind](), call=call, late_tag_id=LATE)
    assert is_common_case(spec)
    makers = [lambda: operator_of(spec), lambda: BatchedWindowOperator(spec, key_of)]
    attempts = iter(range(100))
    fast = (lambda: makers[next(attempts) % 2]()) if switches else makers[1]
    rigs = [Rig(make, "memory", Path("/nonexistent")) for make in (makers[0], fast)]
    for step, argument in [*steps, ("watermark", MAX_WATERMARK_MS)]:
        for rig in rigs:
            getattr(
                rig, {"records": "process", "watermark": "advance_watermark", "rescale": "rescale"}[step]
            )(argument)
        assert rigs[0].taken() == rigs[1].taken()
        assert rigs[0].late() == rigs[1].late()
