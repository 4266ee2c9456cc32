"""The log files of a job's processes: where they are, how long they grow, and what a line says.

Every process of a job writes one file, `tidegate-JOB-ROLE-PID.log`, where the role is `coordinator`, `task`,
or `local` for a job that runs in the driver's process:

* on Ray in `env.log.dir`, by default in Ray's own directory of logs (`/tmp/ray/session_…/logs` of each node),
  where `ray logs` and the dashboard find it too;
* in the local shell in `env.log.dir`, and nowhere where that is not set.

A file that has grown to 10 MiB is renamed to `….log.1`, the one before to `….log.2`, and so on; `env.log.max`
older ones are kept. So a process keeps at most (1 + `env.log.max`) times 10 MiB.

What functions log with Python's `logging` is in it as well, from `env.log.level` on. `tidegate.log.format`
chooses `text`, for people, or `json`, with one object a line:

    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger": "tidegate.runtime.tasks.task",
     "message": "…", "host": "…", "process_id": 4711, "thread": "…", "role": "task", "job_id": "…",
     "job_name": "…", "operator": "Map -> Filter", "subtask_index": 0, "attempt": 2, "trace_id": "…",
     "exception": "…"}

`operator` is the chain of operators of the subtask, `attempt` how often the job was started before,
`trace_id` that of the checkpoint the line belongs to. What a line has nothing to say to is left out. What
looks like a secret is masked, and a message longer than 64 KiB ends there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ..common.secrets import masked_text
from .spans import parse_traceparent

logger = logging.getLogger("tidegate")

LONGEST = 64 << 10
"""Characters of a message or an exception that are written."""
_FILE = re.compile(r"tidegate-(?P<job>[^-]+)-(?P<role>[a-z]+)-(?P<pid>\d+)\.log(\.(?P<age>\d+))?")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How the processes of a job log.

    Attributes:
        level: The least level that is written, by its name in Python's `logging`.
        is_json: Whether lines are JSON objects.
        directory: Where the files go; `None` for the default of the shell.
        max_files: How many older files of a process are kept.
        max_file_bytes: How long a file grows.
    """

    level: str = "INFO"
    is_json: bool = False
    directory: str | None = None
    max_files: int = 3
    max_file_bytes: int = 10 << 20


@dataclass(frozen=True, slots=True)
class LogContext:
    """What a thread works for."""

    job_id: str
    job_name: str
    operator: str | None = None
    subtask_index: int | None = None
    attempt: int | None = None
    trace_id: str | None = None

    def within(self, traceparent: str | None) -> LogContext:
        """The same within a trace."""
        ids = None if traceparent is None else parse_traceparent(traceparent)
        return self if ids is None else replace(self, trace_id=ids[0])


class _Thread(threading.local):
    context: LogContext | None = None


_thread = _Thread()


def enter(context: LogContext | None) -> None:
    """From now on this thread works for this."""
    _thread.context = context


@contextlib.contextmanager
def entered(context: LogContext) -> Iterator[None]:
    """Let this thread work for `context` until the block ends."""
    before, _thread.context = _thread.context, context
    try:
        yield
    finally:
        _thread.context = before


def current() -> LogContext | None:
    """What this thread works for."""
    return _thread.context


class JsonFormatter(logging.Formatter):
    """One JSON object a line; see the module.

    Args:
        role: Of the process.
        context: What threads work for that say nothing else.
    """

    def __init__(self, role: str, context: LogContext) -> None:
        super().__init__()
        self._context = context
        self._process = {"host": socket.gethostname(), "process_id": os.getpid(), "role": role}

    def format(self, record: logging.LogRecord) -> str:
        context = _thread.context or self._context
        exception = None if not record.exc_info else self.formatException(record.exc_info)
        line = {
            "time": _iso_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _shown(record.getMessage()),
            **self._process,
            "thread": record.threadName,
            "job_id": context.job_id,
            "job_name": context.job_name,
            "operator": context.operator,
            "subtask_index": context.subtask_index,
            "attempt": context.attempt,
            "trace_id": context.trace_id,
            "exception": None if exception is None else _shown(exception),
        }
        return json.dumps({name: value for name, value in line.items() if value is not None})


