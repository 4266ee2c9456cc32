"""Reads what the processes of a job have printed and logged, from the log files that Ray keeps of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ray
from ray.util.state import get_log, list_actors
from ray.util.state.exception import RayStateApiException

from ..common.errors import ClusterUnreachableError
from .job_details import JobDetails
from .ray_deployment import NAMESPACE

COORDINATOR = "coordinator"
_STREAMS = ("out", "err")
_TIMEOUT_S = 30


@dataclass(frozen=True)
class LogSource:
    """One process of a job."""

    names: tuple[str, ...]
    """Of the subtasks in it, `operator (1/2)`, or `coordinator`."""
    process_id: int
    node_ids: tuple[str, ...]
    """The node that it runs on, or several where one machine plays several nodes."""


@dataclass(frozen=True)
class LogLine:
    """One line of one process."""

    source: LogSource
    stream: str
    """`out` or `err`; Python's logging goes to `err`."""
    text: str


def log_sources(details: JobDetails, names: dict[str, int]) -> list[LogSource]:
    """The processes of a job on the connected Ray, the coordinator first.

    Args:
        details: The job.
        names: Process ids by the names of the subtasks in them, as `JobClient.processes` has them.

    Raises:
        ClusterUnreachableError: Ray's dashboard, which reads log files, does not answer.
    """
    nodes: dict[str, list[str]] = {}
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        nodes.setdefault(node["NodeManagerHostname"], []).append(node["NodeID"])
    everywhere = [node_id for node_ids in nodes.values() for node_id in node_ids]
    hosts = {each.process_id: each.host for each in details.subtasks if each.process_id}
    tasks = [
        LogSource(tuple(name.split(", ")), pid, tuple(nodes.get(hosts.get(pid, ""), everywhere)))
        for name, pid in sorted(names.items())
    ]
    return [*_coordinators(details.job_id), *tasks]


def _coordinators(job_id: str) -> list[LogSource]:
    try:
        actors = list_actors(
            filters=[
                ("name", "=", f"job-{job_id}"),
                ("ray_namespace", "=", NAMESPACE),
                ("state", "=", "ALIVE"),
            ],
            detail=True,
            timeout=_TIMEOUT_S,
        )
    except (RayStateApiException, ConnectionError, OSError) as error:
        raise _no_dashboard(error) from error
    return [
        LogSource((COORDINATOR,), actor.pid, (actor.node_id,))
        for actor in actors
        if actor.pid is not None and actor.node_id is not None
    ]


def stored_lines(sources: Sequence[LogSource], tail: int) -> Iterator[LogLine]:
    """The last lines of each process and stream so far.

    Raises:
        ClusterUnreachableError: Ray's dashboard does not answer.
    """
    for source in sources:
        for stream in _STREAMS:
            for text in _lines(source, stream, tail, follow=False):
                yield LogLine(source, stream, text)


def followed_lines(sources: Sequence[LogSource], tail: int) -> Iterator[LogLine]:
    """The last lines of each process, and then new ones as they come, until all processes are gone."""
    lines: queue.SimpleQueue[LogLine | BaseException | None] = queue.SimpleQueue()

    def read(source: LogSource, stream: str) -> None:
        try:
            for text in _lines(source, stream, tail, follow=True):
                lines.put(LogLine(source, stream, text))
        except ClusterUnreachableError as error:
            lines.put(error)
        lines.put(None)

    readers = [(source, stream) for source in sources for stream in _STREAMS]
    for reader in readers:
        threading.Thread(target=read, args=reader, daemon=True).start()
    left = len(readers)
    while left:
        line = lines.get()
        if isinstance(line, BaseException):
            raise line
        if line is None:
            left -= 1
        else:
            yield line


def _lines(source: LogSource, stream: str, tail: int, follow: bool) -> Iterator[str]:
    for node_id in source.node_ids:
        rest = ""
        try:
            chunks = get_log(
                node_id=node_id,
                pid=source.process_id,
                suffix=stream,
                tail=tail,
                follow=follow,
                timeout=_TIMEOUT_S,
                errors="replace",
                filter_ansi_code=True,
            )
            for chunk in chunks:
                *whole, rest = (rest + chunk).split("\n")
                yield from whole
        except RayStateApiException:
            # Not on this node, or it has written nothing.
            continue
        except (ConnectionError, OSError) as error:
            raise _no_dashboard(error) from error
        if rest:
            yield rest
        return


def _no_dashboard(error: BaseException) -> ClusterUnreachableError:
    return ClusterUnreachableError(
        f"log files are read through Ray's dashboard, which does not answer: {error}. Start the head with "
        f"--include-dashboard=true; on the nodes the files are below /tmp/ray/session_latest/logs"
    )
