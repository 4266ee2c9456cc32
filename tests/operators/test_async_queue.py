"""The queues of an async operator against the rules they exist for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.operators.async_io.async_queue import ElementQueue, InFlight, OrderedQueue, UnorderedQueue

QUEUES = [OrderedQueue, UnorderedQueue]


def taken(queue: ElementQueue) -> list[Any]:
    """What comes out, flat: values of records, and fences as they were put in."""
    out: list[Any] = []
    for ready in queue.take():
        out += [record.value for record in ready] if isinstance(ready, list) else [ready]
    return out


def put(queue: ElementQueue, *values: Any) -> list[InFlight]:
    records = [InFlight(value) for value in values]
    queue.put(records)
    return records


def complete(queue: ElementQueue, *records: InFlight) -> None:
    for record in records:
        record.results = [record.value]
    queue.complete(records)


def test_an_ordered_queue_gives_nothing_before_the_first_record_is_complete() -> None:
    queue = OrderedQueue()
    first, second, third = put(queue, 1, 2, 3)
    complete(queue, second, third)
    assert taken(queue) == []
    complete(queue, first)
    assert taken(queue) == [1, 2, 3]
    assert len(queue) == 0


def test_an_unordered_queue_gives_records_as_they_become_complete() -> None:
    queue = UnorderedQueue()
    first, second, third = put(queue, 1, 2, 3)
    complete(queue, third, second)
    assert taken(queue) == [3, 2]
    complete(queue, first)
    assert taken(queue) == [1]


@pytest.mark.parametrize("queue_type", QUEUES)
def test_no_record_passes_a_fence(queue_type: type[ElementQueue]) -> None:
    queue = queue_type()
    (before,) = put(queue, "before")
    queue.put_fence("fence")
    (after,) = put(queue, "after")
    complete(queue, after)
    assert taken(queue) == []
    complete(queue, before)
    assert taken(queue) == ["before", "fence", "after"]


@pytest.mark.parametrize("queue_type", QUEUES)
def test_fences_without_records_pass_at_once(queue_type: type[ElementQueue]) -> None:
    queue = queue_type()
    queue.put_fence("a")
    queue.put_fence("b")
    assert taken(queue) == ["a", "b"]


@st.composite
def scripts(draw: st.DrawFn) -> list[Any]:
    return draw(st.lists(st.sampled_from(["record", "record", "fence", "complete", "take"]), max_size=60))


@pytest.mark.parametrize("queue_type", QUEUES)
@given(script=scripts(), seed=st.integers(0, 1 << 16))
def test_everything_leaves_once_and_within_its_fences(
    queue_type: type[ElementQueue], script: list[str], seed: int
) -> None:
    random, queue = Random(seed), queue_type()
    arrived: list[Any] = []
    pending: list[InFlight] = []
    left: list[Any] = []
    for number, step in enumerate(script):
        if step == "record":
            pending += put(queue, number)
            arrived.append(number)
        elif step == "fence":
            queue.put_fence(f"fence {number}")
            arrived.append(f"fence {number}")
        elif step == "complete" and pending:
            complete(queue, pending.pop(random.randrange(len(pending))))
        else:
            left += taken(queue)
        in_flight = [record.value for record in queue.records()]
        assert in_flight == [value for value in arrived if isinstance(value, int) and value not in left]
        assert len(queue) == len(in_flight)
    random.shuffle(pending)
    for record in pending:
        complete(queue, record)
    left += taken(queue)
    assert segments(left) == segments(arrived)
    if queue_type is OrderedQueue:
        assert left == arrived


def segments(elements: list[Any]) -> list[Any]:
    """The sets of records between the fences, and the fences in order."""
    out: list[Any] = [set()]
    for element in elements:
        if isinstance(element, int):
            assert element not in out[-1]
            out[-1].add(element)
        else:
            out += [element, set()]
    return out
