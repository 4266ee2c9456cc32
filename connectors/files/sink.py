"""The exactly-once file sink: files appear when the checkpoint that covers them is complete.

A record goes through three places: rows of a file in `.staging` that is being written, a whole and durable
file in `.staging` once a barrier passed, a file in its bucket once the checkpoint is complete. The last step
is atomic, so a reader sees a file in whole or not at all (the scheme of Flink's FileSink: in progress,
pending, finished). The files of one epoch are one transaction.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from ...common.errors import ConfigurationError
from ...common.serialization import BulkWriterFactory, Encoder
from ...operators.base import OperatorContext
from ...operators.two_phase_commit import TwoPhaseCommitSink
from ...protocol.elements import Batch, RowBatch
from ...protocol.ids import CheckpointId
from .compaction import FileCompactor, FileCompactStrategy
from .errors import file_errors
from .formats import FileFormat, ParquetFormat
from .location import locate
from .parts import FileTransaction, OutputFileConfig, PartName, owner_of
from .policies import BucketAssigner, RollingPolicy
from .stores import open_store
from .text_formats import TextLineFormat
from .writing import BucketFiles


class FileSink(TwoPhaseCommitSink[FileTransaction]):
    """Writes records to files in a directory, each exactly once.

    Without checkpointing, files appear at the end of the input. What a job that never comes back left
    in `.staging` stays there, since a savepoint may still need it; readers do not see it.

    Args:
        directory: Where the files appear: a path that every node mounts, or a URI (`s3://…`, `gs://…`, `hdfs://…`).
        schema: Columns. Records are tuples in their order, or dicts or rows with their names; Arrow batches
            have them as they are. Text lines need none.
        file_format: What to write.
        bucket_assigner: Into which directory below `directory` a record goes; by default all into itself.
        rolling_policy: When a file ends before a barrier does it; by default at 128 MiB.
        row_group_bytes: Records are held in memory, as Arrow, until they make a row group of this size; for
            each of at most 64 buckets.
        output_file_config: How names begin and end.
        file_system: A `pyarrow.fs.FileSystem` that the directory lies in, which then has no scheme.
    """

    # A rename that fails seldom does better a second later, an object store may.
    commit_attempts = 5

    # Names of staged files of earlier attempts that this one still needs.
    _protected: frozenset[str] = frozenset()

    def __init__(
        self,
        directory: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        file_format: FileFormat | None = None,
        bucket_assigner: BucketAssigner | None = None,
        rolling_policy: RollingPolicy | None = None,
        row_group_bytes: int = 16 << 20,
        output_file_config: OutputFileConfig | None = None,
        file_system: Any = None,
    ) -> None:
        if row_group_bytes < 1:
            raise ConfigurationError("the file sink's row_group_bytes start at 1")
        self._format = file_format or ParquetFormat()
        if schema is None:
            if not isinstance(self._format, TextLineFormat):
                raise ConfigurationError("the file sink needs a schema for every format but lines of text")
            schema = TextLineFormat.SCHEMA
        self._location = locate(directory, file_system)
        self._schema = schema
        self._assigner = bucket_assigner or BucketAssigner.base_path_bucket_assigner()
        self._rolling = rolling_policy or RollingPolicy()
        self._row_group_bytes = row_group_bytes
        self._names = output_file_config or OutputFileConfig()

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Encoder) -> FileSinkBuilder:
        """Begin to say how lines of text are written."""
        return FileSinkBuilder(base_path, TextLineFormat(encoder.charset), None)

    @staticmethod
    def for_bulk_format(
        base_path: str | os.PathLike[str],
        file_format: FileFormat | BulkWriterFactory,
        schema: pa.Schema | None = None,
    ) -> FileSinkBuilder:
        """Begin to describe a sink that writes files of a format.

        Args:
            base_path: Where the files appear.
            file_format: The format, or a writer factory as in PyFlink, which includes the schema.
            schema: The columns; needed with a format.
        """
        if isinstance(file_format, BulkWriterFactory):
            return FileSinkBuilder(base_path, file_format.file_format, file_format.schema)
        return FileSinkBuilder(base_path, file_format, schema)

    @property
    def directory(self) -> str:
        """Where the files appear, as a path of their file system."""
        return self._location.path

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._owner = owner_of(context)
        self._attempt = context.attempt
        # One subtask is enough, and the first is there at every parallelism.
        self._must_clean = context.subtask_index == 0
        self._store = open_store(self._location)
        self._files = BucketFiles(
            self._store,
            self._format,
            self._schema,
            self._assigner,
            self._rolling,
            self._row_group_bytes,
            self._names,
        )
        self._files.open(context)

    def begin_transaction(self) -> FileTransaction:
        return FileTransaction()

    def write(self, transaction: FileTransaction, values: list[Any]) -> None:
        self._files.write(RowBatch(values))

    def write_elements(self, transaction: FileTransaction, batch: Batch) -> None:
        self._files.write(batch)

    def pre_commit(self, transaction: FileTransaction) -> None:
        transaction.files.extend(self._files.finish())

    def commit(self, transaction: FileTransaction) -> None:
        self._store.publish_all(transaction.files, self._where)

    def abort(self, transaction: FileTransaction) -> None:
        self._files.abandon()

    def recover_and_abort(self, transaction: FileTransaction) -> None:
        """Its files had no names yet: `notify_committed` finds them by their attempt."""

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        """Delete what earlier attempts staged: what a checkpoint holds has been committed by now."""
        if not self._must_clean:
            return
        with file_errors(self._where, "cleaning", self._store.staging):
            for name in self._store.staged_names():
                part = PartName.parse(name)
                if part is None or name in self._protected:
                    continue
                if part.owner == self._owner and part.attempt < self._attempt:
                    self._store.remove(f"{self._store.staging}/{name}")
        self._must_clean = False


class FileSinkBuilder:
    """Makes a `FileSink` as PyFlink does."""

    def __init__(
        self, base_path: str | os.PathLike[str], file_format: FileFormat, schema: pa.Schema | None
    ) -> None:
        self._base_path = base_path
        self._format = file_format
        self._schema = schema
        self._assigner = BucketAssigner.date_time_bucket_assigner()
        self._rolling = RollingPolicy.default_rolling_policy()
        self._names = OutputFileConfig()
        self._compaction: tuple[FileCompactStrategy, FileCompactor] | None = None

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> FileSinkBuilder:
        """Merge the files of several checkpoints before they appear.

        Args:
            strategy: When.
            compactor: How.
        """
        self._compaction = strategy, compactor
        return self

    def disable_compact(self) -> FileSinkBuilder:
        """Publish the files of each checkpoint as they are; the default."""
        self._compaction = None
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSinkBuilder:
        """Say where records go; as in Flink, by the hour at which they are written if this is not called."""
        self._assigner = bucket_assigner
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        """Say when a file ends between two barriers."""
        self._rolling = rolling_policy
        return self

    def with_bucket_check_interval(self, interval: int) -> FileSinkBuilder:
        """Accepted from older programs: files are checked at half the least interval of the rolling policy.

        Args:
            interval: In milliseconds; it changes nothing.
        """
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        """Say how names begin and end."""
        self._names = output_file_config
        return self

    def build(self) -> FileSink:
        """The sink."""
        from .compacting_sink import CompactingFileSink

        kind = FileSink if self._compaction is None else CompactingFileSink
        sink = kind(
            self._base_path,
            self._schema,
            file_format=self._format,
            bucket_assigner=self._assigner,
            rolling_policy=self._rolling,
            output_file_config=self._names,
        )
        if self._compaction is not None and isinstance(sink, CompactingFileSink):
            sink.with_compaction(*self._compaction)
        return sink


class StreamingFileSink:
    """Flink's older name of the file sink. Its builders make a `FileSink`, which `add_sink` takes too."""

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Encoder) -> FileSinkBuilder:
        """As `FileSink.for_row_format`."""
        return FileSink.for_row_format(base_path, encoder)

    @staticmethod
    def for_bulk_format(
        base_path: str | os.PathLike[str], writer_factory: FileFormat | BulkWriterFactory
    ) -> FileSinkBuilder:
        """As `FileSink.for_bulk_format`."""
        return FileSink.for_bulk_format(base_path, writer_factory)
