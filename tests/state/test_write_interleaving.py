"""The thread that stores state waits for a loop that is busy, and not for one that has nothing to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate.state.keyed.changes import change_table
from tidegate.state.keyed.tables import FrozenTable
from tidegate.state.lmdb.write_interleaving import SMALL_ENTRIES, WriteInterleaver

from .test_memory_load import table

NEVER_S = 3_600.0
LIMIT_S = 60.0


def busy_turns() -> WriteInterleaver:
    """Turns whose loop takes a batch, so that a piece of another thread waits for it."""
    turns = WriteInterleaver(NEVER_S)
    assert turns.may_process()
    return turns


def ends(work: Callable[[], None]) -> bool:
    """Whether `work` ends on a thread of its own."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return not thread.is_alive()


def test_a_piece_does_not_wait_for_a_loop_that_rests() -> None:
    turns = busy_turns()
    turns.rest()

    def write() -> None:
        for _ in range(3):
            with turns.writing():
                pass

    assert ends(write)


def test_a_piece_that_waits_begins_when_the_loop_comes_to_rest() -> None:
    turns, begun = busy_turns(), threading.Event()

    def write() -> None:
        with turns.writing():
            begun.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    turns.rest()
    assert begun.wait(LIMIT_S)
    writer.join(LIMIT_S)


def test_a_piece_waits_again_when_the_loop_has_asked_after_its_rest() -> None:
    turns, begun = busy_turns(), threading.Event()
    turns.rest()
    assert turns.may_process()

    def write() -> None:
        with turns.writing():
            begun.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    while turns.may_process():
        assert not begun.is_set(), "a piece began in the middle of a batch"
    assert begun.wait(LIMIT_S)
    writer.join(LIMIT_S)


def test_a_small_buffer_is_stored_and_dropped_beside_a_busy_loop_without_a_turn() -> None:
    turns = busy_turns()
    frozen = FrozenTable(table(), {key: (key, 1) for key in range(SMALL_ENTRIES)}, False, [])

    def store() -> None:
        assert len(change_table(frozen, 128, turns)) == SMALL_ENTRIES
        frozen.release(turns)

    assert ends(store)
    assert not frozen.changes
