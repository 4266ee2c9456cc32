"""The file sink that merges the files of several epochs before they appear, each record exactly once.

At a barrier the files of the epoch are complete in `.staging`. The sink holds them there, and their names
are part of the checkpoint. When the strategy says so, the sink writes their records to one file, which is
part of the transaction of that epoch. Its commit publishes the file and then deletes those it replaces. After
a restore the sink holds the files that the checkpoint names: a merge that was not committed happens again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ...operators.base import OperatorContext
from ...operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from ...state.descriptors import ListStateDescriptor
from .compaction import FileCompactor, FileCompactStrategy, Merge
from .errors import FileConnectorError, file_errors
from .parts import FileTransaction, StagedFile
from .sink import FileSink


@dataclass(slots=True)
class CompactedTransaction(FileTransaction):
    """The files to publish, and the paths of those that they replace."""

    replaced: list[str] = field(default_factory=list)


class CompactingFileSink(FileSink, CheckpointedFunction):
    """A `FileSink` with compaction. Obtain one from `FileSinkBuilder.enable_compact`."""

    STATE_NAME = "files to compact"

    def with_compaction(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> CompactingFileSink:
        """Set when and how files are merged.

        Raises:
            ConfigurationError: Files of this format cannot be merged so.
        """
        compactor.validate(self._format)
        self._strategy, self._compactor = strategy, compactor
        return self

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._index, self._parallelism = context.subtask_index, context.parallelism
        self._held: list[StagedFile] = []
        self._epochs = 0
        self._has_ended = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._state = store.get_union_list_state(ListStateDescriptor(self.STATE_NAME, None))
        restored: list[StagedFile] = sorted(self._state.get(), key=lambda file: file.staged_path)
        # The subtask that cleans up must spare the files of all others.
        self._protected = frozenset(os.path.basename(file.staged_path) for file in restored)
        self._held = restored[self._index :: self._parallelism]
        with file_errors(self._where, "looking for the files to compact in", self._store.staging):
            missing = [file for file, size in self._sizes(self._held) if size is None]
        if missing:
            raise FileConnectorError(
                f"{self._where}: {missing[0].staged_path} is gone, which the restored checkpoint holds "
                f"for compaction. A later checkpoint has merged and published it: restore the latest one"
            )

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._held)

    def begin_transaction(self) -> FileTransaction:
        return CompactedTransaction()

    def must_prepare(self) -> bool:
        return bool(self._held)

    def end_input(self) -> None:
        self._has_ended = True

    def pre_commit(self, transaction: FileTransaction) -> None:
        assert isinstance(transaction, CompactedTransaction)
        self._held += self._files.finish()
        self._epochs += 1
        limit = self._strategy.checkpoints
        is_time = self._has_ended or (limit is not None and self._epochs >= limit)
        if is_time:
            self._epochs = 0
        waiting: list[StagedFile] = []
        for group in self._buckets():
            if is_time or self._is_large(group):
                self._release(group, transaction)
            else:
                waiting += group
        self._held = waiting
        if transaction.replaced:
            with file_errors(self._where, "writing in", self._store.staging):
                self._store.synchronise()

    def commit(self, transaction: FileTransaction) -> None:
        super().commit(transaction)
        for path in getattr(transaction, "replaced", ()):
            with file_errors(self._where, "removing", path):
                self._store.remove(path)

    def _buckets(self) -> list[list[StagedFile]]:
        """The held files of each bucket, in the order in which they were written."""
        groups: dict[str, list[StagedFile]] = {}
        for file in self._held:
            groups.setdefault(os.path.dirname(file.final_path), []).append(file)
        return list(groups.values())

    def _sizes(self, files: list[StagedFile]) -> list[tuple[StagedFile, int | None]]:
        found = self._location.file_system.get_file_info([file.staged_path for file in files])
        return [(file, info.size) for file, info in zip(files, found, strict=True)]

    def _is_large(self, group: list[StagedFile]) -> bool:
        threshold = self._strategy.size_threshold
        if threshold is None:
            return False
        with file_errors(self._where, "looking for", group[0].staged_path):
            return sum(size or 0 for _, size in self._sizes(group)) >= threshold

    def _release(self, group: list[StagedFile], transaction: CompactedTransaction) -> None:
        # A restored sink may write to another directory; earlier files stay where they belong.
        is_elsewhere = group[0].directory != self._store.directory
        if len(group) == 1 or is_elsewhere or not self._compactor.is_merging:
            transaction.files += group
            return
        paths = [file.staged_path for file in group]
        stream = self._files.new_file()
        with file_errors(self._where, "compacting files to", stream.path):
            merge = Merge(paths, self._location.file_system, self._format, self._schema)
            self._compactor.compact(merge, stream)
            stream.make_durable()
        final = f"{os.path.dirname(group[0].final_path)}/{os.path.basename(stream.path)}"
        transaction.files.append(StagedFile(stream.path, final))
        transaction.replaced += paths
