"""The first two of a job's three graphs.

`StreamGraph` is what the user wrote: one node per operator. `JobGraph` chains operators that need no
exchange into tasks. `execution_graph` has the third, one subtask per parallel instance.
Operators themselves are opaque here: each node carries its operator as pickled bytes.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from ...common.errors import GraphError
from ..key_groups import check_parallelism
from .partitioning import Partitioning


class Chaining(enum.Enum):
    """Whether an operator may share a task with the one before it."""

    ALWAYS = "always"
    HEAD = "head"
    """Starts a new chain; later operators may join it."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """Records of `source_id` flow to input `input_index` of `target_id`.

    `key_selector` is the pickled function that gives a record's key (hash and custom partitioning),
    `partitioner` the pickled function that gives the subtask of a key (custom partitioning).
    With an `output_tag` the edge carries the side output of that id, else the main output.
    """

    edge_id: int
    source_id: int
    target_id: int
    partitioning: Partitioning
    input_index: int = 0
    key_selector: bytes | None = None
    output_tag: str | None = None
    partitioner: bytes | None = None


DEFAULT_SLOT_SHARING_GROUP = "default"


@dataclass(frozen=True, slots=True)
class SlotResources:
    """What one slot of a slot sharing group takes.

    Attributes:
        cpus: CPUs, or `None` for those of any slot.
        memory_bytes: Memory, 0 where nothing was said.
        external: Further resources by name, such as `gpu`.
    """

    cpus: float | None = None
    memory_bytes: int = 0
    external: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class StreamNode:
    """One operator as the user wrote it."""

    node_id: int
    name: str
    uid: str
    operator: bytes
    parallelism: int
    max_parallelism: int
    chaining: Chaining = Chaining.ALWAYS
    is_source: bool = False
    is_sink: bool = False
    is_stateful: bool = False
    is_coordinated: bool = False
    """Whether half of the operator runs in the coordinator."""
    uid_is_explicit: bool = False
    colocation_group: str | None = None
    """Subtasks of one group with the same index run in one process."""
    defined_at: str = "unknown line"
    previous_uids: tuple[str, ...] = ()
    """Uids under which older checkpoints may hold the operator's state, latest first."""
    description: str = ""
    """What the plan says of the operator; its name where nothing was said."""
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    """Subtasks of one group with the same index share one slot."""
    buffer_timeout_ms: int | None = None
    """How long its records wait for their batch to fill: -1 for ever, `None` as the job's do."""
    highest_parallelism: int | None = None
    """The most subtasks in which it can run, `None` where only its key groups bound them."""
    stays_single: bool = False
    """Whether the program limited it to one subtask: a rescale of the whole job leaves it alone."""

    def __str__(self) -> str:
        return f"operator {self.name!r} ({self.defined_at})"


@dataclass(slots=True)
class StreamGraph:
    """Operators and edges in the order in which the user wrote them."""

    job_name: str
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)
    slots: dict[str, SlotResources] = field(default_factory=dict)
    """What the slots of a slot sharing group take, where something was said."""

    def inputs_of(self, node_id: int) -> list[StreamEdge]:
        """Edges into a node, by input index, then in order of creation."""
        edges = [edge for edge in self.edges if edge.target_id == node_id]
        return sorted(edges, key=lambda edge: (edge.input_index, edge.edge_id))

    def outputs_of(self, node_id: int) -> list[StreamEdge]:
        """Edges out of a node in order of creation."""
        return [edge for edge in self.edges if edge.source_id == node_id]

    def validate(self) -> None:
        """Raise `GraphError` or `ConfigurationError` for a graph that cannot run."""
        if not self.nodes:
            raise GraphError("the job has no operators; add a source and a sink before execute()")
        self._check_uids()
        for node in self.nodes.values():
            check_parallelism(f"{node.name} ({node.defined_at})", node.parallelism, node.max_parallelism)
            if not node.is_source and not self.inputs_of(node.node_id):
                raise GraphError(f"{node} has no input; connect it to a stream")
        for edge in self.edges:
            self._check_forward(edge)
        self.topological_order()

    def _check_uids(self) -> None:
        seen: dict[str, StreamNode] = {}
        for node in self.nodes.values():
            other = seen.setdefault(node.uid, node)
            if other is not node:
                raise GraphError(
                    f"uid {node.uid!r} is used by {other} and by {node}; give each its own uid()"
                )
        for node in self.nodes.values():
            for uid in node.previous_uids:
                other = seen.setdefault(uid, node)
                if other is not node:
                    raise GraphError(
                        f"the state of uid {uid!r} is claimed by {other} and, as its previous uid, "
                        f"by {node}; only one operator can restore it"
                    )

    def _check_forward(self, edge: StreamEdge) -> None:
        source, target = self.nodes[edge.source_id], self.nodes[edge.target_id]
        if edge.partitioning is Partitioning.FORWARD and source.parallelism != target.parallelism:
            raise GraphError(
                f"forward from {source} with parallelism {source.parallelism} to {target} with "
                f"parallelism {target.parallelism}; make them equal or use rebalance()"
            )

    def topological_order(self) -> list[int]:
        """Node ids, every node after its inputs. Raises `GraphError` for a cycle, naming it."""
        missing = {node_id: len(self.inputs_of(node_id)) for node_id in self.nodes}
        ready = [node_id for node_id, count in missing.items() if count == 0]
        order: list[int] = []
        while ready:
            node_id = ready.pop(0)
            order.append(node_id)
            for edge in self.outputs_of(node_id):
                missing[edge.target_id] -= 1
                if missing[edge.target_id] == 0:
                    ready.append(edge.target_id)
        if len(order) < len(self.nodes):
            names = [str(self.nodes[node_id]) for node_id, count in missing.items() if count > 0]
            raise GraphError(f"the graph has a cycle through {', '.join(names)}; remove one edge")
        return order


