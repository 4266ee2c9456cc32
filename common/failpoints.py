"""Fail points: named places where a run can be told to die, to fail, to wait or to write damaged bytes.

`TIDEGATE_FAILPOINTS="point[@uid[/subtask]]:nth[*]:action[,…]"` in the driver's environment arms them; it
travels with the job, so every process of it knows them. Each fires once in the life of the job, however
often the job restarts: who fires leaves a mark in the job's directory first. With `*` it fires once in
every process. The idea is that of FreeBSD's and Rust's fail points.

A point in the code is one call of `reach`, which costs a comparison where nothing is armed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .errors import CheckpointStorageError, ConfigurationError

__all__ = [
    "Arming",
    "FailPoint",
    "FailPointError",
    "FailPointReport",
    "Marks",
    "Place",
    "Point",
    "arm",
    "enter",
    "parse",
    "passing",
    "reach",
    "reports",
]

VARIABLE = "TIDEGATE_FAILPOINTS"
ACTIONS = ("kill", "raise", "sleep=SECONDS", "enospc", "corrupt")
MARKS = "fail-points"
"""Directory of the marks, below that of the job."""

_MARK = re.compile(r"([0-9]{1,9})(?:-[0-9]+-[0-9]+)?")
_NTH = re.compile(r"([1-9][0-9]*)(\*?)")


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the code.

    Attributes:
        meaning: What happens there, as `docs/testing.md` says it.
        is_in_task: Whether a subtask reaches it, and not the coordinator.
        has_data: Whether bytes pass there, which `corrupt` can change.
    """

    meaning: str
    is_in_task: bool = True
    has_data: bool = False


POINTS = {
    "restore": Point("a subtask is about to take over the state of a checkpoint"),
    "recover": Point("the job is about to be deployed from a checkpoint", is_in_task=False),
    "rescale_begin": Point("a rescale is about to be prepared", is_in_task=False),
    "rescale_stop": Point("the tasks are about to be stopped for a rescale", is_in_task=False),
    "rescale_deploy": Point("the rescaled tasks are about to be deployed", is_in_task=False),
    "rescale_store": Point(
        "the rescaled tasks run, their parallelism is about to be written down", is_in_task=False
    ),
    "rescale_done": Point("a new parallelism is written down, nobody has been told", is_in_task=False),
    "process": Point("a batch is about to be processed; at a source: to be emitted"),
    "send": Point("a message is about to leave for another subtask"),
    "receive": Point("a message has arrived from another subtask"),
    "snapshot_sync": Point("the synchronous part of a snapshot begins, behind the barrier"),
    "snapshot_async": Point("the asynchronous part of a snapshot begins"),
    "upload": Point("a file is about to be written to checkpoint storage", has_data=True),
    "acknowledge": Point("a subtask's snapshot is stored, the coordinator does not know it yet"),
    "before_manifest": Point(
        "all have acknowledged, the manifest is about to be written", is_in_task=False, has_data=True
    ),
    "after_manifest": Point("the manifest is written, nobody has been told", is_in_task=False),
    "notify": Point("a subtask has heard that a checkpoint is complete, its operators have not"),
    "commit_before": Point("a sink is about to commit what a complete checkpoint covers"),
    "commit_mid": Point("a part is committed: one of several files, or all that one checkpoint holds"),
    "commit_after": Point("everything is committed, the sink still counts it as pending"),
    "cleanup": Point("files that no checkpoint needs are about to be deleted", is_in_task=False),
    "spark_stage": Point("a Spark stage is about to run the records of an epoch"),
}
"""Every point by name."""


class FailPointError(CheckpointStorageError, OSError):
    """What `raise` and `enospc` raise: an input/output error, caught wherever a real one would be."""


