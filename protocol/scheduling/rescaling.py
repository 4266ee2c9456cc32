"""Another parallelism for some operators of a job: the same tasks and exchanges, with other subtasks.

Chaining stays as it was decided when the job was submitted: what is chained, or joined by a forward
exchange, changes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...common.errors import ConfigurationError
from .partitioning import Partitioning
from .plan import JobGraph, StreamNode, Task

ALL_OPERATORS = "*"
"""Stands for every operator that is named by nothing else and that was not limited to one subtask."""


class RescaleError(ConfigurationError):
    """A job cannot have the parallelism that was asked for, or not now."""


def rescaled(graph: JobGraph, parallelism: Mapping[str, int]) -> JobGraph:
    """The graph with another parallelism.

    Args:
        graph: The job as it runs.
        parallelism: Numbers of subtasks by an operator's uid, or by its name where only one has it.
            `ALL_OPERATORS` stands for the rest.

    Returns:
        A new graph, equal to the old one where nothing changes.

    Raises:
        RescaleError: There is no such operator, or it cannot have so many subtasks.
    """
    groups = _groups(graph)
    chosen: dict[int, tuple[StreamNode, int]] = {}
    for name, number in parallelism.items():
        if name == ALL_OPERATORS:
            continue
        node = _find(graph, name)
        group = next(index for index, members in enumerate(groups) if node in _nodes(members))
        before, other = chosen.setdefault(group, (node, number))
        if other != number:
            raise RescaleError(
                f"{before} and {node} change together, since no records are exchanged between them; "
                f"{before.name!r} is to have parallelism {other} and {node.name!r} {number}"
            )
    wanted = {group: number for group, (_, number) in chosen.items()}
    if ALL_OPERATORS in parallelism:
        rest = _rest(groups, parallelism[ALL_OPERATORS], wanted)
        if not rest and not wanted:
            raise RescaleError("every operator of the job is limited to one subtask, so none can change")
        wanted.update(rest)
    for group, number in wanted.items():
        for node in _nodes(groups[group]):
            _check(node, number)
    by_task = {task.task_id: number for group, number in wanted.items() for task in groups[group]}
    tasks = [_with_parallelism(task, by_task.get(task.task_id, task.parallelism)) for task in graph.tasks]
    return replace(graph, tasks=tasks)


def parallelism_of(graph: JobGraph) -> dict[str, int]:
    """The numbers of subtasks by operator uid."""
    return {node.uid: node.parallelism for node in graph.operators}


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """Tasks that can only change together."""

    tasks: tuple[Task, ...]
    inputs: tuple[str, ...]
    """The first uids of the groups that their records come from."""

    @property
    def uids(self) -> tuple[str, ...]:
        """Of their operators."""
        return tuple(node.uid for node in _nodes(self.tasks))

    @property
    def stays_single(self) -> bool:
        """Whether the program limited one of them to one subtask."""
        return _is_limited(self.tasks)

    @property
    def highest_parallelism(self) -> int:
        """The most that they can have."""
        limits = [node.highest_parallelism or node.max_parallelism for node in _nodes(self.tasks)]
        return min([*limits, *(node.max_parallelism for node in _nodes(self.tasks))])


def operator_groups(graph: JobGraph) -> list[OperatorGroup]:
    """The groups of a job, each after those that its records come from, as far as there is such an order."""
    groups = _groups(graph)
    index_of = {task.task_id: index for index, members in enumerate(groups) for task in members}
    inputs: list[dict[str, None]] = [{} for _ in groups]
    for edge in graph.edges:
        source = index_of[graph.task_of_node(edge.source_id).task_id]
        target = index_of[graph.task_of_node(edge.target_id).task_id]
        if source != target:
            inputs[target][groups[source][0].head.uid] = None
    return [OperatorGroup(tuple(members), tuple(inputs[index])) for index, members in enumerate(groups)]


def highest_parallelism(graph: JobGraph) -> int:
    """The most that `ALL_OPERATORS` can be asked to have."""
    groups = [members for members in _groups(graph) if not _is_limited(members)]
    bounds = (min(node.max_parallelism for node in _nodes(members)) for members in groups)
    return min(bounds, default=1)


def _rest(groups: list[list[Task]], number: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """What `ALL_OPERATORS` means: as at submission, no more than an operator can use."""
    rest = {}
    for index, members in enumerate(groups):
        if index not in wanted and not _is_limited(members):
            limits = [each.highest_parallelism for each in _nodes(members)]
            rest[index] = min([number, *(limit for limit in limits if limit is not None)])
    return rest


def _groups(graph: JobGraph) -> list[list[Task]]:
    """Tasks that forward exchanges join, which so have one parallelism."""
    group_of = {task.task_id: [task] for task in graph.tasks}
    for edge in graph.edges:
        if edge.partitioning is not Partitioning.FORWARD:
            continue
        first, second = graph.task_of_node(edge.source_id), graph.task_of_node(edge.target_id)
        joined = group_of[first.task_id]
        if joined is not group_of[second.task_id]:
            joined += group_of[second.task_id]
            for task in joined:
                group_of[task.task_id] = joined
    return list({id(group): group for group in group_of.values()}.values())


def _nodes(tasks: Iterable[Task]) -> list[StreamNode]:
    return [node for task in tasks for node in task.nodes]


def _is_limited(members: Iterable[Task]) -> bool:
    return any(node.stays_single for node in _nodes(members))


def _find(graph: JobGraph, name: str) -> StreamNode:
    operators = graph.operators
    found = [node for node in operators if node.uid == name] or [
        node for node in operators if node.name == name
    ]
    if not found:
        there = ", ".join(f"{node.name!r} (uid {node.uid})" for node in operators)
        raise RescaleError(f"the job has no operator with uid or name {name!r}; there is: {there}")
    if len(found) > 1:
        uids = ", ".join(repr(node.uid) for node in found)
        raise RescaleError(f"{len(found)} operators are called {name!r}; name one by its uid: {uids}")
    return found[0]


def _check(node: StreamNode, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise RescaleError(f"{node}: the parallelism must be a whole number from 1 on, got {number!r}")
    highest = node.highest_parallelism
    if highest is not None and number > highest:
        raise RescaleError(f"{node} can only run with parallelism {highest}, not {number}")
    if number > node.max_parallelism:
        raise RescaleError(
            f"{node} has max parallelism {node.max_parallelism}, so it cannot have {number} subtasks; a job "
            f"that is to grow further has to be started with a higher set_max_parallelism()"
        )


def _with_parallelism(task: Task, number: int) -> Task:
    if task.parallelism == number:
        return task
    nodes = [replace(node, parallelism=number) for node in task.nodes]
    return replace(task, nodes=nodes, parallelism=number)
