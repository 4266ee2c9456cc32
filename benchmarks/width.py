"""The coordinator's CPU time for wide jobs: a source and keyed totals, all-to-all, with a fake transport.

    python -m benchmarks.width [--quick] [--widths 10,100,1000,5000,10000]

Nothing runs but the coordinator: the tasks are descriptions, and their answers are calls. Goals are those of
1,000 and of 5,000 subtasks on each side (1 and 25 million channels).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.monitoring.job_view import JobView, report_of
from tidegate.coordinator.spec import JobSettings, JobSpec
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint_events import Acknowledgement, SubtaskAcknowledged
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.ids import Attempt, CheckpointId, JobId, SubtaskId
from tidegate.protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import JobGraph, StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.runtime.ports import TaskDeployment
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.telemetry import create_tracer

WIDTHS = (10, 100, 1_000, 5_000, 10_000)
MAX_PARALLELISM = 32_768
INTERVAL_MS = 100
ROUNDS = 3


class FakeTransport:
    """The `CoordinatorPorts` of tasks that do not run."""

    def __init__(self) -> None:
        self.time_ms = 1_000
        self.deployments: Sequence[TaskDeployment] = ()
        self.triggered: CheckpointId | None = None

    def now_ns(self) -> int:
        return self.time_ms * 1_000_000

    def random_ms(self, bound_ms: int) -> int:
        return 0

    def run_in_background(self, work: Callable[[], None]) -> None:
        work()

    def post(self, action: Callable[[], None]) -> None:
        action()

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        return "a fake transport prepares nothing"

    def release(self) -> None:
        pass

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        self.deployments = deployments

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: events.TaskMail) -> None:
        if isinstance(mail, events.TriggerCheckpoint):
            self.triggered = mail.barrier.checkpoint_id

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        pass


class WideJob:
    """A job of `width` sources and `width` keyed subtasks.

    Args:
        checkpoint_dir: Where its manifests go.
    """

    def __init__(self, width: int, checkpoint_dir: str) -> None:
        self.graph = _graph(width)
        settings = JobSettings(
            state_backend=HashMapStateBackend(),
            local_dir=checkpoint_dir,
            trigger=TriggerPolicy(interval_ms=INTERVAL_MS),
            checkpoint_dir=checkpoint_dir,
            random_initial_delay=False,
        )
        spec = JobSpec(JobId(f"wide-{width}"), self.graph, settings)
        self._transport = FakeTransport()
        self._coordinator = JobCoordinator(spec, self._transport, create_tracer("width", {}))
        self._view = JobView(spec, self._coordinator)

    def start(self) -> None:
        """Deploy all subtasks; each answers that it is initialized."""
        self._coordinator.start()
        for deployment in self._transport.deployments:
            initialized = events.TaskInitialized(self._coordinator.attempt, deployment.subtask_id)
            self._coordinator.handle(initialized)

    def checkpoint(self) -> None:
        """Trigger a checkpoint that every subtask acknowledges without state."""
        self._transport.time_ms += INTERVAL_MS
        self._coordinator.tick()
        checkpoint_id = self._transport.triggered
        assert checkpoint_id is not None, "no checkpoint was triggered"
        attempt = self._coordinator.attempt
        for subtask in self._coordinator.subtasks:
            self._coordinator.handle(
                SubtaskAcknowledged(attempt, subtask, checkpoint_id, Acknowledgement({}))
            )
        newest = self._coordinator.statistics.latest_completed
        assert newest is not None, "no checkpoint completed"
        assert newest.checkpoint_id == checkpoint_id, "the checkpoint did not complete"

    def details(self) -> None:
        """What a console asks for each second."""
        self._view.details(report_of(self._coordinator), self._transport.time_ms)


def _graph(width: int) -> JobGraph:
    nodes = {
        1: StreamNode(1, "Numbers", "numbers", b"", width, MAX_PARALLELISM, is_source=True),
        2: StreamNode(2, "Totals", "totals", b"", width, MAX_PARALLELISM),
    }
    return build_job_graph(StreamGraph("wide", nodes, [StreamEdge(0, 1, 2, Partitioning.HASH)]))


def _cpu_ms(work: Callable[[], object]) -> float:
    """The median CPU time of `ROUNDS` calls, in milliseconds."""
    taken = []
    for _ in range(ROUNDS):
        started_s = time.process_time()
        work()
        taken.append((time.process_time() - started_s) * 1_000)
    return statistics.median(taken)


def measure(width: int) -> dict[str, float]:
    """CPU time by what was done, in milliseconds: `plan`, `start`, `checkpoint` and `details`."""
    with tempfile.TemporaryDirectory() as directory:
        job = WideJob(width, directory)
        plan_ms = _cpu_ms(lambda: build_execution_graph(job.graph))
        started_s = time.process_time()
        job.start()
        start_ms = (time.process_time() - started_s) * 1_000
        return {
            "plan": plan_ms,
            "start": start_ms,
            "checkpoint": _cpu_ms(job.checkpoint),
            "details": _cpu_ms(job.details),
        }


def main() -> None:
    """Print the curve as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure the two smallest widths only")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="subtasks on each side")
    options = parser.parse_args()
    widths = [int(width) for width in options.widths.split(",")]
    print("| subtasks on each side | plan ms | start ms | checkpoint ms | details ms |")
    print("|---|---|---|---|---|")
    for width in widths[:2] if options.quick else widths:
        figures = measure(width)
        row = " | ".join(f"{figure:.1f}" for figure in figures.values())
        print(f"| {width:,} | {row} |", flush=True)


if __name__ == "__main__":
    main()
