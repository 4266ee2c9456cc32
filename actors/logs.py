"""Reads what the processes of a job have logged and printed, through Ray's dashboard, from every node."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ray
from ray.util.state import get_log, list_logs
from ray.util.state.exception import RayStateApiException

from ..common.errors import ClusterUnreachableError
from ..telemetry.logs import parse_file_name
from .ray_connection import connect

_TIMEOUT_S = 30
_MARKS = (":actor_name:", ":job_id:", ":task_name:")
"""Lines that Ray writes between those of the program, for itself."""


@dataclass(frozen=True)
class LogSource:
    """One file of one process of a job: its log, or what it printed."""

    node_id: str
    host: str
    role: str
    """`coordinator` or `task`."""
    process_id: int
    file_name: str = ""
    """Of its log; empty for what it printed."""

    @property
    def stream(self) -> str:
        """`log` or `out`."""
        return "log" if self.file_name else "out"


@dataclass(frozen=True)
class LogLine:
    """One line of one process."""

    source: LogSource
    text: str


def log_sources(job_id: str, address: str | None) -> list[LogSource]:
    """The files of a job on a cluster, also of processes that are gone; the coordinator's first.

    Args:
        job_id: Of a job that runs or has ended.
        address: Of the cluster, as for `connect`.

    Raises:
        ClusterUnreachableError: There is no such cluster, or its dashboard does not answer.
    """
    connect(address)
    found: dict[tuple[str, str], LogSource] = {}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        for name in _names(node["NodeID"], f"tidegate-{job_id}-*.log"):
            known = parse_file_name(name)
            if known is not None and known.job_id == job_id:
                source = LogSource(
                    node["NodeID"], node["NodeManagerHostname"], known.role, known.process_id, name
                )
                # Several nodes on one machine may share a directory of logs.
                found.setdefault((source.host, name), source)
    ordered = sorted(found.values(), key=lambda one: (one.role, one.host, one.process_id))
    printed = [LogSource(one.node_id, one.host, one.role, one.process_id) for one in ordered]
    return [file for pair in zip(ordered, printed) for file in pair]


def _names(node_id: str, pattern: str) -> list[str]:
    try:
        groups = list_logs(node_id=node_id, glob_filter=pattern, timeout=_TIMEOUT_S)
    except (RayStateApiException, OSError) as error:
        raise _no_dashboard(error) from error
    return [name for names in groups.values() for name in names]


def stored_lines(sources: Sequence[LogSource], tail: int) -> Iterator[LogLine]:
    """The last lines of each file so far.

    Raises:
        ClusterUnreachableError: Ray's dashboard does not answer.
    """
    for source in sources:
        yield from _lines(source, tail, follow=False)


def followed_lines(sources: Sequence[LogSource], tail: int) -> Iterator[LogLine]:
    """The last lines of each file, and then new ones as they come, for ever.

    Raises:
        ClusterUnreachableError: Ray's dashboard does not answer any more.
    """
    lines: queue.SimpleQueue[LogLine | ClusterUnreachableError | None] = queue.SimpleQueue()

    def read(source: LogSource) -> None:
        try:
            for line in _lines(source, tail, follow=True):
                lines.put(line)
            lines.put(None)
        except ClusterUnreachableError as error:
            lines.put(error)

    for source in sources:
        threading.Thread(target=read, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        line = lines.get()
        if isinstance(line, ClusterUnreachableError):
            raise line
        if line is None:
            left -= 1
        else:
            yield line


def _lines(source: LogSource, tail: int, follow: bool) -> Iterator[LogLine]:
    if source.file_name:
        chunks = get_log(
            node_id=source.node_id,
            filename=source.file_name,
            tail=tail,
            follow=follow,
            timeout=_TIMEOUT_S,
            errors="replace",
        )
    else:
        chunks = get_log(
            node_id=source.node_id,
            pid=source.process_id,
            suffix="out",
            tail=tail,
            follow=follow,
            timeout=_TIMEOUT_S,
            errors="replace",
        )
    rest = ""
    try:
        for chunk in chunks:
            *whole, rest = (rest + chunk).split("\n")
            yield from (LogLine(source, text) for text in whole if not text.startswith(_MARKS))
    except RayStateApiException:
        # It has printed nothing, or Ray has removed the file.
        return
    except OSError as error:
        raise _no_dashboard(error) from error
    if rest:
        yield LogLine(source, rest)


def _no_dashboard(error: BaseException) -> ClusterUnreachableError:
    cause = str(error).strip().splitlines()[0]
    return ClusterUnreachableError(
        f"logs are read through Ray's dashboard, which does not answer: {cause}. Start the head with "
        f"--include-dashboard=true; on each node the files are below /tmp/ray/session_latest/logs"
    )
