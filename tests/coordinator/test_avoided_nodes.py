"""A node that was silent gets no process while another one has room."""

from __future__ import annotations

from tidegate.coordinator.deployment.avoided_nodes import AVOIDED_MS, AvoidedNodes
from tidegate.coordinator.deployment.slots import ProcessResources

ONE_CPU = ProcessResources(1.0)
SILENT = frozenset({"silent"})


def avoided(**free: float) -> AvoidedNodes:
    nodes = AvoidedNodes()
    nodes.silent(SILENT, 1_000)
    nodes.looked({node: {"CPU": cpus} for node, cpus in free.items()})
    return nodes


def test_as_many_processes_as_fit_elsewhere_avoid_the_silent_node() -> None:
    nodes = avoided(silent=8.0, first=1.0, second=1.5)
    assert [nodes.place(ONE_CPU, 2_000) for _ in range(3)] == [SILENT, SILENT, frozenset()]


def test_room_is_counted_again_after_a_look_at_the_nodes() -> None:
    nodes = avoided(silent=8.0, first=1.0)
    nodes.place(ONE_CPU, 2_000)
    nodes.looked({"first": {"CPU": 1.0}})
    assert nodes.place(ONE_CPU, 2_000) == SILENT


def test_what_a_killed_process_used_is_room_at_once() -> None:
    nodes = avoided(silent=8.0, first=0.0)
    assert nodes.place(ONE_CPU, 2_000) == frozenset()
    nodes.released("first", ONE_CPU)
    nodes.released("gone", ONE_CPU)
    assert [nodes.place(ONE_CPU, 2_000) for _ in range(2)] == [SILENT, frozenset()]


def test_room_on_two_nodes_is_not_room_for_one_process() -> None:
    assert avoided(first=0.5, second=0.5).place(ONE_CPU, 2_000) == frozenset()


def test_other_resources_count_too() -> None:
    nodes = avoided(first=4.0)
    assert nodes.place(ProcessResources(1.0, gpus=1.0), 2_000) == frozenset()


def test_a_node_is_avoided_for_a_time_only_and_nothing_is_avoided_without_a_silent_node() -> None:
    nodes = avoided(first=4.0)
    assert nodes.place(ONE_CPU, 1_000 + AVOIDED_MS) == frozenset()
    nothing = AvoidedNodes()
    nothing.looked({"first": {"CPU": 4.0}})
    assert nothing.place(ONE_CPU, 2_000) == frozenset()