class TextFormatter(logging.Formatter):
    """A line for people: time, level, logger, subtask and attempt, message."""

    def format(self, record: logging.LogRecord) -> str:
        context = _thread.context
        place = ""
        if context is not None and context.operator is not None:
            place = f" [{context.operator} ({context.subtask_index}), attempt {context.attempt}]"
        message = _shown(record.getMessage())
        line = f"{_iso_time(record.created)} {record.levelname:7} {record.name}{place} - {message}"
        if record.exc_info:
            line += "\n" + _shown(self.formatException(record.exc_info))
        return line


def _shown(text: str) -> str:
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text)} characters)"
    return masked_text(text)


def _iso_time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1_000) % 1_000:03d}Z"


class _BoundedFile(RotatingFileHandler):
    """A file that says once, on standard error, that it cannot be written, and fails nobody."""

    _has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._has_failed:
            self._has_failed = True
            print(f"The log {self.baseFilename} cannot be written: {sys.exc_info()[1]}", file=sys.stderr)


class ProcessLog:
    """The log file of this process, until it is closed.

    Args:
        settings: How to log.
        directory: Where the file goes; made if it is not there.
        role: `coordinator`, `task` or `local`.
        context: The job.
    """

    def __init__(self, settings: LogSettings, directory: str, role: str, context: LogContext) -> None:
        self._root = logging.getLogger()
        self._level = self._root.level
        self._added: list[logging.Handler] = []
        path = Path(directory) / f"tidegate-{context.job_id}-{role}-{os.getpid()}.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handler = _BoundedFile(
                path, maxBytes=settings.max_file_bytes, backupCount=settings.max_files, encoding="utf-8"
            )
        except OSError as error:
            logger.warning("There is no log file %s, and the job goes on without it: %s", path, error)
            return
        handler.setFormatter(JsonFormatter(role, context) if settings.is_json else TextFormatter())
        handler.setLevel(settings.level)
        if not self._root.handlers and logging.lastResort is not None:
            # Python shows warnings on standard error as long as nobody handles them; so it still does.
            self._add(logging.lastResort)
        self._add(handler)
        self._root.setLevel(min(self._level, handler.level))

    def _add(self, handler: logging.Handler) -> None:
        self._root.addHandler(handler)
        self._added.append(handler)

    def close(self) -> None:
        """Write no more."""
        for handler in self._added:
            self._root.removeHandler(handler)
            if handler is not logging.lastResort:
                handler.close()
        self._root.setLevel(self._level)


@dataclass(frozen=True, slots=True)
class LogFileName:
    """What the name of a log file says."""

    job_id: str
    role: str
    process_id: int
    age: int
    """0 for the one that is written to; more for older ones."""


def parse_file_name(name: str) -> LogFileName | None:
    """What the name of a file says, `None` for files of others."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return LogFileName(match["job"], match["role"], int(match["pid"]), int(match["age"] or 0))


_PLACE = re.compile(r"\S+ [A-Z]+ +\S+ \[(?P<operator>.+?) \((?P<index>\d+)\), attempt \d+\] - ")
_START = re.compile(r"\d{4}-\d\d-\d\dT\S+Z [A-Z]+ ")


def place_of_line(line: str) -> tuple[str, int] | None:
    """The operator and the index of the subtask that a line of either format is about.

    Returns:
        `None` for a line about the whole process.

    Raises:
        ValueError: It begins no entry: a line of a traceback, which goes with the one before.
    """
    if line.startswith("{"):
        entry = json.loads(line)
        place = entry.get("operator"), entry.get("subtask_index")
        return None if place[0] is None or place[1] is None else (str(place[0]), int(place[1]))
    match = _PLACE.match(line)
    if match is not None:
        return match["operator"], int(match["index"])
    if _START.match(line) is None:
        raise ValueError(line)
    return None