class Marks(Protocol):
    """Where marks are left: whatever outlives the processes of a job, such as its checkpoint storage."""

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create a file; false if it is there already."""

    def list_files(self, prefix: str) -> list[str]:
        """The paths of the files below a directory."""

    def read(self, path: str) -> bytes:
        """Content of a file."""


@dataclass(frozen=True, slots=True)
class FailPoint:
    """One armed point: it fires when a process reaches it for the nth time."""

    text: str
    name: str
    nth: int
    action: str
    sleep_s: float = 0.0
    uid: str | None = None
    subtask: int | None = None
    is_repeated: bool = False

    def matches(self, place: Place | None) -> bool:
        """Whether it is meant for the subtask that reached it."""
        if self.uid is None:
            return True
        if place is None or self.uid not in place.uids:
            return False
        return self.subtask is None or self.subtask == place.subtask


@dataclass(frozen=True, slots=True)
class Place:
    """The subtask that a thread works for."""

    uids: tuple[str, ...]
    subtask: int


@dataclass(frozen=True, slots=True)
class Arming:
    """The points that a job armed; travels with it to every process."""

    job_id: str
    points: tuple[FailPoint, ...]
    marks: Marks = field(compare=False)


@dataclass(frozen=True, slots=True)
class FailPointReport:
    """What became of one armed point.

    Attributes:
        text: The point as it was armed.
        fired: How often it fired, over all processes and restarts.
        where: Where it fired: process id and, in a task, operators and subtask.
    """

    text: str
    fired: int
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.fired:
            return f"fail point {self.text} was not reached"
        return f"fail point {self.text} fired in {'; '.join(self.where)}"


# ---------------------------------------------------------------- what is armed


def parse(text: str) -> tuple[FailPoint, ...]:
    """The points in the value of `TIDEGATE_FAILPOINTS`.

    Raises:
        ConfigurationError: It is malformed, or names what does not exist.
    """
    return tuple(_parse_one(part.strip()) for part in text.split(",") if part.strip())


def _parse_one(text: str) -> FailPoint:
    parts = text.rsplit(":", 2)
    if len(parts) != 3:
        raise _malformed(text, "it is not of the form point:nth:action")
    target, count, action = parts
    name, at, place = target.partition("@")
    if name not in POINTS:
        raise _malformed(text, f"there is no point {name!r}; there are {', '.join(POINTS)}")
    nth = _NTH.fullmatch(count)
    if nth is None:
        raise _malformed(text, f"{count!r} is not a number from 1 on, or one with * behind it")
    if at and not POINTS[name].is_in_task:
        raise _malformed(text, f"{name} is reached by the coordinator, which has no operators")
    uid, subtask = _place(text, place) if at else (None, None)
    verb, sleep_s = _action(text, action)
    if verb == "corrupt" and not POINTS[name].has_data:
        carriers = ", ".join(known for known, point in POINTS.items() if point.has_data)
        raise _malformed(text, f"no bytes pass at {name}; corrupt is for {carriers}")
    return FailPoint(text, name, int(nth[1]), verb, sleep_s, uid, subtask, bool(nth[2]))


def _place(text: str, place: str) -> tuple[str, int | None]:
    uid, slash, subtask = place.rpartition("/")
    if not slash:
        uid, subtask = place, ""
    if not uid or (slash and not subtask.isdecimal()):
        raise _malformed(text, f"{place!r} is not a uid, or uid/subtask with a number from 0 on")
    return uid, int(subtask) if slash else None


def _action(text: str, action: str) -> tuple[str, float]:
    verb, equals, seconds = action.partition("=")
    if verb == "sleep" and equals:
        try:
            sleep_s = float(seconds)
        except ValueError:
            sleep_s = -1.0
        if not 0 <= sleep_s < float("inf"):
            raise _malformed(text, f"{seconds!r} is not a number of seconds")
        return verb, sleep_s
    if action not in ACTIONS:
        raise _malformed(text, f"there is no action {action!r}; there are {', '.join(ACTIONS)}")
    return action, 0.0


def _malformed(text: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{VARIABLE}: {text!r} cannot be armed: {problem}; such as "
        f"commit_before:1:kill,upload@count/0:2:raise"
    )


_armed: _Armed | None = None
_thread = threading.local()


def arm(arming: Arming | None) -> None:
    """Arm the points of a job in this process, or disarm all; those armed already go on counting."""
    global _armed
    if arming is None or not arming.points:
        _armed = None
    elif _armed is None or _armed.arming != arming:
        _armed = _Armed(arming)


def reach(name: str) -> None:
    """This process is at a point."""
    if _armed is not None:
        _armed.reach(name)


def passing(name: str, data: bytes | memoryview) -> bytes | memoryview:
    """This process is at a point with `data` in hand; what is returned is to be used instead."""
    if _armed is not None and _armed.reach(name):
        damaged = bytearray(data)
        if damaged:
            damaged[len(damaged) // 2] ^= 1
        return bytes(damaged)
    return data


def enter(uids: Sequence[str], subtask: int) -> None:
    """From now on this thread works for this subtask."""
    if _armed is not None:
        _thread.place = Place(tuple(uids), subtask)


class _Armed:
    """The armed points of this process, and how often each was reached."""

    def __init__(self, arming: Arming) -> None:
        self.arming = arming
        self._lock = threading.Lock()
        self._counts = [0] * len(arming.points)

    def reach(self, name: str) -> bool:
        """Count, and act on what is due; whether the bytes in hand are to be damaged."""
        place: Place | None = None
        if POINTS[name].is_in_task:
            place = getattr(_thread, "place", None)
            if place is None:
                # The coordinator writes a few small files of its own to checkpoint storage.
                return False
        is_damaging = False
        for number, point in enumerate(self.arming.points):
            if point.name == name and point.matches(place) and self._is_due(number, point):
                is_damaging |= self._fire(number, point, place)
        return is_damaging

    def _is_due(self, number: int, point: FailPoint) -> bool:
        with self._lock:
            self._counts[number] += 1
            return self._counts[number] == point.nth

    def _fire(self, number: int, point: FailPoint, place: Place | None) -> bool:
        if not self._leave_mark(number, point, place):
            return False
        if point.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if point.action == "raise":
            raise FailPointError(errno.EIO, f"fail point {point.text}")
        if point.action == "enospc":
            raise FailPointError(errno.ENOSPC, f"fail point {point.text}: {os.strerror(errno.ENOSPC)}")
        time.sleep(point.sleep_s)
        return point.action == "corrupt"

    def _leave_mark(self, number: int, point: FailPoint, place: Place | None) -> bool:
        """Before the action, which may leave no time for it; false if it was left by another process."""
        where = f"process {os.getpid()}"
        if place is not None:
            where += f" ({' -> '.join(place.uids)}, subtask {place.subtask})"
        name = f"{number}-{os.getpid()}-{time.time_ns()}" if point.is_repeated else f"{number}"
        return self.arming.marks.create_exclusive(f"{MARKS}/{name}", json.dumps(where).encode())


# ---------------------------------------------------------------- what became of it


def _place_of(mark: bytes) -> str:
    """Where a point fired; that it did is what its mark is for, also when its content is damaged."""
    try:
        return str(json.loads(mark))
    except (ValueError, RecursionError):
        return "an unknown process"


def reports(arming: Arming) -> tuple[FailPointReport, ...]:
    """What became of each armed point, by the marks that were left."""
    marks = arming.marks
    where: dict[int, list[str]] = {}
    for path in marks.list_files(MARKS):
        number = _MARK.fullmatch(path.rpartition("/")[2])
        if number is not None:
            where.setdefault(int(number[1]), []).append(_place_of(marks.read(path)))
    return tuple(
        FailPointReport(point.text, len(where.get(number, [])), tuple(where.get(number, [])))
        for number, point in enumerate(arming.points)
    )
