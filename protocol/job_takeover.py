"""How a new coordinator takes a job over (ADR 009): which step follows on which, as one table.

The order is what makes it safe, since coordinators do not exclude each other: one that was stopped may go on
in the middle of its takeover, or complete a checkpoint, while its successor is in any step of its own. Each
step reads or writes storage once; the machine only says which one is next.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from .checkpoints.checkpoint_paths import manifest_path, stored_ids
from .checkpoints.takeover import Completion, Takeover, counts, lost_directory, missing_newest, recorded_ids
from .ids import CheckpointId
from .life_cycle import LifeCycle


class TakeoverStep(enum.Enum):
    """What the coordinator does next, after it has claimed its epoch."""

    FIND_FIRST_ID = "find an id above all that may have been given"
    READ_COMPLETIONS = "read which checkpoints were completed last"
    READ_TAKEOVERS = "read which checkpoints earlier takeovers found"
    LIST_FILES = "list the files of the job"
    READ_TAKEOVERS_AGAIN = "read the takeovers again"
    READ_MANIFESTS = "read the checkpoints that count"
    RECORD = "record which checkpoints count"
    CHECK_FENCE = "verify that no newer coordinator claimed the job"
    DELETE_LATE = "delete the manifests that do not count"
    VERIFY_LOSS = "verify that no newer coordinator explains what is missing"
    DONE = "the job is taken over"
    FENCED = "another coordinator took over"
    INCOMPLETE = "a completed checkpoint is missing"


class TakeoverEvent(enum.Enum):
    """How a step ended."""

    SUCCEEDED = "done"
    LOSS_FOUND = "something is missing"
    RECORDED_ALREADY = "the record exists already"


def _table() -> dict[tuple[TakeoverStep, TakeoverEvent], TakeoverStep]:
    step, done = TakeoverStep, TakeoverEvent.SUCCEEDED
    return {
        (step.FIND_FIRST_ID, done): step.READ_COMPLETIONS,
        # Before the list of files: what is recorded as completed is in that list, or something newer is.
        (step.READ_COMPLETIONS, done): step.READ_TAKEOVERS,
        (step.READ_TAKEOVERS, done): step.LIST_FILES,
        # After the list: what was deleted before it because it does not count is recorded as such by now.
        (step.LIST_FILES, done): step.READ_TAKEOVERS_AGAIN,
        (step.READ_TAKEOVERS_AGAIN, done): step.READ_MANIFESTS,
        (step.READ_TAKEOVERS_AGAIN, TakeoverEvent.LOSS_FOUND): step.VERIFY_LOSS,
        # A newer coordinator may have found what was written after the list.
        (step.VERIFY_LOSS, done): step.INCOMPLETE,
        (step.READ_MANIFESTS, done): step.RECORD,
        (step.RECORD, TakeoverEvent.RECORDED_ALREADY): step.FENCED,
        # After the record: a newer coordinator claims first and looks for records then. If it missed this
        # one, it may count other checkpoints, and nothing may be deleted or restored here.
        (step.RECORD, done): step.CHECK_FENCE,
        (step.CHECK_FENCE, done): step.DELETE_LATE,
        (step.DELETE_LATE, done): step.DONE,
    }


TAKEOVER_TRANSITIONS = _table()
"""`FENCED` is reached from the two steps that look at newer claims, too: then they raise."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a job recorded and lacks.

    Attributes:
        path: The missing manifest or directory, below the job's directory.
        newest_left: The newest checkpoint that is there, `None` if there is none.
    """

    path: str
    newest_left: CheckpointId | None


class JobTakeover(LifeCycle[TakeoverStep, TakeoverEvent]):
    """The takeover by one coordinator: its step, and what it has read.

    Call the method of the current step with what storage answered.

    Args:
        epoch: The number of the coordinator among those of the job.
    """

    def __init__(self, epoch: int) -> None:
        super().__init__("the takeover", TAKEOVER_TRANSITIONS, TakeoverStep.FIND_FIRST_ID)
        self._epoch = epoch
        self._first_id = 0
        self._completed: list[Completion] = []
        self._recorded: set[CheckpointId] = set()
        self._files: list[str] = []
        self.accepted: list[CheckpointId] = []
        """The checkpoints of earlier coordinators that count, oldest first, once that is known."""
        self.late: list[CheckpointId] = []
        """Those that were completed too late to count."""
        self.loss: Loss | None = None
        """What is missing, once that is known."""

    def found_first_id(self, first_id: int) -> None:
        """Ids from `first_id` on were given by no coordinator."""
        self._first_id = first_id
        self.done()

    def read_completions(self, completed: Iterable[Completion]) -> None:
        """The newest checkpoint that each coordinator recorded as completed."""
        self._completed = list(completed)
        self.done()

    def read_takeovers(self, takeovers: Iterable[Takeover]) -> None:
        """What earlier takeovers recorded; the second time they judge what is listed."""
        takeovers = list(takeovers)
        if self.state is TakeoverStep.READ_TAKEOVERS:
            self._recorded = recorded_ids(self._completed, takeovers)
            self.done()
        else:
            self._judge(takeovers)

    def listed(self, files: Iterable[str]) -> None:
        """The files of the job's directory."""
        self._files = list(files)
        self.done()

    def _judge(self, takeovers: list[Takeover]) -> None:
        stored = stored_ids(self._files)
        self.accepted = [each for each in stored if counts(each, takeovers)]
        self.late = [each for each in stored if each not in self.accepted]
        missing = missing_newest(self.accepted, self._recorded, takeovers)
        lost = lost_directory(self._completed, self._files) if missing is None else manifest_path(missing)
        if lost:
            self.loss = Loss(lost, max(self.accepted, default=None))
        self.handle(TakeoverEvent.LOSS_FOUND if lost else TakeoverEvent.SUCCEEDED)

    @property
    def record(self) -> Takeover:
        """What is to be recorded."""
        return Takeover(self._epoch, self._first_id, frozenset(self.accepted))

    def recorded(self, is_new: bool) -> None:
        """The record was written, or there was one already."""
        self.handle(TakeoverEvent.SUCCEEDED if is_new else TakeoverEvent.RECORDED_ALREADY)

    def done(self) -> None:
        """The current step was performed."""
        self.handle(TakeoverEvent.SUCCEEDED)
