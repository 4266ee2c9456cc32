"""A chain: the operators of one task, wired so that each emits into the next."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..common.errors import SerializationError, StateError, TidegateError
from ..protocol.checkpoints.handles import OperatorSnapshot
from ..protocol.elements import Batch, CheckpointBarrier
from ..protocol.ids import CheckpointId
from ..protocol.scheduling.execution_graph import Subtask
from ..protocol.scheduling.plan import StreamNode
from ..protocol.source_events import CoordinatorEvent
from ..protocol.stages.epoch_messages import FromLeader
from ..protocol.stages.stage_reports import StageReport
from ..protocol.watermarks import MIN_WATERMARK_MS
from ..state.backend import FrozenKeyedState, KeyedStateBackend
from ..telemetry.metrics import MetricGroup
from .base import FrozenOperator, OperatorContext, StreamOperator
from .output import Emit, Output, Receiver
from .sources.sources import PolledOperator


class OperatorChain:
    """The operators of one subtask in data order.

    Args:
        subtask: The subtask, with its task's operators and inner edges.
        context_of: Makes the context of an operator.
        exchange_of: The edges that leave the task, by edge id.
    """

    records_read = 0
    """Records that the source at the head has emitted."""

    def __init__(
        self,
        subtask: Subtask,
        context_of: Callable[[StreamNode], OperatorContext],
        exchange_of: Mapping[int, Receiver],
    ) -> None:
        self._nodes = subtask.task.nodes
        self._operators = {node.node_id: load_operator(node) for node in self._nodes}
        self._bound: list[StreamOperator] = []
        try:
            for node in self._nodes:
                context = context_of(node)
                output = Output(self._receivers(subtask, node, exchange_of), context.is_batch)
                operator = self._operators[node.node_id]
                if isinstance(operator, PolledOperator):
                    output.emit = self._counting(output.emit)
                # Before the set-up: it is closed with the operator, also if the set-up fails.
                operator.context = context
                self._bound.append(operator)
                operator.setup(context, output)
        except BaseException:
            # Nobody gets hold of this chain, so what its first operators opened is closed here.
            self.close()
            raise
        self._head = self._operators[self._nodes[0].node_id]
        self._sinks = [
            (position, operator)
            for position, operator in enumerate(self._in_order())
            if type(operator).is_ready is not StreamOperator.is_ready
        ]
        self._with_timers: list[tuple[int, StreamOperator]] = []
        self._finished = 0
        self._keyed = [op.keyed for op in self._in_order() if op.keyed is not None]
        operator_states = (op.context.operator_state for op in self._in_order())
        self._on_disk = [states.on_disk for states in operator_states if states.on_disk is not None]

    def _receivers(
        self, subtask: Subtask, node: StreamNode, exchange_of: Mapping[int, Receiver]
    ) -> list[Receiver]:
        inner = [edge for edge in subtask.task.chained if edge.source_id == node.node_id]
        receivers = [_into(self._operators[edge.target_id], edge.output_tag) for edge in inner]
        outer = [out.edge for out in subtask.outputs if out.edge.source_id == node.node_id]
        return receivers + [exchange_of[edge.edge_id] for edge in outer]

    def _counting(self, emit: Emit) -> Emit:
        def count(batch: Batch) -> None:
            self.records_read += len(batch)
            emit(batch)

        return count

    def _in_order(self) -> list[StreamOperator]:
        return [self._operators[node.node_id] for node in self._nodes]

    @property
    def source(self) -> PolledOperator | None:
        """The source at the head, if the task has no input."""
        return self._head if isinstance(self._head, PolledOperator) else None

    @property
    def watermark_ms(self) -> int:
        """Event time of the first operator that has one; `MIN_WATERMARK_MS` if none has."""
        found = (operator.current_watermark_ms for operator in self._in_order())
        return next((each for each in found if each != MIN_WATERMARK_MS), MIN_WATERMARK_MS)

    @property
    def timer_count(self) -> int:
        """Registered timers of all operators."""
        services = (operator.timer_services for operator in self._in_order())
        return sum(each.count for each in services if each is not None)

    def metric_groups(self) -> list[MetricGroup]:
        """The metrics of each operator."""
        return [operator.context.metrics for operator in self._in_order()]

    def stage_reports(self) -> tuple[StageReport, ...]:
        """The epochs of each stage."""
        reports = (operator.stage_report() for operator in self._in_order())
        return tuple(report for report in reports if report is not None)

    def restore(self, snapshots: Mapping[str, OperatorSnapshot], owned: bool) -> None:
        """Give every operator its restored state; before `open`."""
        for node in self._nodes:
            snapshot = snapshots.get(node.uid)
            if snapshot is None:
                continue
            self._operators[node.node_id].restore(snapshot, owned)

    def open(self) -> None:
        """Open the operators, last first, so that each may emit at once."""
        operators = self._in_order()
        for operator in reversed(operators):
            operator.open()
            operator.opened()
        self._with_timers = [
            (position, operator)
            for position, operator in enumerate(operators)
            if operator.timer_services is not None
        ]

    def check_claimed(self, is_allowed: bool) -> None:
        """See `StreamOperator.check_claimed`."""
        for operator in self._in_order():
            operator.check_claimed(is_allowed)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Push a batch through the chain."""
        self._head.process_batch(batch, input_index)

    def process_watermark(self, timestamp_ms: int, input_index: int) -> None:
        """Advance the event time of an input; each operator passes it on to the next."""
        self._head.process_watermark(timestamp_ms, input_index)

    @property
    def is_advancing(self) -> bool:
        """Whether a watermark is still on its way through the chain; `advance_further` brings it on.

        Nothing else may be processed meanwhile.
        """
        return self._advancing >= 0

    @property
    def _advancing(self) -> int:
        """Position of the last operator whose timers hold up a watermark; -1 if none do."""
        for position, operator in reversed(self._with_timers):
            if operator.is_advancing:
                return position
        return -1

    def is_advancing_behind(self, operator_uid: str) -> bool:
        """Whether a watermark is on its way through an operator behind this one."""
        advancing = self._advancing
        return any(node.uid == operator_uid for node in self._nodes[: max(advancing, 0)])

    def advance_further(self) -> None:
        """Fire some of the timers that hold the watermark up."""
        self._in_order()[self._advancing].advance_further()

    def process_status(self, is_idle: bool, input_index: int) -> None:
        """An input became idle, or active again; each operator passes it on to the next."""
        self._head.process_status(is_idle, input_index)

    def handle_coordinator_event(self, operator_uid: str, event: CoordinatorEvent | FromLeader) -> None:
        """Give one of the operators what its half in the coordinator said."""
        (node,) = (node for node in self._nodes if node.uid == operator_uid)
        self._operators[node.node_id].handle_coordinator_event(event)

    def query(self, operator_uid: str, state_name: str, key: Any, namespace: Any) -> Any:
        """What a keyed state of one of the operators holds for a key; see `KeyedStateBackend.query`.

        Raises:
            StateError: There is no such state; the message lists those there are.
        """
        (node,) = (node for node in self._nodes if node.uid == operator_uid)
        keyed = self._operators[node.node_id].keyed
        if keyed is None:
            raise StateError(f"operator {node.name!r} (uid {node.uid}) keeps no keyed state")
        return keyed.query(state_name, key, namespace)

    def is_storing(self) -> bool:
        """Whether records have to wait for the state of those before them to be stored."""
        return any(not backend.is_ready for backend in self._backends())

    def rest(self) -> None:
        """The task has nothing to do until the next `is_ready`."""
        for backend in self._backends():
            backend.rest()

    def is_ready(self) -> bool:
        """Whether no operator has to wait for the outside world, or for its state to be stored.

        While a watermark is on its way, those count that come behind it.
        """
        advancing = self._advancing
        is_ready = all(operator.is_ready() for position, operator in self._sinks if position > advancing)
        return is_ready and not self.is_storing()

    def spills(self) -> list[FrozenKeyedState]:
        """Write buffers over their limit, frozen; to be persisted off the loop."""
        return [backend.spill() for backend in self._backends() if backend.needs_spill]

    def _backends(self) -> Iterator[KeyedStateBackend]:
        """All that buffer changes in front of local disk."""
        yield from self._keyed
        for states in self._on_disk:
            yield from states.backends

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        """Let the operators emit what must come before the barrier, first operator first."""
        for operator in self._in_order():
            operator.prepare_snapshot(barrier)

    def snapshot_state(self, barrier: CheckpointBarrier) -> dict[str, FrozenOperator]:
        """The synchronous part of the snapshot, by operator uid."""
        return {node.uid: self._operators[node.node_id].snapshot_state(barrier) for node in self._nodes}

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Tell every operator."""
        for operator in self._in_order():
            operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Tell every operator."""
        for operator in self._in_order():
            operator.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> bool:
        """All input ended: first operator first, so that what one emits reaches the next in time.

        Returns:
            False when an operator is not drained, or a watermark still on its way; call again, which
            goes on with that one.
        """
        operators = self._in_order()
        while self._finished < len(operators):
            operator = operators[self._finished]
            if self.is_advancing or not operator.is_drained():
                return False
            self._finished += 1
            operator.finish()
        return True

    def close(self) -> list[Exception]:
        """Close every operator that has a context; errors are returned, not raised."""
        errors: list[Exception] = []
        for operator in self._bound:
            try:
                operator.close()
            except Exception as error:
                errors.append(error)
        return errors


def load_operator(node: StreamNode) -> StreamOperator:
    """A fresh operator for one subtask. Job code is trusted: the user submitted it."""
    try:
        operator: Any = pickle.loads(node.operator)
    except TidegateError:
        raise
    except Exception as error:
        raise SerializationError(
            f"{node}: its function could not be loaded in the task's process: {error}. Make the "
            f"modules it uses importable there (for Ray: runtime_env working_dir or pip)"
        ) from error
    assert isinstance(operator, StreamOperator)
    return operator


def _into(operator: StreamOperator, output_tag: str | None) -> Receiver:
    process = operator.process_batch

    def emit(batch: Batch) -> None:
        process(batch, 0)

    return Receiver(emit, operator.process_watermark, operator.process_status, output_tag)
