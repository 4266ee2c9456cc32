"""Builds the parts of a task from its deployment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..common.typeinfo import TypeInformation
from ..operators.async_io.async_loop import SharedEventLoop
from ..operators.base import OperatorContext, Work
from ..operators.chain import OperatorChain
from ..operators.output import Receiver
from ..operators.timers.processing_time import ProcessingTimeService
from ..protocol.key_groups import key_group_range_of_subtask
from ..protocol.scheduling.execution_graph import OutputEdge
from ..protocol.scheduling.plan import StreamNode
from ..protocol.source_events import ReaderEvent
from ..protocol.stages.epoch_messages import ToLeader
from ..protocol.task_events import FromOperator, TaskEvent
from ..state.backend import KeyedStateBackend, KeyedStateBackendParameters
from ..state.keyed.raw_state import RawKeyedState, RawKeyedStateParameters
from ..state.operator.list_storage import OperatorStateBackendParameters
from ..state.operator.operator_state_backend import OperatorStateBackend
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..state.storage.local_snapshots import LocalSnapshots
from ..telemetry.metrics import PROCESS_METRICS, MetricGroup
from .collected_results import CoordinatorResults
from .gate import InputGate
from .job_files import place_files
from .local_dirs import as_file_name, local_dir, local_snapshots_dir, remove_older_attempts
from .output import ChannelBooks, Exchange, OutputChannel, TaskOutput
from .partitioners import partitioner
from .ports import TaskDeployment, TaskPorts, TaskSettings


@dataclass(slots=True)
class TaskParts:
    """What a task's loop drives."""

    gate: InputGate
    output: TaskOutput
    chain: OperatorChain
    results: CoordinatorResults
    processing_time: ProcessingTimeService
    local_snapshots: LocalSnapshots | None


Mailbox = Callable[[str, Callable[[], None]], None]