@dataclass(slots=True)
class Task:
    """A chain of operators that run in one loop. `chained` are the edges inside, in data order."""

    task_id: str
    name: str
    nodes: list[StreamNode]
    chained: list[StreamEdge]
    parallelism: int
    max_parallelism: int
    is_source: bool
    colocation_group: str | None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    shares_process: bool = False
    """Whether its subtasks run in one process with all others of their slots."""

    @property
    def head(self) -> StreamNode:
        """The operator that gets the task's input."""
        return self.nodes[0]

    def node(self, node_id: int) -> StreamNode:
        """One of its operators."""
        (found,) = (node for node in self.nodes if node.node_id == node_id)
        return found


@dataclass(slots=True)
class JobGraph:
    """Tasks and the exchanges between them, in topological order."""

    job_name: str
    tasks: list[Task]
    edges: list[StreamEdge]
    slots: dict[str, SlotResources] = field(default_factory=dict)

    def inputs_of(self, task: Task) -> list[tuple[StreamEdge, EdgeOrigin]]:
        """The edges into a task with their origins, by input index, then in order of creation."""
        ordinals: Counter[int] = Counter()
        found = []
        for edge in sorted(self.edges, key=lambda edge: (edge.input_index, edge.edge_id)):
            if edge.target_id != task.head.node_id:
                continue
            upstream = self.task_of_node(edge.source_id)
            node = upstream.node(edge.source_id)
            ordinal = ordinals[edge.source_id]
            ordinals[edge.source_id] += 1
            origin = EdgeOrigin(node.uid, ordinal, upstream.parallelism, edge.partitioning)
            found.append((edge, origin))
        return found

    def task_of_node(self, node_id: int) -> Task:
        """The task that runs an operator."""
        for task in self.tasks:
            if any(node.node_id == node_id for node in task.nodes):
                return task
        raise KeyError(node_id)

    @property
    def operators(self) -> list[StreamNode]:
        """All operators of all tasks."""
        return [node for task in self.tasks for node in task.nodes]


def build_job_graph(
    graph: StreamGraph, chaining_enabled: bool = True, share_processes: bool = False
) -> JobGraph:
    """Validate a stream graph and chain its operators into tasks.

    Args:
        graph: As the user wrote it.
        chaining_enabled: Whether operators are chained at all.
        share_processes: Whether the subtasks of a slot run in one process.
    """
    graph.validate()
    chained = {e.edge_id for e in graph.edges if chaining_enabled and _is_chainable(graph, e)}
    tasks: list[Task] = []
    for node_id in graph.topological_order():
        inputs = graph.inputs_of(node_id)
        if not any(edge.edge_id in chained for edge in inputs):
            tasks.append(_build_task(graph, node_id, chained, share_processes))
    exchanges = [edge for edge in graph.edges if edge.edge_id not in chained]
    return JobGraph(graph.job_name, tasks, exchanges, graph.slots)


def _is_chainable(graph: StreamGraph, edge: StreamEdge) -> bool:
    source, target = graph.nodes[edge.source_id], graph.nodes[edge.target_id]
    return (
        edge.partitioning is Partitioning.FORWARD
        and len(graph.inputs_of(target.node_id)) == 1
        and source.parallelism == target.parallelism
        and source.max_parallelism == target.max_parallelism
        and source.chaining is not Chaining.NEVER
        and target.chaining is Chaining.ALWAYS
        and source.colocation_group == target.colocation_group
        and source.slot_sharing_group == target.slot_sharing_group
    )


def _build_task(graph: StreamGraph, head_id: int, chained: set[int], shares_process: bool) -> Task:
    nodes = [graph.nodes[head_id]]
    inner: list[StreamEdge] = []
    position = 0
    while position < len(nodes):
        for edge in graph.outputs_of(nodes[position].node_id):
            if edge.edge_id in chained:
                inner.append(edge)
                nodes.append(graph.nodes[edge.target_id])
        position += 1
    head = nodes[0]
    return Task(
        task_id=f"task-{head.node_id}",
        name=" -> ".join(node.name for node in nodes),
        nodes=nodes,
        chained=inner,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        is_source=head.is_source,
        colocation_group=head.colocation_group,
        slot_sharing_group=head.slot_sharing_group,
        shares_process=shares_process,
    )


@dataclass(frozen=True, slots=True)
class EdgeOrigin:
    """Where an edge into a task comes from, in words that outlive this run of the program.

    `ordinal` counts the edges that lead from one operator to one task. `parallelism` is the operator's.
    """

    upstream_uid: str = ""
    ordinal: int = 0
    parallelism: int = 1
    partitioning: Partitioning = Partitioning.REBALANCE
