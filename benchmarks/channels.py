"""What wide exchanges cost the processes of tasks: `python -m benchmarks.channels [--widths 8,32,64]`.

An exchange of `width` with `width` subtasks, one of each in a process. Nothing runs on Ray: the memory is
that of the objects, the routes are pickled as for an actor, and the connections of all processes are in this
one.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import secrets
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from tidegate.actors.record_routes import RayRoutes
from tidegate.actors.task_processes import TaskProcess
from tidegate.coordinator.deployment.slots import ProcessResources, subtasks_by_process
from tidegate.coordinator.spec import JobSettings
from tidegate.protocol.channels.frames import DataKind
from tidegate.protocol.channels.link import LinkId
from tidegate.protocol.channels.link_watch import LinkWatch
from tidegate.protocol.elements import Message
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.runtime.gate import InputGate
from tidegate.runtime.network.connections import Connections
from tidegate.runtime.network.peer import Peer
from tidegate.runtime.output import ChannelBooks, OutputChannel
from tidegate.runtime.ports import TaskSettings
from tidegate.state.live_backends import HashMapStateBackend

ATTEMPT = Attempt(1)
TIMEOUT_MS = 20_000
LIMIT_S = 120
IDLE_S = 10


def graph_of(width: int) -> ExecutionGraph:
    """Sources and keyed subtasks, all-to-all; the subtasks of a slot share a process."""
    nodes = {
        1: StreamNode(1, "Numbers", "numbers", b"", width, 128, is_source=True),
        2: StreamNode(2, "Totals", "totals", b"", width, 128),
    }
    graph = StreamGraph("wide", nodes, [StreamEdge(0, 1, 2, Partitioning.HASH)])
    return build_execution_graph(build_job_graph(graph, share_processes=True))


def ignore(*_: Any) -> None:
    """Takes anything."""


def bytes_of_each(make: Callable[[], Any], count: int) -> float:
    """Memory of what is made, for each of `count`."""
    make()
    tracemalloc.start()
    try:
        made, size = make(), tracemalloc.get_traced_memory()[0]
        del made
    finally:
        tracemalloc.stop()
    return size / count


def sizes(graph: ExecutionGraph, width: int) -> tuple[float, float, float]:
    """Bytes of an input channel, an output channel and one end of a link, without messages."""
    source = next(each for each in graph.subtasks.values() if each.outputs)
    target = next(each for each in graph.subtasks.values() if each.inputs)
    settings: Any = type("Settings", (), {"channel_credit_bytes": 1 << 20, "batch_size": 8_192})
    settings.buffer_timeout_ms = TaskSettings.__dataclass_fields__["buffer_timeout_ms"].default
    ports: Any = type("Ports", (), {"now_ns": staticmethod(time.monotonic_ns)})

    def outputs() -> list[OutputChannel]:
        books = ChannelBooks()
        (out,) = source.outputs
        return [OutputChannel(ATTEMPT, channel, settings, ports, books) for channel in out.channels]

    def peer(number: int) -> Peer:
        watch = LinkWatch(TIMEOUT_MS, True, 0)
        return Peer(LinkId(ATTEMPT, 0, number), watch, ignore, ignore, ignore, ignore)

    return (
        bytes_of_each(lambda: InputGate(ATTEMPT, target.inputs, ignore, ignore), width),  # type: ignore[arg-type]
        bytes_of_each(outputs, width),
        bytes_of_each(lambda: [peer(number) for number in range(width)], width),
    )


def routes_ms(graph: ExecutionGraph) -> tuple[float, float]:
    """CPU time of the coordinator for the routes of all processes, and KiB of one without the actors."""
    members = subtasks_by_process(graph)
    processes = {key: TaskProcess(key, None, ProcessResources(1.0), [], 0) for key in members}
    began_s = time.process_time()
    settings = JobSettings(state_backend=HashMapStateBackend(), local_dir="")
    routes = RayRoutes(ATTEMPT, graph, processes, settings, ignore)
    found = [routes.of(key, subtasks) for key, subtasks in members.items()]
    data = [pickle.dumps(each, protocol=5) for each in found]
    return (time.process_time() - began_s) * 1_000, len(data[0]) / 1_024


class Processes:
    """The connections of `width` processes, all with all."""

    def __init__(self, width: int) -> None:
        self._left = width * (width - 1)
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._all = [Connections(self._arrived, ignore, ignore) for _ in range(width)]

    def _arrived(self, *_: Any) -> None:
        with self._lock:
            self._left -= 1
            if not self._left:
                self._done.set()

    def connect(self) -> None:
        """Open all connections; ends when a message has come over each in both directions."""
        numbers, secret = range(len(self._all)), secrets.token_bytes(32)
        addresses = {number: self._all[number].address("node", None) for number in numbers}
        for number in numbers:
            others = [each for each in numbers if each != number]
            self._all[number].begin(ATTEMPT, number, secret, others, TIMEOUT_MS)
        for number in numbers:
            self._all[number].connect(ATTEMPT, addresses)
            for other in numbers:
                message: Any = Message(ATTEMPT, ChannelId(0, number, other), 0, b"x", 1)  # type: ignore[arg-type]
                self._all[number].send(other, message, DataKind.ELEMENTS)
        if not self._done.wait(LIMIT_S):
            raise SystemExit(f"{self._left} messages did not arrive")

    def close(self) -> None:
        """End their threads."""
        for each in self._all:
            each.close()


def resident_kib() -> int:
    """Resident memory of this process at its highest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def links(width: int) -> tuple[float, float, float, float]:
    """Seconds and CPU seconds to open all links, KiB for each end of one, and percent of a core when idle."""
    processes, before = Processes(width), resident_kib()
    began_s, cpu_s = time.monotonic(), time.process_time()
    processes.connect()
    taken_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
    each_kib = (resident_kib() - before) / (width * (width - 1))
    # The first messages are confirmed by pings.
    time.sleep(TIMEOUT_MS / 1_000 / 2)
    began_s, cpu_s = time.monotonic(), time.process_time()
    time.sleep(IDLE_S)
    idle = 100 * (time.process_time() - cpu_s) / (time.monotonic() - began_s)
    processes.close()
    return taken_s, used_s, each_kib, idle


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="8,32,64", help="subtasks on each side")
    options = parser.parse_args()
    print(
        "| width | input channel B | output channel B | end of a link B | routes ms | routes KiB | open s "
        "| CPU s | KiB for an end | idle % |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for width in map(int, options.widths.split(",")):
        graph = graph_of(width)
        figures = [*sizes(graph, width), *routes_ms(graph)]
        opened = links(width)
        print(
            f"| {width} | " + " | ".join(f"{figure:,.1f}" for figure in [*figures, *opened]) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