def assemble(
    deployment: TaskDeployment, ports: TaskPorts, mailbox: Mailbox, trace_work: Callable[[Work], None]
) -> TaskParts:
    """Build gate, output and operators; nothing is restored or opened yet.

    Args:
        mailbox: Has an action of an operator, named by its uid, run on the task's loop; thread-safe.
        trace_work: Takes what operators want in the trace of the next checkpoint.
    """
    for path in local_dirs(deployment):
        remove_older_attempts(path)
    subtask, outputs = deployment.subtask, deployment.subtask.outputs
    gate = InputGate(deployment.attempt, subtask.inputs, ports.decode, ports.return_credit)
    books = ChannelBooks()
    channels = {
        channel: OutputChannel(
            deployment.attempt, channel, _settings_of(out, deployment.settings), ports, books
        )
        for out in outputs
        for channel in out.channels
    }
    names = {node.node_id: node.name for node in subtask.task.nodes}
    exchanges = {
        out.edge.edge_id: _exchange(
            out, [channels[channel] for channel in out.channels], names[out.edge.source_id]
        )
        for out in outputs
    }
    receivers = {out.edge.edge_id: _receiver(out, exchanges[out.edge.edge_id]) for out in outputs}
    processing_time = ProcessingTimeService(lambda: ports.now_ns() // 1_000_000)
    results = CoordinatorResults(deployment, ports)
    copies, storage = _local_snapshots(deployment), deployment.settings.storage
    if copies is not None and storage is not None:
        storage = copies.beside(storage)
    event_loop = SharedEventLoop(ports.create_event_loop, subtask.name)
    context_of = _ContextFactory(
        deployment, results, storage, processing_time, mailbox, event_loop, ports.report, trace_work
    )
    chain = OperatorChain(subtask, context_of, receivers)
    output = TaskOutput(ports, list(channels.values()), list(exchanges.values()), books)
    return TaskParts(gate, output, chain, results, processing_time, copies)


def _exchange(out: OutputEdge, channels: Sequence[OutputChannel], operator_name: str) -> Exchange:
    return Exchange(partitioner(out, channels, operator_name), channels)


def _receiver(out: OutputEdge, exchange: Exchange) -> Receiver:
    """An edge that leaves the task, as the operator before it sees it."""
    return Receiver(exchange.emit, exchange.emit_watermark, exchange.emit_status, out.edge.output_tag)


def _settings_of(out: OutputEdge, settings: TaskSettings) -> TaskSettings:
    """The task's settings with what the operator at the start of an edge has of its own."""
    if out.buffer_timeout_ms is None:
        return settings
    return replace(settings, buffer_timeout_ms=out.buffer_timeout_ms)


def _local_snapshots(deployment: TaskDeployment) -> LocalSnapshots | None:
    """The copies that earlier attempts left on this machine, without what is not restored."""
    root = deployment.settings.local_snapshots_dir
    if root is None:
        return None
    copies = LocalSnapshots(local_snapshots_dir(root, deployment.job_id, str(deployment.subtask_id)))
    restored = (deployment.restored or {}).values()
    copies.start(file for snapshot in restored for file in snapshot.files())
    return copies


class _ContextFactory:
    """Makes the context of each operator of one subtask."""

    def __init__(
        self,
        deployment: TaskDeployment,
        results: CoordinatorResults,
        storage: CheckpointStorage | None,
        processing_time: ProcessingTimeService,
        mailbox: Mailbox,
        event_loop: SharedEventLoop,
        report: Callable[[TaskEvent], None],
        trace_work: Callable[[Work], None],
    ) -> None:
        self._deployment = deployment
        self._trace_work = trace_work
        self._report = report
        self._processing_time = processing_time
        self._mailbox = mailbox
        self._event_loop = event_loop
        self._storage = storage
        self._results = results
        settings = deployment.settings
        self._files = place_files(settings.files, settings.local_dir, deployment.job_id)

    def __call__(self, node: StreamNode) -> OperatorContext:
        deployment, index = self._deployment, self._deployment.subtask_id.index
        return OperatorContext(
            trace_work=self._trace_work,
            operator_uid=node.uid,
            operator_name=node.name,
            subtask_index=index,
            parallelism=node.parallelism,
            max_parallelism=node.max_parallelism,
            attempt=deployment.attempt,
            attempt_number=deployment.attempt_number,
            is_checkpointing=deployment.settings.is_checkpointing,
            takes_checkpoints=deployment.settings.takes_checkpoints,
            is_restored=deployment.restored is not None and node.uid in deployment.restored,
            now_ms=self._processing_time.now_ms,
            processing_time=self._processing_time,
            mailbox=partial(self._mailbox, node.uid),
            event_loop=self._event_loop,
            create_keyed_backend=lambda key_type: self._keyed_backend(node, key_type),
            operator_state=self._operator_state(node),
            local_dir=self._local_dir(node),
            results=self._results,
            job_parameters=deployment.settings.job_parameters,
            job_id=deployment.job_id,
            restored_checkpoint_id=deployment.restored_checkpoint_id,
            raw_keyed=self._raw_keyed(node),
            cached_files=self._files,
            is_batch=deployment.settings.is_batch,
            metrics=MetricGroup(PROCESS_METRICS, (node.name, str(index)), (deployment.job_id, node.uid)),
            auto_watermark_interval_ms=deployment.settings.auto_watermark_interval_ms,
            send_to_coordinator=lambda event: self._tell_coordinator(node, event),
        )

    def _tell_coordinator(self, node: StreamNode, event: ReaderEvent | ToLeader) -> None:
        deployment = self._deployment
        self._report(FromOperator(deployment.attempt, deployment.subtask_id, node.uid, event))

    def _operator_state(self, node: StreamNode) -> OperatorStateBackend:
        deployment = self._deployment
        return deployment.settings.state_backend.create_operator_backend(
            OperatorStateBackendParameters(
                node.uid,
                node.name,
                deployment.subtask_id.index,
                deployment.attempt,
                self._storage,
                _file_prefix(node),
                self._local_dir(node),
            )
        )

    def _raw_keyed(self, node: StreamNode) -> RawKeyedState:
        deployment, index = self._deployment, self._deployment.subtask_id.index
        return RawKeyedState(
            RawKeyedStateParameters(
                node.uid,
                node.name,
                index,
                deployment.attempt,
                key_group_range_of_subtask(index, node.max_parallelism, node.parallelism),
                self._storage,
                _file_prefix(node),
            )
        )

    def _keyed_backend(self, node: StreamNode, key_type: TypeInformation | None) -> KeyedStateBackend:
        deployment, index = self._deployment, self._deployment.subtask_id.index
        settings = deployment.settings
        return settings.state_backend.create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid=node.uid,
                operator_name=node.name,
                subtask_index=index,
                attempt=deployment.attempt,
                max_parallelism=node.max_parallelism,
                key_groups=key_group_range_of_subtask(index, node.max_parallelism, node.parallelism),
                key_type=key_type,
                local_dir=self._local_dir(node),
                storage=self._storage,
                file_prefix=_file_prefix(node),
                now_ms=self._processing_time.now_ms,
            )
        )

    def _local_dir(self, node: StreamNode) -> str:
        deployment = self._deployment
        return local_dir(
            deployment.settings.local_dir,
            deployment.job_id,
            node.uid,
            deployment.subtask_id.index,
            deployment.attempt,
        )


def _file_prefix(node: StreamNode) -> str:
    return f"shared/{as_file_name(node.uid)}"


def local_dirs(deployment: TaskDeployment) -> list[str]:
    """The local directories of all operators of a subtask."""
    return [
        local_dir(
            deployment.settings.local_dir,
            deployment.job_id,
            node.uid,
            deployment.subtask_id.index,
            deployment.attempt,
        )
        for node in deployment.subtask.task.nodes
    ]
