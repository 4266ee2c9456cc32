"""The exactly-once file sink: Parquet files that appear when their checkpoint is complete.

A record goes through three places: rows of the open file in `.staging`, a closed and durable file in
`.staging` once a barrier passed, a file in the directory itself once the checkpoint is complete. The
last step is a rename, so a reader sees a file whole or not at all (the scheme of Flink's FileSink). The
files of one epoch are one transaction.
"""

from __future__ import annotations

import io
import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..common.errors import ConfigurationError
from ..operators.arrow_records import records_to_batch
from ..operators.base import OperatorContext
from ..operators.two_phase_commit import TwoPhaseCommitSink
from ..protocol.ids import CheckpointId
from .file_errors import file_errors, local_path
from .file_parts import (
    STAGING,
    FileTransaction,
    PartName,
    StagedFile,
    owner_of,
    publish,
    remove_file,
    remove_left_overs,
    sync_directory,
)


class FileSink(TwoPhaseCommitSink[FileTransaction]):
    """Writes records to Parquet files in a directory, each exactly once.

    Without checkpointing, files appear at the end of the input. What a job that never comes back left
    in `.staging` stays there, since a savepoint may still need it; readers do not see it.

    Args:
        directory: Where the files appear; a path that every node mounts.
        schema: Columns. Records are tuples in their order, or dicts or rows with their names.
        max_file_size_bytes: A file is closed and the next one begun when it is this big.
        row_group_bytes: Records are held in memory, as Arrow, until they make a row group of this size.
        compression: Parquet codec: `snappy`, `zstd`, `gzip`, `none`, …
    """

    # A rename that fails seldom does better a second later.
    commit_attempts = 3

    def __init__(
        self,
        directory: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        max_file_size_bytes: int = 128 << 20,
        row_group_bytes: int = 16 << 20,
        compression: str = "snappy",
    ) -> None:
        if min(max_file_size_bytes, row_group_bytes) < 1:
            raise ConfigurationError("the file sink's max_file_size_bytes and row_group_bytes start at 1")
        if compression != "none" and not pa.Codec.is_available(compression):
            raise ConfigurationError(f"the file sink cannot compress with {compression!r} here")
        self.directory = local_path(directory)
        self._schema = schema
        self._max_file_size_bytes = max_file_size_bytes
        self._row_group_bytes = row_group_bytes
        self._compression = compression

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._owner = owner_of(context)
        self._attempt = context.attempt
        # One subtask is enough, and the first is there at every parallelism.
        self._must_clean = context.subtask_index == 0
        self._files = ParquetFiles(
            self.directory, self._schema, self._max_file_size_bytes, self._row_group_bytes, self._compression
        )
        self._files.open(context)

    def begin_transaction(self) -> FileTransaction:
        return FileTransaction()

    def write(self, transaction: FileTransaction, values: list[Any]) -> None:
        self._files.write(values)

    def pre_commit(self, transaction: FileTransaction) -> None:
        transaction.files.extend(self._files.finish())

    def commit(self, transaction: FileTransaction) -> None:
        publish(transaction.files, self._where)

    def abort(self, transaction: FileTransaction) -> None:
        self._files.abandon()

    def recover_and_abort(self, transaction: FileTransaction) -> None:
        """Its files had no names yet: `notify_committed` finds them by their attempt."""

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        if self._must_clean:
            remove_left_overs(self.directory, self._owner, self._attempt, self._where)
            self._must_clean = False


class ParquetFiles:
    """Writes the records of one subtask to files in staging."""

    def __init__(
        self,
        directory: str,
        schema: pa.Schema,
        max_file_size_bytes: int,
        row_group_bytes: int,
        compression: str,
    ) -> None:
        self._directory = directory
        self._staging = os.path.join(directory, STAGING)
        self._schema = schema
        self._max_file_size_bytes = max_file_size_bytes
        self._row_group_bytes = row_group_bytes
        self._compression = compression
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._file: _OpenFile | None = None
        self._closed: list[StagedFile] = []
        self._next_number = 0

    def open(self, context: OperatorContext) -> None:
        """Make the staging directory."""
        self._where = f"operator {context.name_with_subtask}"
        self._name = PartName(context.subtask_index, context.attempt, 0, owner_of(context))
        with file_errors(self._where, "creating", self._staging):
            os.makedirs(self._staging, exist_ok=True)

    def write(self, values: list[Any]) -> None:
        """Add records; they may wait in memory."""
        batch = records_to_batch(values, self._schema, self._where)
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= self._row_group_bytes:
            self._write_row_group()

    def finish(self) -> list[StagedFile]:
        """Make everything added so far durable; the files of it."""
        if self._held:
            self._write_row_group()
        if self._file is not None:
            self._close_file(self._file)
        closed, self._closed = self._closed, []
        if closed:
            with file_errors(self._where, "writing in", self._staging):
                sync_directory(self._staging)
        return closed

    def abandon(self) -> None:
        """Throw away what was not finished."""
        self._held, self._held_bytes = [], 0
        file, self._file = self._file, None
        paths = [staged.staged_path for staged in self._closed]
        self._closed = []
        if file is not None:
            file.abandon()
            paths.append(file.path)
        for path in paths:
            with file_errors(self._where, "removing", path):
                remove_file(path)

    def _write_row_group(self) -> None:
        file = self._file = self._file or self._next_file()
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_bytes = [], 0
        with file_errors(self._where, "writing", file.path):
            file.write(table)
        if file.size_bytes >= self._max_file_size_bytes:
            self._close_file(file)

    def _next_file(self) -> _OpenFile:
        part = PartName(self._name.subtask_index, self._name.attempt, self._next_number, self._name.owner)
        self._next_number += 1
        path = os.path.join(self._staging, str(part))
        with file_errors(self._where, "creating", path):
            return _OpenFile(path, self._schema, self._compression)

    def _close_file(self, file: _OpenFile) -> None:
        with file_errors(self._where, "writing", file.path):
            file.close()
        self._file = None
        final_path = os.path.join(self._directory, os.path.basename(file.path))
        self._closed.append(StagedFile(file.path, final_path))


class _OpenFile:
    """A Parquet file being written."""

    def __init__(self, path: str, schema: pa.Schema, compression: str) -> None:
        self.path = path
        self._sink = _Discardable(path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression=compression)

    @property
    def size_bytes(self) -> int:
        return self._sink.size_bytes

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        """Write the footer and make the file durable."""
        self._writer.close()
        os.fsync(self._sink.fileno())
        self._sink.close()

    def abandon(self) -> None:
        """Let go of a file that nobody will read."""
        self._sink.discard()
        self._writer.close()
        self._sink.close()


class _Discardable(io.FileIO):
    """A file that can stop taking what is written: Parquet's writer must write a footer to be closed,
    and on a full disk it could not.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "wb")
        self._is_discarded = False
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        while len(view) and not self._is_discarded:
            # A raw file may take less than it was offered.
            view = view[super().write(view) :]
        self.size_bytes += memoryview(data).nbytes
        return memoryview(data).nbytes

    def discard(self) -> None:
        """Take no more bytes."""
        self._is_discarded = True
