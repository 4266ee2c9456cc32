"""Which process each subtask runs in, and what every process asks of the cluster.

Subtasks with one index and one slot sharing group share a slot. The processes in a slot share what the slot
takes, or there is only one (`tidegate.slot.share-process`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...common.errors import ConfigurationError
from ...protocol.scheduling.execution_graph import ExecutionGraph, Subtask, build_execution_graph
from ...protocol.scheduling.plan import JobGraph, SlotResources
from ...protocol.scheduling.rescaling import ALL_OPERATORS, highest_parallelism, rescaled

_RAY_UNITS = 10_000
"""Ray counts resources in ten-thousandths."""


_TOLERANCE = 1e-6

RAY_NAMES = {"CPU": "CPUs", "memory": "bytes of memory", "GPU": "GPUs"}
"""Ray's own resources, and what people call them."""


@dataclass(frozen=True, slots=True)
class ProcessResources:
    """What one process asks of Ray.

    Attributes:
        cpus: A part of its slot's, rounded down so that the sum stays within the slot.
        memory_bytes: Likewise, 0 for none in particular.
        gpus: Ray's own name for the resource `gpu`.
        custom: Resources that the cluster's nodes were given by name.
    """

    cpus: float
    memory_bytes: int = 0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict)

    def by_ray_name(self) -> dict[str, float]:
        """The same, as Ray lists what a cluster has."""
        named = {"CPU": self.cpus, "memory": float(self.memory_bytes), "GPU": self.gpus, **self.custom}
        return {name: amount for name, amount in named.items() if amount}

    def actor_options(self) -> dict[str, Any]:
        """The same, as the `options` of a Ray actor take it."""
        return {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "memory": self.memory_bytes or None,
            "resources": dict(self.custom),
        }

    def fits_in(self, other: ProcessResources) -> bool:
        """Whether a process that has `other` has enough."""
        has = other.by_ray_name()
        return all(amount <= has.get(name, 0.0) for name, amount in self.by_ray_name().items())


def process_key(subtask: Subtask) -> str:
    """Name of the process a subtask runs in: its own, or that of its slot or colocation group."""
    task, index = subtask.task, subtask.subtask_id.index
    if task.shares_process:
        return f"slot {task.slot_sharing_group}#{index}"
    if task.colocation_group is None:
        return str(subtask.subtask_id)
    return f"group {task.colocation_group}#{index}"


def subtasks_by_process(graph: ExecutionGraph) -> dict[str, list[Subtask]]:
    """The subtasks of each process by its key, in the order of the graph."""
    found: dict[str, list[Subtask]] = defaultdict(list)
    for subtask in graph.subtasks.values():
        found[process_key(subtask)].append(subtask)
    return dict(found)


def process_resources(
    graph: ExecutionGraph, groups: Mapping[str, SlotResources], slot_cpus: float
) -> dict[str, ProcessResources]:
    """What each process asks for, by its key.

    Args:
        groups: What a slot of a slot sharing group takes, where something was said.
        slot_cpus: CPUs of any other slot.

    Raises:
        ConfigurationError: The processes of a slot cannot share what it takes, or one process would be in
            slots of two groups.
    """
    slots: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for subtask_id, subtask in graph.subtasks.items():
        slots[subtask.task.slot_sharing_group, subtask_id.index][process_key(subtask)] = None
    _check_colocation(graph)
    return {
        key: _share(group, groups.get(group, SlotResources()), slot_cpus, len(members))
        for (group, _), members in slots.items()
        for key in members
    }


def _check_colocation(graph: ExecutionGraph) -> None:
    group_of: dict[str, str] = {}
    for subtask in graph.subtasks.values():
        colocation, group = subtask.task.colocation_group, subtask.task.slot_sharing_group
        if colocation is not None and group_of.setdefault(colocation, group) != group:
            raise ConfigurationError(
                f"{subtask.name} must share a process with the other operators of colocation group "
                f"{colocation!r}. They are in slot sharing group {group_of[colocation]!r}, but it is in "
                f"{group!r}. Put all of them in one slot sharing group"
            )


def start_order(graph: ExecutionGraph) -> list[str]:
    """The processes of a graph, by their keys, in the order in which to start them: from its end.

    Ray has a few processes ready, and makes the others anew. What stands behind in the graph may restore its
    state while they start; a source has nothing to do before somebody takes its records.
    """
    return list(dict.fromkeys(process_key(each) for each in reversed(graph.subtasks.values())))


def total(resources: Mapping[str, ProcessResources]) -> dict[str, float]:
    """What all processes ask for together, by Ray's names."""
    totals: dict[str, float] = defaultdict(float)
    for each in resources.values():
        for name, amount in each.by_ray_name().items():
            totals[name] += amount
    return dict(totals)


def slots_that_fit(job: JobGraph, slot_cpus: float, room: Mapping[str, float]) -> int:
    """The highest parallelism of a job for which there is room, 0 if there is none even for 1.

    Args:
        job: Operators that were limited to one subtask stay so.
        slot_cpus: CPUs of a slot for which nothing was said.
        room: What the job may use, by Ray's names.
    """
    low, high = 0, highest_parallelism(job)
    while low < high:
        middle = (low + high + 1) // 2
        graph = build_execution_graph(rescaled(job, {ALL_OPERATORS: middle}))
        wanted = total(process_resources(graph, job.slots, slot_cpus))
        if all(amount <= room.get(name, 0.0) + _TOLERANCE for name, amount in wanted.items()):
            low = middle
        else:
            high = middle - 1
    return low


def resource_problem(resources: Mapping[str, ProcessResources], there: Mapping[str, float]) -> str | None:
    """Why a cluster cannot hold a job, by what it has in all; `None` where it can."""
    for name, wanted in total(resources).items():
        has = float(there.get(name, 0.0))
        if wanted > has + _TOLERANCE:
            return (
                f"the job asks for {wanted:g} {RAY_NAMES.get(name, name)} ({len(resources)} task processes), "
                f"but the Ray cluster has {has:g} in all. Lower the parallelism, tidegate.slot.cpus or what "
                f"slot sharing groups take, or add nodes"
            )
    return None


def _share(group: str, slot: SlotResources, slot_cpus: float, count: int) -> ProcessResources:
    cpus = slot_cpus if slot.cpus is None else slot.cpus
    external = {name: _part(group, name, amount, count) for name, amount in slot.external}
    gpus = external.pop("gpu", 0.0)
    return ProcessResources(
        int(cpus / count * _RAY_UNITS) / _RAY_UNITS, slot.memory_bytes // count, gpus, external
    )


def _part(group: str, name: str, amount: float, count: int) -> float:
    part = amount / count
    # Ray hands out parts of one resource, or whole ones.
    if part > 1 and not part.is_integer():
        raise ConfigurationError(
            f"slot sharing group {group!r}: its {count} processes per slot cannot share {amount:g} {name}, "
            f"since above 1 each can only have a whole number; set a multiple of {count}, or at most {count}"
        )
    return int(part * _RAY_UNITS) / _RAY_UNITS
