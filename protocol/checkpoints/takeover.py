"""Which stored checkpoints of a job count, and whether its newest completed one is among them.

Every coordinator that takes a job over records the checkpoints that it found and the first id of its own, see
ADR 009. A checkpoint that a replaced coordinator wrote too late to be found does not count. Every coordinator
also records the newest checkpoint that it completed, see ADR 059.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ids import CheckpointId


@dataclass(frozen=True, slots=True)
class Takeover:
    """What the coordinator of one epoch found when it took the job over.

    Attributes:
        epoch: Its number among the coordinators of the job.
        first_id: The first checkpoint id of its own; lower ids are of earlier coordinators.
        checkpoints: Those of the earlier ones that count.
    """

    epoch: int
    first_id: int
    checkpoints: frozenset[int]


@dataclass(frozen=True, slots=True)
class Completion:
    """The newest checkpoint that the coordinator of one epoch completed.

    Attributes:
        epoch: Its number among the coordinators of the job.
        checkpoint_id: The checkpoint.
        needs: Directories of other control files without which the job must not be resumed.
    """

    epoch: int
    checkpoint_id: CheckpointId
    needs: frozenset[str] = frozenset()


def recorded_ids(completions: Iterable[Completion], takeovers: Iterable[Takeover]) -> set[CheckpointId]:
    """The checkpoints that coordinators completed last, or found: the newest of them must be there."""
    found = {CheckpointId(each) for takeover in takeovers for each in takeover.checkpoints}
    return found.union(completion.checkpoint_id for completion in completions)


def lost_directory(completions: Iterable[Completion], files: Iterable[str]) -> str:
    """A directory that the newest coordinator found or wrote files in, and that has none; empty for none.

    Args:
        completions: What each coordinator recorded.
        files: The files of the job's directory.
    """
    newest = max(completions, key=lambda completion: completion.epoch, default=None)
    needs = frozenset() if newest is None else newest.needs
    return min(needs.difference(path.partition("/")[0] for path in files), default="")


def counts(checkpoint_id: CheckpointId, takeovers: Iterable[Takeover]) -> bool:
    """Whether a checkpoint was completed in time, as the newest coordinator that had to judge it recorded.

    The newest judges, since an older one may have recorded its view after it was replaced. It may also have
    taken its ids that late: it does not judge those of a coordinator after it, although they are lower.
    """
    takeovers = list(takeovers)
    judges = [
        judge
        for judge in takeovers
        if checkpoint_id < judge.first_id
        and not any(after.first_id <= checkpoint_id for after in takeovers if after.epoch > judge.epoch)
    ]
    return not judges or checkpoint_id in max(judges, key=lambda judge: judge.epoch).checkpoints


def missing_newest(
    stored: Iterable[CheckpointId], recorded: Iterable[CheckpointId], takeovers: Iterable[Takeover]
) -> CheckpointId | None:
    """The newest completed checkpoint, if its manifest is missing; `None` if nothing is.

    A checkpoint is deleted only when a newer one is complete, so the newest one must be there.

    Args:
        stored: The checkpoints that have a manifest and count.
        recorded: The checkpoints that coordinators recorded as completed or found.
        takeovers: What each coordinator found.
    """
    takeovers = list(takeovers)
    newest = max((each for each in recorded if counts(each, takeovers)), default=CheckpointId(0))
    return newest if newest > max(stored, default=CheckpointId(0)) else None
