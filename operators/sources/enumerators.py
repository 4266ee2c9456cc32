"""The half of a source that runs once, in the coordinator: it finds splits and gives them to readers.

Source of names and semantics: Flink's FLIP-27 (`SplitEnumerator`, `SplitEnumeratorContext`).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

AsyncHandler = Callable[[Any, BaseException | None], None]


class Boundedness(enum.Enum):
    """Whether the records of a source end by themselves."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous-unbounded"


class SplitEnumeratorContext(Protocol):
    """What an enumerator can do. Every method is called on the coordinator's thread."""

    def current_parallelism(self) -> int:
        """How many readers there are, or will be."""

    def registered_readers(self) -> Sequence[int]:
        """The subtasks whose readers run, in order."""

    def assign_split(self, split: Any, subtask_id: int) -> None:
        """Give a split (picklable) to the reader in a subtask."""

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        """Give splits to readers, by subtask."""

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Let a reader end when it has read what it has."""

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send something (picklable) to `SourceReader.handle_source_event`."""

    def call_async(
        self,
        call: Callable[[], Any],
        handler: AsyncHandler,
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Run `call` in another thread, as it may wait, and then `handler` on the coordinator's thread.

        Args:
            call: Looks outside, for new splits for example. It must not touch the enumerator.
            handler: Gets the result and `None`, or `None` and the exception.
            initial_delay_ms: How long to wait before.
            period_ms: Again so long after each time that the handler has run; `None` for once only.
        """


class SplitEnumerator(ABC):
    """Finds splits and assigns them. All calls come from one thread, one at a time, and must not wait.

    An exception fails the job, which restarts from its newest checkpoint as after any other failure.
    """

    def start(self) -> None:
        """Called once, before everything else; the place for `context.call_async`."""

    def handle_split_request(self, subtask_id: int) -> None:
        """The reader in a subtask has nothing left to read."""

    @abstractmethod
    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        """Take splits back, to assign them anew.

        After a restore these are the splits that readers had in the checkpoint, with their positions. Which
        subtask had them does not matter any more, and the parallelism may be another one now.
        """

    def add_reader(self, subtask_id: int) -> None:
        """The reader in a subtask runs, without any split. Called for each, after all `add_splits_back`."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        """The reader in a subtask sent something by `OperatorContext.send_source_event`."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_source_event()")

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What the enumerator knows (picklable), without what it has assigned: readers keep that."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, perhaps an earlier one than the latest that was snapshotted."""

    def close(self) -> None:
        """Release everything; called once, also after a failure."""
