"""Processes of another graph are started beside those that run, as far as there is room."""

from __future__ import annotations

from tidegate.actors.task_processes import SHORTAGE_MS, NodeView, PendingProcesses, TaskProcess
from tidegate.coordinator.deployment.slots import ProcessResources, total

HALF = ProcessResources(0.5)


class Room:
    """A pending, what it started, and what it said."""

    def __init__(self, missing: int, released: int = 0) -> None:
        self.created: list[TaskProcess] = []
        self.answers: list[str] = []
        self.pending = PendingProcesses(
            {f"p{number}": HALF for number in range(missing)},
            total({f"old{number}": HALF for number in range(released)}),
            self._create,
            self.answers.append,
            started_ms=0,
            place_timeout_ms=60_000,
        )

    def _create(self, key: str, resources: ProcessResources) -> TaskProcess:
        self.created.append(TaskProcess(key, None, resources, [], 0))
        return self.created[-1]

    def advance(self, cpus: float, now_ms: int = 0) -> None:
        self.pending.advance({"CPU": cpus}, now_ms)

    def started(self) -> None:
        for number, process in enumerate(self.created, 1):
            process.pid = number


def test_all_are_started_and_ready_when_all_have_answered() -> None:
    room = Room(missing=2)
    room.advance(1.0)
    assert [process.key for process in room.created] == ["p0", "p1"]
    assert room.answers == []
    room.started()
    room.advance(0.0)
    assert room.answers == [""]
    assert set(room.pending.processes) == {"p0", "p1"}


def test_what_is_still_looking_for_its_place_counts_as_taken() -> None:
    room = Room(missing=3)
    room.advance(1.0)
    room.advance(1.0)
    assert len(room.created) == 2


def test_those_that_fit_only_afterwards_come_afterwards() -> None:
    room = Room(missing=3, released=2)
    room.advance(0.5)
    room.started()
    room.advance(0.0)
    assert room.answers == [""]
    assert len(room.created) == 1


def test_nothing_to_start_is_ready_at_once() -> None:
    room = Room(missing=0)
    room.advance(0.0)
    assert room.answers == [""]


def test_a_full_cluster_is_a_clear_answer_after_a_while() -> None:
    room = Room(missing=3, released=1)
    room.advance(0.0)
    assert room.answers == []
    room.advance(0.0, SHORTAGE_MS)
    (problem,) = room.answers
    assert problem.startswith("3 more task processes ask for 1.5 CPUs, but the cluster has only 0.5 left")
    room.advance(9.0, SHORTAGE_MS)
    assert len(room.answers) == 1


def test_what_is_given_back_late_will_do() -> None:
    room = Room(missing=1)
    room.advance(0.0)
    room.advance(0.5, 1_000)
    room.started()
    room.advance(0.0, 2 * SHORTAGE_MS)
    assert room.answers == [""]


def test_no_place_on_any_node_is_a_clear_answer() -> None:
    room = Room(missing=1)
    room.advance(2.0)
    room.advance(2.0, 60_000)
    (problem,) = room.answers
    assert "found no place within 60000 ms" in problem


def test_a_process_that_dies_ends_it() -> None:
    room = Room(missing=1)
    room.advance(1.0)
    room.pending.lost(room.created[0], "out of memory")
    room.pending.lost(room.created[0], "out of memory")
    assert room.answers == ["a process for its subtasks ended: out of memory"]


def test_a_coordinator_leaves_a_drained_node_only_for_another_one_that_can_take_it() -> None:
    labels = {"a": {"role": "work"}, "b": {"role": "work"}, "c": {"role": "other"}}
    view = NodeView({}, frozenset({"b", "c"}), frozenset({"a"}), labels=labels)
    assert view.must_leave("a", "any")
    assert view.must_leave("a", "role=work")
    assert not view.must_leave("b", "role=work"), "it is not being drained"
    assert not view.must_leave("a", "head"), "there is no other head"
    assert not view.must_leave("a", "role=none")
