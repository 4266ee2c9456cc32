"""A coordinator's surroundings in memory: tasks that only exist as deployments, and a clock to turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.common.errors import CheckpointStorageError
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.control.job_requests import JobRequests
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.monitoring.job_observer import JobObserver
from tidegate.coordinator.spec import JobSettings, JobSpec
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import Acknowledgement, SubtaskAcknowledged
from tidegate.protocol.checkpoints.handles import (
    FileHandle,
    KeyedStateHandle,
    ListPart,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId, JobId, SubtaskId
from tidegate.protocol.key_groups import KeyGroupRange, key_group_range_of_subtask
from tidegate.protocol.scheduling.execution_graph import ExecutionGraph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import JobGraph, StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.runtime.ports import TaskDeployment
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.telemetry import SpanSink, create_tracer

SOURCE = SubtaskId("task-1", 0)
TOTALS = [SubtaskId("task-2", 0), SubtaskId("task-2", 1)]
SUBTASKS = [SOURCE, *TOTALS]


def job_graph(
    parallelism: int = 2, max_parallelism: int = 128, uid: str = "totals", previous_uids: tuple[str, ...] = ()
) -> JobGraph:
    """A source and, behind a shuffle, keyed totals."""
    nodes = {
        1: StreamNode(1, "Numbers", "numbers", b"", 1, 128, is_source=True, defined_at="job.py:1"),
        2: StreamNode(2, "Totals", uid, b"", parallelism, max_parallelism, defined_at="job.py:2"),
    }
    nodes[2].previous_uids = previous_uids
    edges = [StreamEdge(0, 1, 2, Partitioning.HASH)]
    return build_job_graph(StreamGraph("flights", nodes, edges))


def job_spec(graph: JobGraph | None = None, **changed: Any) -> JobSpec:
    settings: dict[str, Any] = {
        "state_backend": HashMapStateBackend(),
        "local_dir": "/nonexistent",
        "trigger": TriggerPolicy(interval_ms=100, timeout_ms=1_000),
        "checkpoint_dir": "memory://unused",
        "restart_strategy": RestartStrategies.fixed_delay_restart(3, 50),
        "random_initial_delay": False,
        **changed,
    }
    return JobSpec(JobId("job"), graph or job_graph(), JobSettings(**settings))


class FakeCluster:
    """The `CoordinatorPorts`: records what the coordinator asks for, and answers for the tasks when told."""

    def __init__(
        self,
        spec: JobSpec | None = None,
        storage: CheckpointStorage | None = None,
        sink: SpanSink | None = None,
        observer: JobObserver | None = None,
    ) -> None:
        self.time_ms = 1_000
        self.ready: Callable[[str], None] | None = None
        """How to say that there is room for other subtasks, or why there is not, while that is asked."""
        self.refusal = ""
        self.deployments: list[list[TaskDeployment]] = []
        self.sent: list[tuple[Attempt, SubtaskId, events.TaskMail]] = []
        self.stopped: list[tuple[Attempt, list[SubtaskId]]] = []
        self.storage = storage or MemoryCheckpointStorage()
        self.tracer = create_tracer("test", sink=sink)
        self.coordinator = JobCoordinator(
            spec or job_spec(), self, self.tracer, self.storage, observer=observer
        )

    def now_ns(self) -> int:
        return self.time_ms * 1_000_000

    def random_ms(self, bound_ms: int) -> int:
        return bound_ms - 1

    def run_in_background(self, work: Callable[[], None]) -> None:
        work()

    def post(self, action: Callable[[], None]) -> None:
        action()

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        self.ready = ready
        return self.refusal

    def release(self) -> None:
        self.ready = None

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        assert list(graph.subtasks) == [each.subtask_id for each in deployments]
        self.deployments.append(list(deployments))

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: events.TaskMail) -> None:
        self.sent.append((attempt, subtask, mail))

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        self.stopped.append((attempt, list(subtasks)))

    # ------------------------------------------------------------ for the tests

    @property
    def requests(self) -> JobRequests:
        return JobRequests(self.coordinator)

    @property
    def attempt(self) -> Attempt:
        return self.coordinator.attempt

    def start(self) -> FakeCluster:
        """Start the job."""
        self.coordinator.start()
        return self

    def run(self) -> FakeCluster:
        """Start the job and let every subtask initialise."""
        return self.start().initialized()

    def initialized(self) -> FakeCluster:
        for deployment in self.deployments[-1]:
            self.coordinator.handle(events.TaskInitialized(self.attempt, deployment.subtask_id))
        return self

    def fail(
        self,
        subtask: SubtaskId = SOURCE,
        cause: str = "boom",
        is_recoverable: bool = True,
        is_start_error: bool = False,
    ) -> None:
        failed = events.TaskFailed(self.attempt, subtask, cause, "details", is_recoverable, is_start_error)
        self.coordinator.handle(failed)

    def stop_tasks(self, *subtasks: SubtaskId) -> None:
        """These subtasks (by default all that were asked to) have stopped."""
        attempt, asked = self.stopped[-1]
        for subtask in subtasks or asked:
            self.coordinator.handle(events.TaskStopped(attempt, subtask))

    def pass_ms(self, milliseconds: int) -> None:
        """Time passes, and the coordinator notices."""
        self.time_ms += milliseconds
        self.coordinator.tick()

    def mails(self, kind: type[Any]) -> list[tuple[SubtaskId, Any]]:
        """Mails of one kind to the current attempt, with their receivers."""
        return [(to, mail) for attempt, to, mail in self.sent if isinstance(mail, kind)]

    def triggered(self) -> CheckpointBarrier:
        """The newest barrier."""
        barrier: CheckpointBarrier = self.mails(events.TriggerCheckpoint)[-1][1].barrier
        return barrier

    def acknowledge(self, make: Callable[[SubtaskId, CheckpointId], Acknowledgement] | None = None) -> None:
        """Every subtask acknowledges the newest checkpoint."""
        checkpoint_id = self.triggered().checkpoint_id
        for subtask in SUBTASKS:
            acknowledgement = (make or self.stored)(subtask, checkpoint_id)
            self.coordinator.handle(
                SubtaskAcknowledged(self.attempt, subtask, checkpoint_id, acknowledgement)
            )

    def stored(self, subtask: SubtaskId, checkpoint_id: CheckpointId) -> Acknowledgement:
        """A source's position, or a segment of keyed state that is really in storage."""
        if subtask == SOURCE:
            position = position_handle(checkpoint_id)
            return Acknowledgement({"numbers": OperatorSnapshot(lists=(position,))})
        path = f"shared/op-totals/{subtask.index}-{checkpoint_id}"
        file = self.storage.sub("job").write_file(path, b"segment")
        key_groups = key_group_range_of_subtask(subtask.index, 128, 2)
        return Acknowledgement({"totals": keyed_snapshot(file, key_groups)})

    def complete_checkpoint(self) -> CheckpointId:
        """Wait for the next trigger and let everybody acknowledge."""
        self.pass_ms(100)
        self.acknowledge()
        return self.triggered().checkpoint_id

    def files(self) -> list[str]:
        """What is stored for the job."""
        return self.storage.sub("job").list_files("")


def position_handle(checkpoint_id: int) -> OperatorListHandle:
    """A source's position, inline."""
    content = str(checkpoint_id).encode()
    digest = hashlib.sha256(content).hexdigest()
    file = FileHandle(f"shared/op-numbers/{checkpoint_id}", len(content), digest, content)
    return OperatorListHandle("position", "even-split", {"kind": "list"}, (ListPart(file, 0, 1),))


def keyed_snapshot(file: FileHandle, key_groups: KeyGroupRange) -> OperatorSnapshot:
    return OperatorSnapshot(KeyedStateHandle((SegmentHandle("total", file, key_groups, 1),)))


class UnreliableStorage(MemoryCheckpointStorage):
    """Refuses to create files below a directory while `is_broken` is set.

    Sub-storages of the job are this storage itself, so that the test keeps hold of it.
    """

    def __init__(self, refused: str) -> None:
        super().__init__()
        self.refused = refused
        self.is_broken = False

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if self.is_broken and path.startswith(self.refused):
            raise CheckpointStorageError(f"{path} cannot be written: the bucket is gone")
        return super().create_exclusive(path, data)

    def sub(self, prefix: str) -> CheckpointStorage:
        return self
