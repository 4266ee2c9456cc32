"""The open files of one subtask of the file sink, one for each bucket that gets records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.errors import UserCodeError
from ...operators.base import OperatorContext
from ...operators.columnar.columns import as_columns
from ...operators.timers.processing_time import TimerHandle
from ...protocol.elements import Batch, ColumnBatch
from .errors import file_errors
from .formats import FileFormat, FileWriter
from .parts import OutputFileConfig, PartName, StagedFile, owner_of
from .policies import BucketAssigner, RollingPolicy
from .stores import StagedStream, Store

MOST_OPEN_BUCKETS = 64
"""More are not held open: the one that was written to longest ago ends its file."""


class BucketFiles:
    """Gathers the records of an epoch in files below staging."""

    def __init__(
        self,
        store: Store,
        file_format: FileFormat,
        schema: pa.Schema,
        assigner: BucketAssigner,
        rolling: RollingPolicy,
        row_group_bytes: int,
        names: OutputFileConfig,
    ) -> None:
        self._store = store
        self._format = file_format
        self._schema = schema
        self._assigner = assigner
        self._rolling = rolling
        self._row_group_bytes = row_group_bytes
        self._prefix = names.part_prefix
        self._suffix = f".{file_format.suffix}" if names.part_suffix is None else names.part_suffix
        self._buckets: dict[str, _Bucket] = {}
        self._closed: list[StagedFile] = []
        self._next_number = 0
        self._timer: TimerHandle | None = None

    def open(self, context: OperatorContext) -> None:
        """Make the staging area."""
        self._where = f"operator {context.name_with_subtask}"
        self._time = context.processing_time
        self._subtask, self._attempt = context.subtask_index, int(context.attempt)
        self._owner = owner_of(context)
        with file_errors(self._where, "creating", self._store.staging):
            self._store.prepare()

    def write(self, batch: Batch) -> None:
        """Add records; they may wait in memory."""
        now_ms = self._time.now_ms()
        try:
            ids = self._assigner.buckets(batch, now_ms)
        except Exception as error:
            raise UserCodeError(f"{self._where}: finding the bucket of a record failed: {error}") from error
        columns = self._columns(batch)
        if len(set(ids)) == 1:
            self._add(ids[0], columns, now_ms)
        else:
            for bucket, positions in _positions(ids):
                self._add(bucket, columns.take(positions), now_ms)
        self._plan_check(now_ms)

    def _columns(self, batch: Batch) -> pa.RecordBatch:
        if isinstance(batch, ColumnBatch):
            return as_columns(batch, self._schema, self._where)
        return self._format.to_batch(batch.rows(), self._schema, self._where)

    def _add(self, bucket_id: str, columns: pa.RecordBatch, now_ms: int) -> None:
        # The most recent is last.
        bucket = self._buckets.pop(bucket_id, None) or self._new_bucket(bucket_id, now_ms)
        self._buckets[bucket_id] = bucket
        bucket.add(columns, now_ms)
        if bucket.held_bytes >= self._row_group_bytes:
            self._write_row_group(bucket)
            if bucket.size_bytes >= self._rolling.part_size:
                self._end(bucket_id)

    def _new_bucket(self, bucket_id: str, now_ms: int) -> _Bucket:
        if len(self._buckets) >= MOST_OPEN_BUCKETS:
            self._end(next(iter(self._buckets)))
        _check_bucket(bucket_id, self._where)
        return _Bucket(now_ms)

    def finish(self) -> list[StagedFile]:
        """Make everything added so far durable; the files of it."""
        for bucket_id in list(self._buckets):
            self._end(bucket_id)
        closed, self._closed = self._closed, []
        if closed:
            with file_errors(self._where, "writing in", self._store.staging):
                self._store.synchronise()
        return closed

    def abandon(self) -> None:
        """Throw away what was not finished."""
        if self._timer is not None:
            self._timer.cancel()
        buckets, self._buckets = self._buckets, {}
        paths = [staged.staged_path for staged in self._closed]
        self._closed = []
        for bucket in buckets.values():
            paths += bucket.abandon()
        for path in paths:
            with file_errors(self._where, "removing", path):
                self._store.remove(path)

    def new_file(self) -> StagedStream:
        """Begin a file in staging, under a name of its own."""
        name = PartName(self._subtask, self._attempt, self._next_number, self._owner)
        text = name.text(self._prefix, self._suffix)
        self._next_number += 1
        with file_errors(self._where, "creating", f"{self._store.staging}/{text}"):
            return self._store.create(text)

    def _write_row_group(self, bucket: _Bucket) -> _BucketFile:
        if bucket.file is None:
            stream = self.new_file()
            with file_errors(self._where, "creating", stream.path):
                bucket.file = _BucketFile(stream, self._format.writer(stream, self._schema))  # type: ignore[arg-type]
        with file_errors(self._where, "writing", bucket.file.stream.path):
            bucket.file.writer.write(bucket.take_held(self._schema))
        return bucket.file

    def _end(self, bucket_id: str) -> None:
        bucket = self._buckets[bucket_id]
        file = bucket.file
        if bucket.held_bytes or file is None:
            file = self._write_row_group(bucket)
        path = file.stream.path
        with file_errors(self._where, "writing", path):
            file.end()
        # Only now: a file that could not be ended is abandoned with the others.
        del self._buckets[bucket_id]
        final = "/".join(part for part in (self._store.directory, bucket_id, os.path.basename(path)) if part)
        self._closed.append(StagedFile(path, final))

    def _plan_check(self, now_ms: int) -> None:
        interval_ms = self._rolling.check_interval_ms
        if interval_ms is not None and self._buckets and self._timer is None:
            self._timer = self._time.call_at(now_ms + interval_ms, self._check)

    def _check(self) -> None:
        self._timer = None
        now_ms = self._time.now_ms()
        for bucket_id, bucket in list(self._buckets.items()):
            if self._rolling.is_due(bucket.opened_ms, bucket.written_ms, now_ms):
                self._end(bucket_id)
        self._plan_check(now_ms)


@dataclass(frozen=True, slots=True)
class _BucketFile:
    """A file in staging that rows are written to."""

    stream: StagedStream
    writer: FileWriter

    def end(self) -> None:
        self.writer.close()
        self.stream.make_durable()

    def abandon(self) -> None:
        """Discard a file that will not be committed."""
        self.stream.discard()
        self.writer.close()
        self.stream.let_go()


class _Bucket:
    """Rows that wait for a row group, and the file that they will be written to."""

    def __init__(self, now_ms: int) -> None:
        self.opened_ms = self.written_ms = now_ms
        self.held_bytes = 0
        self.file: _BucketFile | None = None
        self._held: list[pa.RecordBatch] = []

    @property
    def size_bytes(self) -> int:
        return 0 if self.file is None else self.file.stream.size_bytes

    def add(self, columns: pa.RecordBatch, now_ms: int) -> None:
        self._held.append(columns)
        self.held_bytes += columns.nbytes
        self.written_ms = now_ms

    def take_held(self, schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(self._held, schema)
        self._held, self.held_bytes = [], 0
        return table

    def abandon(self) -> list[str]:
        """Abandon the file; its path, if there is one."""
        file, self.file = self.file, None
        if file is None:
            return []
        file.abandon()
        return [file.stream.path]


def _positions(ids: Sequence[str]) -> list[tuple[str, Any]]:
    """Each bucket with the positions of its records."""
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(bucket, len(numbers)) for bucket in ids), np.int64, len(ids))
    return [(bucket, pa.array(np.flatnonzero(codes == number))) for bucket, number in numbers.items()]


def _check_bucket(bucket_id: Any, where: str) -> None:
    parts = bucket_id.split("/") if isinstance(bucket_id, str) and bucket_id else []
    if not isinstance(bucket_id, str) or any(not part or part.startswith((".", "_")) for part in parts):
        raise UserCodeError(
            f"{where}: {bucket_id!r:.200} cannot be a bucket: it is a relative path, and no part of it is "
            f"empty or begins with . or _, which readers would pass over"
        )
