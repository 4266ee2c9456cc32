"""Between a source's thread and its task: a bounded buffer, and a lock that the task need not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from tidegate.operators.sources.checkpoint_lock import CheckpointLock
from tidegate.operators.sources.source_buffer import SourceBuffer, SourceCancelled
from tidegate.protocol.elements import Batch, Watermark

WAIT_S = 60


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_records_come_out_in_order_and_in_batches_by_whether_they_have_timestamps() -> None:
    buffer = SourceBuffer(10)
    buffer.add("a")
    buffer.add("b")
    buffer.add_with_timestamp("c", 3)
    buffer.add_control(Watermark(1))
    buffer.add_control(Watermark(2))
    buffer.add_with_timestamp("d", 4)
    buffer.add("e")
    assert buffer.take() == [
        Batch(["a", "b"]), Batch(["c"], [3]), Watermark(2), Batch(["d"], [4]), Batch(["e"]),
    ]  # fmt: skip
    assert buffer.take() == []


def test_who_adds_to_a_full_buffer_waits_until_the_task_takes() -> None:
    buffer = SourceBuffer(3)
    added: list[int] = []

    def work() -> None:
        for number in range(7):
            buffer.add(number)
            added.append(number)

    thread = in_thread(work)
    taken = []
    while len(taken) < 7:
        for element in buffer.take():
            assert isinstance(element, Batch)
            assert len(element) <= 3
            taken += element.values
        assert len(added) <= len(taken) + 3
    thread.join(WAIT_S)
    assert taken == list(range(7))


@pytest.mark.parametrize("capacity", [1, 5])
def test_closing_ends_who_waits_and_who_comes_later(capacity: int) -> None:
    buffer = SourceBuffer(capacity)
    ended = threading.Event()

    def work() -> None:
        try:
            while True:
                buffer.wait_for_room()
                buffer.add(0)
        except SourceCancelled:
            ended.set()

    thread = in_thread(work)
    buffer.close()
    assert ended.wait(WAIT_S)
    thread.join(WAIT_S)
    for add in (lambda: buffer.add(1), lambda: buffer.add_control(Watermark(1)), buffer.wait_for_room):
        with pytest.raises(SourceCancelled):
            add()


def test_a_thread_that_takes_the_lock_again_at_once_does_not_starve_the_task() -> None:
    lock, stop = CheckpointLock(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            with lock, lock:
                pass

    thread = in_thread(work)
    for _ in range(100):
        asked = 0
        while not lock.try_take():
            asked += 1
        lock.give_back()
        # At most the section that was going on has to end.
        assert asked < 1_000_000
    stop.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_the_task_does_not_get_the_lock_inside_a_section_and_no_section_begins_while_it_has_it() -> None:
    lock = CheckpointLock()
    inside, leave, entered = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with lock:
            with lock:
                pass
            inside.set()
            leave.wait(WAIT_S)
        with lock:
            entered.set()

    thread = in_thread(work)
    assert inside.wait(WAIT_S)
    assert not lock.try_take()
    leave.set()
    while not lock.try_take():
        pass
    assert not entered.is_set()
    lock.give_back()
    assert entered.wait(WAIT_S)
    thread.join(WAIT_S)


def test_after_an_exception_in_a_section_the_task_waits_for_the_next_section_or_the_end() -> None:
    lock = CheckpointLock()
    with suppress(ValueError), lock:
        raise ValueError
    assert not lock.try_take()
    with lock:
        pass
    assert lock.try_take()
    lock.give_back()
    with suppress(ValueError), lock:
        raise ValueError
    lock.thread_ended()
    assert lock.try_take()


def test_a_task_that_found_nothing_is_woken_once_by_what_comes_next() -> None:
    woken: list[str] = []
    buffer = SourceBuffer(10, lambda: woken.append("woken"))
    buffer.add("a")
    assert not woken, "no task waits"
    assert buffer.take()
    assert buffer.take() == []
    buffer.add("b")
    buffer.add("c")
    assert len(woken) == 1
    assert buffer.take()
    assert buffer.take() == []
    buffer.add_control(Watermark(1))
    assert len(woken) == 2
    assert buffer.take()
    assert buffer.take() == []
    buffer.add_with_timestamp("d", 4)
    assert len(woken) == 3


def test_a_task_is_woken_by_the_end_of_its_source() -> None:
    woken: list[str] = []
    buffer = SourceBuffer(10, lambda: woken.append("woken"))
    assert buffer.take() == []
    buffer.ended()
    assert woken == ["woken"]
