"""Reads records under way: what barriers overtook in an unaligned checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..protocol.checkpoints.handles import ChannelStateHandle
from ..protocol.elements import Batch, StreamElement, Watermark
from ..runtime.checkpoints.channel_state import stored_messages
from ..runtime.network.wire import decode_elements
from ..state.serializers.pickling import dumps
from ..state.storage.checkpoint_storage import open_storage
from ..state.storage.stored_checkpoint import read_checkpoint

_CHANNEL = [
    ("operator_uid", pa.string()),
    ("subtask", pa.int32()),
    ("upstream_uid", pa.string()),
    ("ordinal", pa.int32()),
    ("upstream_index", pa.int32()),
    ("upstream_parallelism", pa.int32()),
    ("partitioning", pa.string()),
    ("message", pa.int32()),
]
_CLOSED = [("skipped", pa.int64()), ("payload", pa.binary())]
_OPENED = [
    ("element", pa.string()),
    ("timestamp_ms", pa.int64()),
    ("value", pa.string()),
    ("value_pickled", pa.binary()),
]


@dataclass(frozen=True)
class InFlightReading:
    """Reads the records under way to some subtasks.

    Attributes:
        path: absolute address of the checkpoint.
        pieces: uid and subtask that each task reads.
        is_trusted: whether messages are opened, which unpickles them.
    """

    path: str
    pieces: tuple[tuple[str, int], ...]
    is_trusted: bool

    @property
    def columns(self) -> pa.Schema:
        """One row per message, or per record and watermark where they are opened."""
        return pa.schema(_CHANNEL + (_OPENED if self.is_trusted else _CLOSED))

    def read(self, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of the pieces whose numbers come in, one batch per message."""
        operators = read_checkpoint(self.path).operators
        for batch in batches:
            for number in batch.column(0).to_pylist():
                uid, subtask = self.pieces[number]
                handle = operators[uid].subtasks[subtask].channels
                assert handle is not None, "the driver found it"
                for found in self._rows(uid, subtask, handle):
                    yield pa.RecordBatch.from_pylist(
                        [dict(zip(columns.names, row, strict=True)) for row in found], schema=columns
                    )

    def _rows(self, uid: str, subtask: int, handle: ChannelStateHandle) -> Iterator[list[tuple[Any, ...]]]:
        data = memoryview(open_storage(self.path).read_file(handle.file))
        for each in handle.channels:
            origin = (each.upstream_uid, each.ordinal, each.upstream_index, each.upstream_parallelism)
            channel = (uid, subtask, *origin, each.partitioning)
            part = data[each.offset : each.offset + each.size_bytes]
            for number, (taken, payload) in enumerate(stored_messages(part, handle.file.path)):
                if self.is_trusted:
                    elements = decode_elements(payload)[taken:]
                    yield [(*channel, number, *row) for element in elements for row in _opened(element)]
                else:
                    yield [(*channel, number, taken, payload)]


def _opened(element: StreamElement) -> Iterator[tuple[Any, ...]]:
    if isinstance(element, Watermark):
        yield "watermark", element.timestamp_ms, None, None
    elif isinstance(element, Batch):
        values = element.rows()
        timestamps = [None] * len(values) if element.timestamps is None else element.timestamps
        for value, timestamp_ms in zip(values, timestamps, strict=True):
            yield "record", timestamp_ms, repr(value), dumps(value)
