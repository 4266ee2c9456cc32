"""What runs in the coordinator for operators: enumerators and alignment of sources, leaders of epochs."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from ..common.errors import TidegateError
from ..operators.chain import load_operator
from ..operators.sources.sources import Source, SourceOperator
from ..protocol.checkpoints.manifest import CheckpointManifest
from ..protocol.checkpoints.trigger import NEVER_MS
from ..protocol.ids import Attempt, CheckpointId, SubtaskId
from ..protocol.scheduling.plan import JobGraph, StreamNode
from ..protocol.source_events import CoordinatorEvent, ReaderStarted, WatermarkLimit, WatermarkReported
from ..protocol.stages.epoch_messages import FromLeader, ToLeader
from ..protocol.task_events import FromOperator, ToOperator
from ..protocol.watermark_alignment import WatermarkAligner
from .deployment.ordered_ports import OrderedPorts
from .enumerator_host import EnumeratorHost, HostPorts
from .epoch_leaders import EpochLeaders
from .ports import CoordinatorPorts
from .restore.restore import stored_operator


class OperatorCoordinators:
    """All of one job. They live as long as an attempt; the next one restores them from its checkpoint.

    Args:
        graph: The job.
        ports: The shell.
        fail: Called with a cause, and whether a restart may help.
        warn: Takes what went wrong and matters no more.
    """

    def __init__(
        self,
        graph: JobGraph,
        ports: CoordinatorPorts,
        fail: Callable[[str, bool], None],
        warn: Callable[[str], None],
    ) -> None:
        self._fail = fail
        self._warn = warn
        self._set_nodes(graph)
        self.ports = OrderedPorts(ports, self.subtasks)
        """The shell for everybody who speaks to the tasks."""
        self._attempt = Attempt(0)
        self._hosts: dict[str, EnumeratorHost] = {}
        self._readers: dict[str, dict[int, tuple[Any, ...]]] = {}
        self._snapshots: dict[CheckpointId, dict[str, bytes]] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._timer_numbers = count()
        self._aligner = WatermarkAligner()
        self._leaders = EpochLeaders(self._send)

    def _set_nodes(self, graph: JobGraph) -> None:
        self._nodes = {node.uid: node for node in graph.operators if node.is_coordinated}
        self._task_ids = {uid: graph.task_of_node(node.node_id).task_id for uid, node in self._nodes.items()}

    def rescaled(self, graph: JobGraph) -> None:
        """The operators have another parallelism from the next attempt on."""
        self._set_nodes(graph)
        self.ports.rescaled(self.subtasks)

    @property
    def subtasks(self) -> list[SubtaskId]:
        """The subtasks in which the other halves run."""
        return [
            SubtaskId(self._task_ids[uid], index)
            for uid, node in self._nodes.items()
            for index in range(node.parallelism)
        ]

    # ------------------------------------------------------------ attempts

    def deploy(self, attempt: Attempt) -> None:
        """A new attempt begins; its readers will say when they are open."""
        self._attempt = attempt
        self._readers = {uid: {} for uid in self._nodes}
        self._aligner = WatermarkAligner()
        self._leaders = EpochLeaders(self._send)

    def run(self, manifest: CheckpointManifest | None) -> bool:
        """All subtasks of the attempt run; whether what is here runs too."""
        for uid, node in self._nodes.items():
            if not node.is_source:
                continue
            stored = None if manifest is None else stored_operator(node, manifest)
            try:
                source = _source(node)
            except TidegateError as error:
                self._fail(str(error), False)
                return False
            if not source.is_enumerated:
                continue
            host = EnumeratorHost(node, source, self._host_ports(uid))
            self._hosts[uid] = host
            if not host.run(self._readers[uid], None if stored is None else stored.coordinator):
                return False
        self._leaders.run()
        return True

    def stop(self) -> None:
        """The attempt is over."""
        hosts, self._hosts = self._hosts, {}
        self._snapshots, self._timers = {}, []
        self._aligner = WatermarkAligner()
        self._leaders.stop()
        for host in hosts.values():
            problem = host.close()
            if problem is not None:
                self._warn(problem)

    def handle(self, event: FromOperator) -> None:
        """An operator of this attempt sent something."""
        if isinstance(event.event, ToLeader):
            parallelism = self._nodes[event.operator_uid].parallelism
            self._leaders.handle(event.operator_uid, parallelism, event.subtask.index, event.event)
        elif isinstance(event.event, ReaderStarted):
            self._readers[event.operator_uid][event.subtask.index] = event.event.splits
        elif isinstance(event.event, WatermarkReported):
            member = (event.operator_uid, event.subtask.index)
            self._aligner.report(member, event.event, self._now_ms())
        elif event.operator_uid in self._hosts:
            self._hosts[event.operator_uid].handle(event.subtask.index, event.event)

    def _host_ports(self, uid: str) -> HostPorts:
        def send(index: int, event: CoordinatorEvent) -> None:
            self._send(uid, index, event)

        return HostPorts(send, self._schedule, self.ports.run_in_background, self.ports.post, self._fail)

    def _send(self, uid: str, index: int, event: CoordinatorEvent | FromLeader) -> None:
        self.ports.send(self._attempt, SubtaskId(self._task_ids[uid], index), ToOperator(uid, event))

    # ------------------------------------------------------------ checkpoints

    def snapshot(self, checkpoint_id: CheckpointId) -> None:
        """Keep what all know now, right before the barriers of a checkpoint are sent.

        Raises:
            TidegateError: One of them could not say.
        """
        self._snapshots[checkpoint_id] = {
            uid: host.snapshot(checkpoint_id) for uid, host in self._hosts.items()
        }
        self._leaders.triggered(checkpoint_id)

    def state_of(self, checkpoint_id: CheckpointId, uid: str) -> bytes | None:
        """What an operator's half knew when a checkpoint was triggered; `None` if it has none."""
        return self._snapshots.get(checkpoint_id, {}).get(uid)

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete."""
        self._snapshots = {each: kept for each, kept in self._snapshots.items() if each > checkpoint_id}
        for host in list(self._hosts.values()):
            host.complete(checkpoint_id)
        self._leaders.completed(checkpoint_id)

    def forget(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete."""
        self._snapshots.pop(checkpoint_id, None)
        self._leaders.aborted(checkpoint_id)

    # ------------------------------------------------------------ time

    def next_due_ms(self) -> int:
        """When `tick` should be called next."""
        due_ms = self._timers[0][0] if self._timers else NEVER_MS
        return min(due_ms, self._aligner.next_due_ms())

    def tick(self) -> None:
        """Time passed: perform what is due."""
        while self._timers and self._timers[0][0] <= self._now_ms():
            heapq.heappop(self._timers)[2]()
        for (uid, index), limit_ms in self._aligner.limits(self._now_ms()):
            self._send(uid, index, WatermarkLimit(limit_ms))

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self._now_ms() + delay_ms, next(self._timer_numbers), action))

    def _now_ms(self) -> int:
        return self.ports.now_ns() // 1_000_000


def _source(node: StreamNode) -> Source:
    operator = load_operator(node)
    assert isinstance(operator, SourceOperator), "only sources have enumerators"
    return operator.source
