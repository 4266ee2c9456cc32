"""The execution graph: one subtask per parallel instance, and the channels between them.

An exchange between two tasks of 5,000 subtasks has 25 million channels. So the graph keeps one `Exchange` per
edge and computes channels from it for one subtask at a time: building the graph takes time in proportion to
its subtasks, and so does a deployment's description of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ids import ChannelId, SubtaskId
from .partitioning import connected_subtasks
from .plan import EdgeOrigin, JobGraph, StreamEdge, Task

_NOWHERE = EdgeOrigin()


@dataclass(frozen=True, slots=True)
class InputChannel:
    """One input channel of a subtask and the operator input it feeds."""

    channel: ChannelId
    input_index: int
    origin: EdgeOrigin = _NOWHERE


@dataclass(frozen=True, slots=True)
class OutputEdge:
    """One edge that leaves a subtask, with a channel to each downstream subtask it reaches."""

    edge: StreamEdge
    channels: tuple[ChannelId, ...]
    downstream_max_parallelism: int
    downstream_parallelism: int
    buffer_timeout_ms: int | None = None
    """The sending operator's own, see `StreamNode`."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One edge between two tasks. Its channels follow from the partitioning and both parallelisms."""

    edge: StreamEdge
    origin: EdgeOrigin
    upstream_task_id: str
    downstream_task_id: str
    downstream_parallelism: int
    downstream_max_parallelism: int
    buffer_timeout_ms: int | None = None
    """The sending operator's own, see `StreamNode`."""
    upstream_name: str = ""
    """Name of the sending task."""
    downstream_name: str = ""
    """Name of the receiving task."""

    def sender_name(self, channel: ChannelId) -> str:
        """The sending subtask of a channel, as `Subtask.name` has it."""
        return f"{self.upstream_name} ({channel.upstream_index + 1}/{self.origin.parallelism})"

    def receiver_name(self, channel: ChannelId) -> str:
        """The receiving subtask of a channel, as `Subtask.name` has it."""
        return f"{self.downstream_name} ({channel.downstream_index + 1}/{self.downstream_parallelism})"

    def upstream_of(self, downstream_index: int) -> range:
        """The indexes of the upstream subtasks that send to one downstream subtask."""
        # Which subtasks are connected is symmetric, so one function serves both directions.
        return connected_subtasks(
            self.edge.partitioning, downstream_index, self.downstream_parallelism, self.origin.parallelism
        )

    def inputs_of(self, downstream_index: int) -> Iterable[InputChannel]:
        """The channels into one downstream subtask, by upstream index."""
        edge_id, input_index, origin = self.edge.edge_id, self.edge.input_index, self.origin
        return (
            InputChannel(ChannelId(edge_id, index, downstream_index), input_index, origin)
            for index in self.upstream_of(downstream_index)
        )

    def output_of(self, upstream_index: int) -> OutputEdge:
        """The edge as one upstream subtask sees it."""
        downstream = connected_subtasks(
            self.edge.partitioning, upstream_index, self.origin.parallelism, self.downstream_parallelism
        )
        return OutputEdge(
            self.edge,
            tuple(ChannelId(self.edge.edge_id, upstream_index, index) for index in downstream),
            self.downstream_max_parallelism,
            self.downstream_parallelism,
            self.buffer_timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class Subtask:
    """One parallel instance of a task, with the exchanges of its task.

    `inputs` and `outputs` are computed at each access, in time of the subtask's channels; a caller that needs
    one of them often keeps it.
    """

    subtask_id: SubtaskId
    task: Task
    incoming: tuple[Exchange, ...] = ()
    outgoing: tuple[Exchange, ...] = ()

    @property
    def name(self) -> str:
        """`task (1/2)`: the names of its operators, its number from 1, and the parallelism."""
        return f"{self.task.name} ({self.subtask_id.index + 1}/{self.task.parallelism})"

    @property
    def inputs(self) -> tuple[InputChannel, ...]:
        """Its input channels, by operator input, edge and upstream index: the order of channel indexes."""
        index = self.subtask_id.index
        return tuple(channel for exchange in self.incoming for channel in exchange.inputs_of(index))

    def upstream_of(self, channel_index: int) -> SubtaskId:
        """The subtask that sends on the input channel at this position of `inputs`.

        Raises:
            IndexError: There is no such channel.
        """
        position = channel_index
        for exchange in self.incoming:
            upstream = exchange.upstream_of(self.subtask_id.index)
            if position < len(upstream):
                return SubtaskId(exchange.upstream_task_id, upstream[position])
            position -= len(upstream)
        raise IndexError(f"{self.name} has no input channel {channel_index}")

    def sender_name(self, channel: ChannelId) -> str:
        """The name of the subtask that sends on an input channel."""
        exchange = next(each for each in self.incoming if each.edge.edge_id == channel.edge_id)
        return exchange.sender_name(channel)

    def receiver_name(self, channel: ChannelId) -> str:
        """The name of the subtask that receives on an output channel."""
        exchange = next(each for each in self.outgoing if each.edge.edge_id == channel.edge_id)
        return exchange.receiver_name(channel)

    @property
    def outputs(self) -> tuple[OutputEdge, ...]:
        """The edges that leave it."""
        return tuple(exchange.output_of(self.subtask_id.index) for exchange in self.outgoing)


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """Every subtask of a job, and the exchanges between them by the ids of their edges."""

    subtasks: dict[SubtaskId, Subtask]
    exchanges: dict[int, Exchange]

    @property
    def sources(self) -> frozenset[SubtaskId]:
        """Subtasks without input: where checkpoints are triggered."""
        return frozenset(key for key, subtask in self.subtasks.items() if subtask.task.is_source)

    def receiver_of(self, channel: ChannelId) -> SubtaskId:
        """The receiving subtask of a channel; not in `subtasks` if the channel is of another parallelism."""
        return SubtaskId(self.exchanges[channel.edge_id].downstream_task_id, channel.downstream_index)

    def sender_of(self, channel: ChannelId) -> SubtaskId:
        """The sending subtask of a channel; not in `subtasks` if the channel is of another parallelism."""
        return SubtaskId(self.exchanges[channel.edge_id].upstream_task_id, channel.upstream_index)


def build_execution_graph(job: JobGraph) -> ExecutionGraph:
    """Expand every task into its subtasks."""
    exchanges = {
        edge.edge_id: _exchange(job, task, edge, origin)
        for task in job.tasks
        for edge, origin in job.inputs_of(task)
    }
    in_order = sorted(exchanges.values(), key=lambda each: (each.edge.input_index, each.edge.edge_id))
    subtasks: dict[SubtaskId, Subtask] = {}
    for task in job.tasks:
        incoming = tuple(each for each in in_order if each.downstream_task_id == task.task_id)
        outgoing = tuple(each for each in in_order if each.upstream_task_id == task.task_id)
        for subtask_id in subtask_ids(task):
            subtasks[subtask_id] = Subtask(subtask_id, task, incoming, outgoing)
    return ExecutionGraph(subtasks, exchanges)


def _exchange(job: JobGraph, downstream: Task, edge: StreamEdge, origin: EdgeOrigin) -> Exchange:
    upstream = job.task_of_node(edge.source_id)
    return Exchange(
        edge,
        origin,
        upstream.task_id,
        downstream.task_id,
        downstream.parallelism,
        downstream.max_parallelism,
        upstream.node(edge.source_id).buffer_timeout_ms,
        upstream.name,
        downstream.name,
    )


def subtask_ids(task: Task) -> Iterable[SubtaskId]:
    """Ids of the parallel instances of a task, in order."""
    return (SubtaskId(task.task_id, index) for index in range(task.parallelism))
