"""Two-phase sinks, as a user writes them: transactions that are committed when their checkpoint is complete.

Source of names and semantics: Flink's `TwoPhaseCommitSinkFunction`. `docs/two-phase-sinks.md` is the guide.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..common.errors import ConfigurationError, TidegateError, UserCodeError
from ..protocol.elements import Batch, RowBatch
from ..protocol.ids import CheckpointId
from .base import OperatorContext
from .sinks import Committer, Sink, SinkWriter

logger = logging.getLogger(__name__)

Txn = TypeVar("Txn")


class TwoPhaseCommitSink(Sink, Generic[Txn]):
    """A sink whose records go into transactions, each exactly once.

    A transaction is what `begin_transaction` returns: a picklable value that names the work outside, such
    as the path of a file or the id of a transaction in a database. Connections and open files belong to
    the sink itself: they are opened in `open`, in the subtask, and closed in `close`.

    A transaction is prepared at a barrier (`pre_commit`), stored in the checkpoint, and committed when
    the checkpoint is complete. If the process dies in between, the checkpoint is restored, and a subtask,
    perhaps another one, commits it again: `commit` and `recover_and_commit` must be idempotent. One that
    was not prepared is aborted. No empty transaction is committed: one that has taken no record stays
    open for the next epoch.

    A sink may also be a `CheckpointedFunction` or a `CheckpointListener`.

    Attributes:
        commit_attempts: How often a commit is tried before the task fails and the job restarts.
        commit_retry_ms: Pause before the second try; it doubles with each.
    """

    commit_attempts: int = 5
    commit_retry_ms: int = 100

    def open(self, context: OperatorContext) -> None:
        """Called once in the subtask, before everything else."""

    @abstractmethod
    def begin_transaction(self) -> Txn:
        """Start a transaction. Its name must be new: neither another subtask nor another attempt used it."""

    @abstractmethod
    def write(self, transaction: Txn, values: list[Any]) -> None:
        """Write some records."""

    def write_elements(self, transaction: Txn, batch: Batch) -> None:
        """Write a batch as it travels, never an empty one: Arrow columns or records, with event times.

        By default `write` gets its records.
        """
        self.write(transaction, batch.rows())

    def pre_commit(self, transaction: Txn) -> None:
        """Make everything written durable, but not visible. Nothing more is written to it."""

    def must_prepare(self) -> bool:
        """Whether to prepare the transaction at this barrier although it has taken no record."""
        return False

    def end_input(self) -> None:
        """The input has ended: the next `pre_commit` is the last one."""

    @abstractmethod
    def commit(self, transaction: Txn) -> None:
        """Make it visible, in whole. Must change nothing if that was done already."""

    def abort(self, transaction: Txn) -> None:
        """Throw away a transaction of this subtask that was not prepared."""

    def recover_and_commit(self, transaction: Txn) -> None:
        """Commit a transaction of a restored checkpoint; by default as `commit` does."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Txn) -> None:
        """Throw away a transaction that had begun when the restored checkpoint was taken.

        If an older checkpoint than the newest is restored, it may have been committed since: then it must
        be left alone. By default as `abort` does.
        """
        self.abort(transaction)

    def is_ready(self) -> bool:
        """Whether the next records can be taken now; the task asks again shortly when not."""
        return True

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint of this attempt is complete and committed, and what was restored is too.

        So what earlier attempts prepared and nobody committed can be thrown away now, and not before.
        """

    def close(self) -> None:
        """Release everything. Called once, also after a failure."""

    def validate(self) -> None:
        if self.commit_attempts < 1 or self.commit_retry_ms < 0:
            raise ConfigurationError(
                f"{type(self).__name__}: commit_attempts starts at 1 (it is {self.commit_attempts}), "
                f"commit_retry_ms at 0 (it is {self.commit_retry_ms})"
            )

    def create_writer(self) -> SinkWriter:
        return _TransactionWriter(self)

    def create_committer(self) -> Committer:
        return _TransactionCommitter(self)


class _TransactionWriter(SinkWriter, Generic[Txn]):
    """Keeps the one transaction that is open."""

    def __init__(self, sink: TwoPhaseCommitSink[Txn]) -> None:
        self._sink = sink
        self._open: list[Txn] = []
        self._is_empty = True

    def open(self, context: OperatorContext) -> None:
        self._open = [self._sink.begin_transaction()]

    def write_batch(self, values: list[Any]) -> None:
        self.write_elements(RowBatch(values))

    def write_elements(self, batch: Batch) -> None:
        if len(batch):
            self._is_empty = False
            self._sink.write_elements(self._open[0], batch)

    def prepare_commit(self) -> list[Any]:
        if self._is_empty and not self._sink.must_prepare():
            return []
        prepared = self._open[0]
        self._sink.pre_commit(prepared)
        # From here on it is committed or recovered, and never aborted.
        self._open, self._is_empty = [], True
        # Now, and not with the first record: the snapshot must name it, or nobody could ever abort it.
        self._open = [self._sink.begin_transaction()]
        return [prepared]

    def end_input(self) -> None:
        self._sink.end_input()

    def begun(self) -> list[Any]:
        return list(self._open)

    def checkpointed(self) -> object:
        return self._sink

    def is_ready(self) -> bool:
        return self._sink.is_ready()

    def close(self) -> None:
        begun, self._open = self._open, []
        for transaction in begun:
            self._sink.abort(transaction)


class _TransactionCommitter(Committer, Generic[Txn]):
    """Commits, and retries for a time. It is opened before the writer, and so opens the sink."""

    def __init__(self, sink: TwoPhaseCommitSink[Txn]) -> None:
        self._sink = sink

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._sink.open(context)

    def commit(self, committables: list[Txn]) -> None:
        for transaction in committables:
            self._persistently(self._sink.commit, transaction)

    def recover_and_commit(self, committables: list[Txn]) -> None:
        for transaction in committables:
            self._persistently(self._sink.recover_and_commit, transaction)

    def recover_and_abort(self, begun: list[Txn]) -> None:
        for transaction in begun:
            self._sink.recover_and_abort(transaction)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._sink.notify_committed(checkpoint_id)

    def close(self) -> None:
        self._sink.close()

    def _persistently(self, commit: Callable[[Txn], None], transaction: Txn) -> None:
        """A checkpoint that is complete must be committed; a restart of the job is a dear way to retry."""
        pause_ms = self._sink.commit_retry_ms
        for attempt in range(1, self._sink.commit_attempts + 1):
            try:
                commit(transaction)
                return
            except Exception as error:
                if attempt == self._sink.commit_attempts:
                    raise self._final(error, transaction, attempt) from error
                logger.warning(
                    "%s: committing %.200r failed (%s); trying again in %d ms",
                    self._where, transaction, error, pause_ms,
                )  # fmt: skip
                time.sleep(pause_ms / 1_000)
                pause_ms *= 2

    def _final(self, error: Exception, transaction: Txn, attempts: int) -> TidegateError:
        if isinstance(error, TidegateError):
            return error
        return UserCodeError(
            f"{self._where}: committing the transaction {transaction!r:.200} failed {attempts} times, the "
            f"last time with {type(error).__name__}: {error}. It stays in the checkpoint and is committed "
            f"when the job restarts"
        )
