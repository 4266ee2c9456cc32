"""The vertices of a job, from its plan: Flink's word for a task with all its subtasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...coordinator.monitoring.job_details import JobDetails, SubtaskDetails
from ...protocol.task_metrics import ExecutionState
from .models import job_models as models


@dataclass(frozen=True)
class VertexView:
    """One task of a job: its operators, in order, and its subtasks, by index."""

    vertex_id: str
    nodes: tuple[Mapping[str, Any], ...]
    subtasks: tuple[SubtaskDetails, ...]

    @property
    def name(self) -> str:
        """The names of its operators, as Flink joins them."""
        return " -> ".join(str(node["type"]) for node in self.nodes)

    @property
    def parallelism(self) -> int:
        """Of all its operators."""
        return int(self.nodes[0]["parallelism"])

    @property
    def max_parallelism(self) -> int:
        """Of all its operators; -1 where an older archive does not say."""
        return int(self.nodes[0].get("max_parallelism", -1))

    @property
    def uids(self) -> list[str]:
        """Of its operators."""
        return [str(node["uid"]) for node in self.nodes]

    @property
    def counts(self) -> dict[str, int]:
        """How many subtasks are in which state; Flink lists all of them."""
        counted = dict.fromkeys(_NAMES, 0)
        for subtask in self.subtasks:
            counted[subtask.state.value] += 1
        return counted

    @property
    def status(self) -> str:
        """What Flink's `ExecutionJobVertex` makes of the states of its subtasks."""
        states = {subtask.state for subtask in self.subtasks}
        for state in _BEFORE_OTHERS:
            if state in states:
                return state.value
        if states == {ExecutionState.FINISHED}:
            return ExecutionState.FINISHED.value
        runs = states & {ExecutionState.RUNNING, ExecutionState.FINISHED}
        return ExecutionState.RUNNING.value if runs else ExecutionState.CREATED.value


_BEFORE_OTHERS = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
)
_NAMES = (
    *(state.value for state in ExecutionState),
    # Of Flink's, and never met here.
    "RECONCILING",
    "SCHEDULED",
)


def vertices_of(details: JobDetails) -> list[VertexView]:
    """All vertices of a job, every one after those that it gets records from."""
    subtasks: dict[str, list[SubtaskDetails]] = {}
    for each in details.subtasks:
        subtasks.setdefault(each.subtask.task_id, []).append(each)
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for node in details.plan["nodes"]:
        groups.setdefault(int(node["task"]), []).append(node)
    views = []
    for _, nodes in sorted(groups.items()):
        vertex_id = f"task-{_head(nodes)['id']}"
        members = sorted(subtasks.get(vertex_id, []), key=lambda each: each.subtask.index)
        views.append(VertexView(vertex_id, tuple(nodes), tuple(members)))
    return views


def _head(nodes: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The operator of a chain that gets its input."""
    inside = {node["id"] for node in nodes}
    return next(
        node for node in nodes if not any(one["id"] in inside for one in node.get("predecessors", ()))
    )


def plan_of(details: JobDetails) -> models.Plan:
    """The graph of a job, as Flink's plan page has it."""
    vertices = vertices_of(details)
    home = {node["id"]: vertex.vertex_id for vertex in vertices for node in vertex.nodes}
    return models.Plan(
        jid=details.job_id,
        name=details.report.job_name,
        type="STREAMING",
        nodes=[_plan_node(vertex, home) for vertex in vertices],
    )


def _plan_node(vertex: VertexView, home: Mapping[Any, str]) -> models.PlanNode:
    edges = [
        (home[one["id"]], str(one["ship_strategy"]))
        for node in vertex.nodes
        for one in node.get("predecessors", ())
        if home[one["id"]] != vertex.vertex_id
    ]
    return models.PlanNode(
        id=vertex.vertex_id,
        parallelism=vertex.parallelism,
        operator="",
        operator_strategy="",
        description=vertex.name,
        inputs=[
            models.PlanInput(num=number, id=source, ship_strategy=how, exchange="pipelined_bounded")
            for number, (source, how) in enumerate(edges)
        ],
        operators=[
            models.PlanOperator(
                uid=str(node["uid"]), name=str(node["type"]), description=str(node["contents"])
            )
            for node in vertex.nodes
        ],
    )
