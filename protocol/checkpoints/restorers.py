"""Jobs that start from a checkpoint of another job, and what follows from that (ADR 063).

A job that starts from a checkpoint takes over the job that wrote it, for good: the epoch that it claims there
names it, and every later epoch repeats that. Such a record ends the job; no coordinator runs it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..ids import CheckpointId
from .json_fields import Fields


@dataclass(frozen=True, slots=True)
class RestoringJob:
    """A job that started from a checkpoint of another one.

    Attributes:
        job_id: Its id.
        directory: Address of its own checkpoints; an empty text for a job that takes none.
    """

    job_id: str
    directory: str

    def __str__(self) -> str:
        return f"{self.job_id} ({self.directory})" if self.directory else self.job_id

    def is_beside(self, directory: str) -> bool:
        """Whether its directory is next to another job's: what is recorded elsewhere is not followed."""
        return self.directory == f"{directory.rpartition('/')[0]}/{self.job_id}"


Restorers = tuple[RestoringJob, ...]
"""The jobs that started from checkpoints of one job, the latest last."""


def ended_by(restorers: Restorers) -> str:
    """Why a job has ended from whose checkpoints others have started."""
    return (
        f"job {restorers[-1]} was started to continue this job, which ends this one. To copy a job "
        f"and leave it running, start the copy from a savepoint"
    )


def encode_restorers(restorers: Restorers) -> list[dict[str, str]]:
    """The restorers as plain JSON data."""
    return [{"job_id": each.job_id, "directory": each.directory} for each in restorers]


def decode_restorers(fields: Fields, name: str) -> Restorers:
    """The restorers in a field of a document, none if there is no such field.

    Raises:
        CorruptCheckpointError: The document is damaged.
    """
    if not fields.has(name):
        return ()
    return tuple(RestoringJob(each.text("job_id"), each.text("directory")) for each in fields.children(name))


def with_restorer(restorers: Restorers, newest: RestoringJob, continued: Collection[str]) -> Restorers:
    """The restorers of a job that `newest` starts from now.

    Jobs before the last one that completed a checkpoint of its own are left out: nothing follows from them.

    Args:
        continued: Ids of the restorers that completed a checkpoint, or removed the one they started from.
    """
    kept = [each for each in restorers if each != newest]
    last = max((index for index, each in enumerate(kept) if each.job_id in continued), default=0)
    return (*kept[last:], newest)


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What the directory of one job's checkpoints holds.

    Attributes:
        checkpoints: Ids of its completed checkpoints.
        restorers: The jobs that started from one of them.
        damage: Why it is not known which of them is the latest; empty if that is known.
    """

    checkpoints: frozenset[CheckpointId]
    restorers: Restorers = ()
    damage: str = ""


def histories(jobs: Mapping[str, StoredJob]) -> list[tuple[str, ...]]:
    """The histories in a directory of checkpoints: for each, the jobs with which it begins, sorted.

    A history is a job, the jobs that started from its checkpoints, those that started from theirs, and so on.
    A job without any checkpoint is one too: it may be the last one that was started, and may still run. A
    history begins with several jobs if a job ended them all before it started from nothing (ADR 070).

    Args:
        jobs: By the address of their directories.
    """
    successors = {each.directory for job in jobs.values() for each in job.restorers}
    found: list[tuple[set[str], list[str]]] = []
    for origin in sorted(each for each in jobs if each not in successors):
        members, origins = _followers(jobs, origin), [origin]
        for other in [each for each in found if each[0] & members]:
            found.remove(other)
            members, origins = members | other[0], [*other[1], *origins]
        found.append((members, origins))
    return sorted(tuple(sorted(origins)) for _, origins in found)


def _followers(jobs: Mapping[str, StoredJob], origin: str) -> set[str]:
    """A job, and all that started from its checkpoints, directly or not."""
    members, waiting = {origin}, [origin]
    while waiting:
        job = jobs.get(waiting.pop())
        for each in () if job is None else job.restorers:
            if each.directory and each.directory not in members:
                members.add(each.directory)
                waiting.append(each.directory)
    return members
