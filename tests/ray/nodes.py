"""Drivers with clusters of their own: `python -m tests.ray.nodes SCENARIO DIRECTORY RAY_DIRECTORY`.

A process can be connected to one cluster only, and that of the tests has one node, so these run beside it.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import ray
from ray.cluster_utils import Cluster
from tidegate.actors.actor_state import ActorCondition, actor_state
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient

from . import jobs

COUNT = 8_000
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1_000,
    "health_check_timeout_ms": 3_000,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,
}
"""A dead node is noticed after 4 seconds, and not after 14."""
LATE = {"health_check_failure_threshold": 1_000, "worker_niceness": 0}
"""Ray never counts a silent node as dead, so the coordinator is first for certain."""
DRAIN_BECAUSE_OF_PREEMPTION = 2


@contextmanager
def cluster_of(
    directory: Path, head_cpus: int, *worker_cpus: int, system: dict[str, Any] = SOON
) -> Iterator[Cluster]:
    """A cluster to which this process is connected; nothing of it stays."""
    head = {"num_cpus": head_cpus, "temp_dir": str(directory), "_system_config": system}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})
    try:
        for cpus in worker_cpus:
            cluster.add_node(num_cpus=cpus)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def processes_of(node: Any) -> list[int]:
    """Process ids of what Ray itself runs for a node."""
    return [info.process.pid for infos in node.all_processes.values() for info in infos]


def raylet_of(node: Any) -> int:
    (info,) = node.all_processes["raylet"]
    pid: int = info.process.pid
    return pid


def said(text: str) -> None:
    print(f"{time.monotonic():.1f} {text}", flush=True)


NODE_LOST_S = 180
"""Ray takes a quarter of a minute to count a node as dead, and several times that on a busy machine."""


def node_lost_and_node_drained(directory: Path) -> None:
    """First one of two nodes dies; then another one comes, and the second is drained."""
    gate, output = jobs.Gate(directory), directory / "output"
    with cluster_of(Path(sys.argv[3]), 0, 2, 2) as cluster:
        settings = jobs.configuration(directory)
        settings.set_string("tidegate.slot.cpus", "1")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.half_way(client)
            said("half way")
            first, second = sorted(cluster.worker_nodes, key=lambda node: -tasks_on(client, node))
            assert tasks_on(client, first)
            os.kill(raylet_of(first), signal.SIGKILL)
            # Not by its number of restarts: the coordinator may have been on that node, too.
            jobs.eventually("the recovery", lambda: is_on(client, second), client, NODE_LOST_S)
            said("recovered on the other node")
            third = cluster.add_node(num_cpus=2)
            restarts = client.report().restarts
            drain(cluster, second)
            jobs.eventually("the move", lambda: is_on(client, third), client)
            said("moved off the drained node")
            # The tasks run a moment before the coordinator has written down where.
            (moved,) = jobs.eventually("its record", lambda: client.report().statistics.rescales, client)
            assert (moved.cause, moved.failure) == ("drained node", ""), moved
            assert client.report().restarts == restarts, client.report().cause
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
            client.result()
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def node_silent(directory: Path) -> None:
    """A node with several task processes stops answering without dying: its machine is cut off, or hangs."""
    gate, output = jobs.Gate(directory), directory / "output"
    with cluster_of(Path(sys.argv[3]), 0, 2, 2, 2, system=LATE) as cluster:
        settings = jobs.configuration(directory, parallelism=4)
        settings.set_string("tidegate.slot.cpus", "1")
        # One attempt is enough: the failure of a node is one failure, whatever ran there.
        settings.set_string("restart-strategy.type", "fixed-delay")
        settings.set_string("restart-strategy.fixed-delay.attempts", "1")
        settings.set_string("restart-strategy.fixed-delay.delay", "100 ms")
        # On a busy machine a live task may take long to stop. Killed for that, it would be a second failure.
        settings.set_string("task.cancellation.timeout", "2 min")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.half_way(client)
            coordinator = jobs.coordinator_pid(client)
            others = [node for node in cluster.worker_nodes if _parent_of(coordinator) != raylet_of(node)]
            silent = max(others, key=lambda node: tasks_on(client, node))
            assert tasks_on(client, silent) > 1, client.processes()
            stopped = [raylet_of(silent), *_children_of(raylet_of(silent))]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            start_s = time.monotonic()
            said("the node is silent")
            try:
                (recovery,) = jobs.eventually(
                    "the recovery", lambda: client.report().statistics.recoveries, client, NODE_LOST_S
                )
                took_s = time.monotonic() - start_s
                said(f"recovered after {took_s:.1f} s in {recovery.duration_ms} ms: {recovery.cause}")
                assert tasks_on(client, silent) == 0
                assert "heartbeat.timeout" in recovery.cause, recovery.cause
                gate.open()
                assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED, client.report().cause
                assert client.report().restarts == 1
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGKILL)
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def _children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def coordinator_stopped(directory: Path) -> None:
    """The coordinator and its node's raylet stop, Ray starts another one, and the old one wakes up."""
    gate, output = jobs.Gate(directory), directory / "output"
    with cluster_of(Path(sys.argv[3]), 0) as cluster:
        nodes = [cluster.add_node(num_cpus=2, labels={"role": "work"}) for _ in range(2)]
        settings = jobs.configuration(directory)
        settings.set_string("restart-strategy.type", "none")
        settings.set_string("tidegate.coordinator.placement", "role=work")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.half_way(client)
            old = jobs.coordinator_pid(client)
            raylet = raylet_of(next(node for node in nodes if _parent_of(old) == raylet_of(node)))
            for pid in (old, raylet):
                os.kill(pid, signal.SIGSTOP)
            said("the coordinator is stopped")
            try:
                jobs.eventually("a successor", lambda: _pid_in_ray(client) not in (0, old), None, NODE_LOST_S)
                said("it has a successor")
                jobs.eventually("a checkpoint", lambda: jobs.completed(client.report()) > 2, client)
            finally:
                for pid in (raylet, old):
                    os.kill(pid, signal.SIGCONT)
            woken_s = time.monotonic()
            jobs.assert_gone([old])
            said(f"the old one is gone after {time.monotonic() - woken_s:.1f} s")
            assert client.report().status is JobStatus.RUNNING, client.report().cause
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
            client.result()
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def coordinator_drained(directory: Path) -> None:
    """The coordinator's node is drained, with tasks on it, and disappears after the coordinator has moved."""
    gate, output = jobs.Gate(directory), directory / "output"
    with cluster_of(Path(sys.argv[3]), 0) as cluster:
        nodes = [cluster.add_node(num_cpus=2, labels={"role": "work"}) for _ in range(2)]
        settings = jobs.configuration(directory)
        settings.set_string("restart-strategy.type", "none")
        settings.set_string("tidegate.coordinator.placement", "role=work")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.half_way(client)
            old = jobs.coordinator_pid(client)
            drained = next(node for node in nodes if _parent_of(old) == raylet_of(node))
            (other,) = (node for node in nodes if node is not drained)
            drain(cluster, drained)
            jobs.eventually("the move", lambda: _pid_in_ray(client) not in (0, old), None, NODE_LOST_S)
            said("the coordinator has moved")
            jobs.eventually("its tasks", lambda: is_on(client, other), client)
            os.kill(raylet_of(drained), signal.SIGKILL)
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED, client.report().cause
            client.result()
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def _pid_in_ray(client: JobClient) -> int:
    """The process that Ray counts as the coordinator's, without asking it."""
    state = actor_state(jobs.coordinator(client)._ray_actor_id.hex())
    return 0 if state is None or state.condition is not ActorCondition.ALIVE else state.pid


