"""What the processes of a job ask of the cluster."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.coordinator.deployment.slots import (
    ProcessResources,
    process_key,
    process_resources,
    resource_problem,
    start_order,
    total,
)
from tidegate.protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import (
    SlotResources,
    StreamEdge,
    StreamGraph,
    StreamNode,
    build_job_graph,
)

Wanted = dict[str, ProcessResources]


def line_of_tasks(groups: list[tuple[str, int, str | None]], share_processes: bool = False) -> ExecutionGraph:
    """Each with its slot sharing group, parallelism and colocation group."""
    graph = StreamGraph("job")
    for number, (group, parallelism, colocation) in enumerate(groups, 1):
        graph.nodes[number] = StreamNode(
            number,
            f"N{number}",
            f"u{number}",
            b"",
            parallelism,
            128,
            is_source=number == 1,
            colocation_group=colocation,
            slot_sharing_group=group,
        )
        if number > 1:
            graph.edges.append(StreamEdge(number, number - 1, number, Partitioning.REBALANCE))
    return build_execution_graph(build_job_graph(graph, share_processes=share_processes))


def resources(
    groups: list[tuple[str, int, str | None]], slots: dict[str, SlotResources], slot_cpus: float = 1.0
) -> Wanted:
    return process_resources(line_of_tasks(groups), slots, slot_cpus)


def test_the_processes_of_a_slot_share_its_cpus() -> None:
    found = resources([("default", 2, None), ("default", 1, None), ("default", 1, None)], {})
    assert {key: each.cpus for key, each in found.items()} == {
        "task-1#0": 0.3333,
        "task-2#0": 0.3333,
        "task-3#0": 0.3333,
        "task-1#1": 1.0,
    }
    assert total(found) == {"CPU": pytest.approx(1.9999)}


def test_each_slot_sharing_group_has_slots_of_its_own() -> None:
    slots = {"big": SlotResources(4.0, 1 << 30, (("disk", 1.0), ("gpu", 2.0)))}
    found = resources([("default", 1, None), ("big", 1, None), ("big", 1, None)], slots)
    assert found["task-1#0"] == ProcessResources(1.0)
    assert found["task-2#0"] == ProcessResources(2.0, 1 << 29, 1.0, {"disk": 0.5})
    assert total(found) == {"CPU": 5.0, "memory": float(1 << 30), "GPU": 2.0, "disk": 1.0}


def test_a_group_that_said_nothing_has_the_cpus_of_any_slot() -> None:
    found = resources([("default", 1, None), ("quiet", 1, None)], {"quiet": SlotResources()}, 0.5)
    assert [each.cpus for each in found.values()] == [0.5, 0.5]


def test_a_colocation_group_is_one_process() -> None:
    found = resources([("default", 1, "spark"), ("default", 1, "spark")], {})
    assert found == {"group spark#0": ProcessResources(1.0)}


def test_colocated_operators_cannot_be_in_two_groups() -> None:
    with pytest.raises(ConfigurationError, match=r"N2 .* share a process .* 'default', but it is in 'other'"):
        resources([("default", 1, "spark"), ("other", 1, "spark")], {})


def test_subtasks_of_a_slot_share_a_process_on_request() -> None:
    five_tasks = [("default", 64, None)] * 5
    assert len(process_resources(line_of_tasks(five_tasks), {}, 1.0)) == 320
    found = process_resources(line_of_tasks(five_tasks, share_processes=True), {}, 1.0)
    assert found == {f"slot default#{index}": ProcessResources(1.0) for index in range(64)}


def test_slot_sharing_groups_share_no_process() -> None:
    slots = {"big": SlotResources(2.0, 1 << 30, (("gpu", 2.0),))}
    graph = line_of_tasks([("default", 2, None), ("default", 1, None), ("big", 1, None)], True)
    assert process_resources(graph, slots, 0.5) == {
        "slot default#0": ProcessResources(0.5),
        "slot default#1": ProcessResources(0.5),
        "slot big#0": ProcessResources(2.0, 1 << 30, 2.0),
    }


def test_colocated_operators_cannot_be_in_two_slots_that_share_their_processes() -> None:
    graph = line_of_tasks([("default", 1, "spark"), ("other", 1, "spark")], share_processes=True)
    with pytest.raises(ConfigurationError, match=r"N2 .* colocation group 'spark'\. .* 'other'"):
        process_resources(graph, {}, 1.0)


def test_what_ray_cannot_split_is_refused() -> None:
    slots = {"big": SlotResources(1.0, 0, (("gpu", 3.0),))}
    with pytest.raises(ConfigurationError, match="2 processes per slot cannot share 3 gpu"):
        resources([("big", 1, None), ("big", 1, None)], slots)
    assert resources([("big", 1, None)], slots)["task-1#0"].gpus == 3.0


def test_a_process_replaces_another_only_with_as_much() -> None:
    small, big = ProcessResources(0.5), ProcessResources(1.0, 10, 1.0, {"disk": 1.0})
    assert small.fits_in(big)
    assert big.fits_in(big)
    assert not big.fits_in(ProcessResources(1.0, 10, 1.0))


def test_what_a_cluster_lacks_is_named() -> None:
    wanted = {"a": ProcessResources(1.0, 10, 1.0, {"disk": 1.0}), "b": ProcessResources(1.0)}
    enough = {"CPU": 2.0, "memory": 10.0, "GPU": 1.0, "disk": 1.0}
    assert resource_problem(wanted, enough) is None
    for name, text in (("CPU", "2 CPUs"), ("GPU", "1 GPUs"), ("memory", "10 bytes"), ("disk", "1 disk")):
        problem = resource_problem(wanted, {**enough, name: 0.0})
        assert problem is not None
        assert problem.startswith(f"the job asks for {text}")


def test_process_keys_name_the_subtask() -> None:
    graph = StreamGraph("job", {1: StreamNode(1, "N", "u", b"", 2, 128, is_source=True)})
    subtasks = build_execution_graph(build_job_graph(graph)).subtasks.values()
    assert [process_key(subtask) for subtask in subtasks] == ["task-1#0", "task-1#1"]


def test_what_stands_behind_in_the_graph_starts_first() -> None:
    graph = line_of_tasks([("default", 2, None), ("default", 2, None), ("default", 1, None)])
    assert start_order(graph) == ["task-3#0", "task-2#1", "task-2#0", "task-1#1", "task-1#0"]


def test_a_process_with_several_subtasks_starts_with_the_last_of_them() -> None:
    graph = line_of_tasks([("default", 1, "a"), ("default", 1, None), ("default", 1, "a")])
    assert start_order(graph) == ["group a#0", "task-2#0"]
