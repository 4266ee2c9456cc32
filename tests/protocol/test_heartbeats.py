"""Processes that do not answer are lost, those of a silent node together; nothing else is."""

from __future__ import annotations

from tidegate.protocol.scheduling.heartbeats import Heartbeats, Silent

NODES = {"a": "node-1", "b": "node-1", "c": "node-2"}
NOTHING = Silent()


def heartbeats() -> Heartbeats:
    return Heartbeats(timeout_ms=15_000, interval_ms=1_000)


def test_a_silent_node_is_lost_with_all_its_processes_at_once() -> None:
    beats = heartbeats()
    for now_s in range(1, 30):
        beats.heard("c")
        if now_s < 5:
            beats.heard("a")
        if now_s < 7:
            beats.heard("b")
        found = beats.look(NODES, 1_000 * now_s)
        if found != NOTHING:
            break
    assert found == Silent(frozenset({"a", "b"}), frozenset({"node-1"}))
    assert now_s == 19


def test_a_process_that_hangs_alone_leaves_its_node_usable() -> None:
    beats = heartbeats()
    for now_s in range(1, 18):
        beats.heard("b")
        beats.heard("c")
        found = beats.look(NODES, 1_000 * now_s)
    assert found == Silent(frozenset({"a"}), frozenset())


def test_an_observer_that_was_suspended_blames_no_process() -> None:
    beats = heartbeats()
    beats.look(NODES, 1_000)
    assert beats.look(NODES, 600_000) == NOTHING
    assert beats.look(NODES, 601_000) == NOTHING


def test_a_process_that_is_not_asked_is_not_silent_and_starts_again_at_zero() -> None:
    beats = heartbeats()
    for now_s in range(1, 15):
        beats.look(NODES, 1_000 * now_s)
    beats.look({}, 15_000)
    for now_s in range(16, 30):
        assert beats.look(NODES, 1_000 * now_s) == NOTHING