def tasks_on(client: JobClient, node: Any) -> int:
    """How many task processes a node has: its raylet started them."""
    return sum(_parent_of(pid) == raylet_of(node) for pid in client.processes().values())


def is_on(client: JobClient, node: Any) -> bool:
    """Whether the job runs, with all its task processes on one node."""
    return client.report().status is JobStatus.RUNNING and tasks_on(client, node) == 4


def _parent_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The name of the program stands in brackets and may hold anything.
    return int(text.rpartition(")")[2].split()[1])


def drain(cluster: Cluster, node: Any) -> None:
    client = ray._raylet.GcsClient(address=cluster.gcs_address)
    deadline_ms = (time.time_ns() // 1_000_000) + 600_000
    accepted, problem = client.drain_node(
        node.node_id, DRAIN_BECAUSE_OF_PREEMPTION, "to be switched off", deadline_ms
    )
    assert accepted, problem


def head_lost(directory: Path) -> None:
    """The only node dies with everything on it, this driver included."""
    gate = jobs.Gate(directory)
    with cluster_of(Path(sys.argv[3]), 2) as cluster:
        stream = jobs.counts(retained(directory), COUNT, gate)
        with jobs.running(stream, jobs.FileSink(directory / "output")) as client:
            processes = [*jobs.half_way(client).values(), jobs.coordinator_pid(client)]
            (directory / "processes").write_text(" ".join(map(str, processes)))
            for pid in processes_of(cluster.head_node):
                os.kill(pid, signal.SIGKILL)
            os._exit(9)


def head_is_back(directory: Path) -> None:
    """Another cluster; the job goes on from what its coordinator left in checkpoint storage."""
    gate, output = jobs.Gate(directory), directory / "output"
    gate.open()
    manifests = (directory / "checkpoints").glob("*/chk-*/MANIFEST")
    newest = max(manifests, key=lambda path: int(path.parent.name.removeprefix("chk-"))).parent
    with cluster_of(Path(sys.argv[3]), 2):
        settings = retained(directory)
        settings.set_string("execution.state-recovery.path", str(newest))
        settings.set_string("execution.state-recovery.claim-mode", "CLAIM")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
            restored = client.report().statistics.latest_restored
            assert restored is not None
            assert not restored.is_own
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def retained(directory: Path) -> Any:
    settings = jobs.configuration(directory)
    settings.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    return settings


PORTS = 12
"""More than there are processes: Ray may have taken some of them since the test chose them."""


def nodes_with_tls(directory: Path) -> None:
    """Ray uses TLS, and so do the connections between task processes of two nodes, on ports of a range."""
    first = int(os.environ["FIRST_PORT"])
    gate, output = jobs.Gate(directory), directory / "output"
    with cluster_of(Path(sys.argv[3]), 0, 1, 1):
        _assert_refused(
            directory, "tidegate.network.address", "192.0.2.192/26", "has no address in 192.0.2.192/26"
        )
        _assert_refused(directory, "taskmanager.data.bind-port", f"{first}", f"no port of {first} ")
        settings = jobs.configuration(directory)
        settings.set_string("tidegate.slot.cpus", "1")
        settings.set_string("tidegate.network.address", "127.0.0.0/8")
        settings.set_string("taskmanager.data.bind-port", f"{first}-{first + PORTS - 1}")
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.half_way(client)
            secured = list(filter(_uses_tls, range(first, first + PORTS)))
            said(f"ports with TLS: {secured}")
            assert len(secured) >= len(client.processes()), "each process listens"
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED, client.report().cause
            assert client.report().restarts == 0, client.report().cause
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def _uses_tls(port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(os.environ["RAY_TLS_CA_CERT"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
            context.wrap_socket(connection) as wrapped,
        ):
            return wrapped.version() in ("TLSv1.2", "TLSv1.3")
    except OSError:
        return False


def _assert_refused(directory: Path, key: str, value: str, cause: str) -> None:
    """A job whose processes cannot listen for other nodes fails, and says why."""
    settings = jobs.configuration(directory, interval_ms=None)
    settings.set_string("tidegate.slot.cpus", "1")
    settings.set_string("restart-strategy.type", "none")
    settings.set_string(key, value)
    with jobs.running(jobs.counts(settings, COUNT), jobs.FileSink(directory / "refused")) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FAILED
        failure = str(client.report().cause)
    said(failure)
    assert "cannot listen for other nodes: " in failure
    assert cause in failure
    assert key in failure


SCENARIOS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        node_lost_and_node_drained,
        node_silent,
        coordinator_stopped,
        coordinator_drained,
        head_lost,
        head_is_back,
        nodes_with_tls,
    )
}

if __name__ == "__main__":
    cloudpickle.register_pickle_by_value(jobs)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    SCENARIOS[sys.argv[1]](Path(sys.argv[2]))
