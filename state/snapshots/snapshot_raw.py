"""Raw keyed state in a checkpoint: one byte stream per key group, whose content only its operator knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...common.errors import CorruptCheckpointError
from ...protocol.checkpoints.handles import SegmentHandle
from .snapshot_files import CheckedFiles, StateLocation
from .snapshot_states import BATCH_ROWS, SnapshotState

_COLUMNS = pa.schema([("key_group", pa.int32()), ("value", pa.large_binary())])


class RawKeyedSnapshotState(SnapshotState):
    """The raw keyed state of an operator: rows `key_group` and `value`.

    A stream may be cut into several rows; they follow one another.
    """

    def __init__(
        self,
        where: StateLocation,
        schema: Mapping[str, object],
        files: CheckedFiles,
        segments: Sequence[SegmentHandle],
    ) -> None:
        rows = sum(segment.entry_count for segment in segments)
        sizes = {segment.file.path: segment.file.size_bytes for segment in segments}
        super().__init__(where, str(schema["kind"]), schema, rows, sum(sizes.values()))
        self._files = files
        self._segments = segments

    @property
    def arrow_schema(self) -> pa.Schema:
        return _COLUMNS

    def iter_batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        for segment in self._segments:
            with self.where.named():
                self._files.verify(segment.file)
                yield from self._batches(segment, batch_rows)

    def verify(self) -> None:
        with self.where.named():
            for segment in self._segments:
                self._files.verify(segment.file)

    def _batches(self, segment: SegmentHandle, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with closing(self._files.storage.open_file(segment.file)) as source:
            try:
                file = pq.ParquetFile(source)
                for batch in file.iter_batches(batch_rows, columns=_COLUMNS.names):
                    group, held = batch["key_group"], segment.key_groups
                    inside = pc.and_(pc.greater_equal(group, held.start), pc.less_equal(group, held.end))
                    yield batch.filter(inside).cast(_COLUMNS)
            except (pa.ArrowException, OSError, KeyError, ValueError) as error:
                raise CorruptCheckpointError(
                    f"checkpoint file {segment.file.path!r} is not a file of raw keyed state: {error}; "
                    f"restore another checkpoint or savepoint"
                ) from error
