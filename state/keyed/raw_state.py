"""Raw state: byte streams of operators that keep structures of their own.

Raw keyed state is one stream per key group, so it moves with the key groups when the job is rescaled.
It is stored in one file per snapshot: a row per piece of a stream, the pieces of a key group in order.
Raw operator state is a list of streams (*partitions*) that is split evenly, like any list.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

import pyarrow as pa

from ...common.errors import CorruptCheckpointError, StateError
from ...common.typeinfo import Types
from ...protocol.checkpoints.handles import KeyedStateHandle, SegmentHandle
from ...protocol.key_groups import KeyGroupRange
from ..descriptors import ListStateDescriptor
from ..snapshots.segments import FORMAT_VERSION
from ..storage.checkpoint_storage import CheckpointStorage, read_restored

RAW_KEYED = "_raw_keyed"
"""State name of the file with raw keyed state."""
RAW_OPERATOR = ListStateDescriptor("_raw_operator", Types.PRIMITIVE_ARRAY(Types.BYTE()))
"""The list that raw operator state lies in: one item per partition."""
SCHEMA: dict[str, object] = {"kind": "raw-keyed"}

_PIECE_BYTES = 1 << 20
_PIECES_PER_ROW_GROUP = 16


class RawKeyedStateOutput:
    """Takes the raw keyed state of one snapshot, key group by key group. Usable as a binary file.

    Args:
        key_groups: Those of this subtask.
        where: Names the operator and its subtask in errors.
    """

    def __init__(self, key_groups: KeyGroupRange, where: str) -> None:
        self.key_groups = key_groups
        self._where = where
        self._streams: dict[int, list[bytes]] = {}
        self._current: list[bytes] | None = None

    def start_new_key_group(self, key_group: int) -> None:
        """What is written from now on belongs to this key group; each may come once, in any order.

        Raises:
            StateError: The key group is another subtask's, or had its turn.
        """
        if not self.key_groups.contains(key_group):
            raise StateError(
                f"{self._where}: raw keyed state of key group {key_group} was written, but this subtask "
                f"has {self.key_groups.start} to {self.key_groups.end}"
            )
        if key_group in self._streams:
            raise StateError(f"{self._where}: the raw keyed state of key group {key_group} is started twice")
        self._current = self._streams[key_group] = []

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append to the stream of the current key group; returns the number of bytes."""
        if self._current is None:
            raise StateError(f"{self._where}: call start_new_key_group() before writing raw keyed state")
        content = bytes(data)
        self._current.append(content)
        return len(content)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Key groups in order, with the pieces of their streams; an empty stream has one empty piece."""
        for key_group in sorted(self._streams):
            stream = memoryview(b"".join(self._streams[key_group]))
            for start in range(0, max(len(stream), 1), _PIECE_BYTES):
                yield key_group, bytes(stream[start : start + _PIECE_BYTES])

    @property
    def is_empty(self) -> bool:
        """Whether no key group was started."""
        return not self._streams


class RawOperatorStateOutput:
    """Takes the raw operator state of one snapshot, partition by partition. Usable as a binary file.

    Args:
        where: Names the operator and its subtask in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._partitions: list[bytearray] = []

    def start_new_partition(self) -> None:
        """What is written from now on is a partition: the unit that moves on a change of parallelism."""
        self._partitions.append(bytearray())

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append to the current partition; returns the number of bytes."""
        if not self._partitions:
            raise StateError(f"{self._where}: call start_new_partition() before writing raw operator state")
        self._partitions[-1] += data
        return len(data)

    @property
    def partitions(self) -> list[bytes]:
        """What was written."""
        return [bytes(partition) for partition in self._partitions]


@dataclass(frozen=True)
class RawKeyedStateParameters:
    """What raw keyed state must know about its place in the job; as `KeyedStateBackendParameters`."""

    operator_uid: str
    operator_name: str
    subtask_index: int
    attempt: int
    key_groups: KeyGroupRange
    storage: CheckpointStorage | None
    file_prefix: str


class RawKeyedState:
    """Writes and reads the raw keyed state of one operator in one subtask."""

    def __init__(self, params: RawKeyedStateParameters) -> None:
        self._params = params
        self._where = f"operator {params.operator_name!r}, subtask {params.subtask_index}"
        self._numbers = itertools.count()

    def new_output(self) -> RawKeyedStateOutput:
        """For one snapshot."""
        return RawKeyedStateOutput(self._params.key_groups, self._where)

    def write(self, output: RawKeyedStateOutput, keyed: KeyedStateHandle) -> KeyedStateHandle:
        """Write what an output took and add it to the handle of the other keyed state."""
        if output.is_empty:
            return keyed
        params = self._params
        path = (
            f"{params.file_prefix}/{RAW_KEYED}-{params.subtask_index}-{params.attempt}-{next(self._numbers)}"
        )
        data, rows = _write(output.pieces(), params.operator_uid)
        file = self._storage().write_file(f"{path}.parquet".lstrip("/"), data)
        segment = SegmentHandle(RAW_KEYED, file, params.key_groups, rows, is_base=True)
        descriptors = {**keyed.descriptors, RAW_KEYED: SCHEMA}
        return replace(keyed, segments=(*keyed.segments, segment), descriptors=descriptors)

    def streams(self, segments: Iterable[SegmentHandle]) -> Iterator[tuple[int, BinaryIO]]:
        """The stored streams of this subtask's key groups, one in memory at a time.

        Raises:
            CorruptCheckpointError: A file is damaged.
        """
        for segment in segments:
            data = read_restored(self._params.storage, segment.file)
            key_groups = segment.key_groups.intersect(self._params.key_groups)
            yield from _streams(data, segment.file.path, key_groups)

    def _storage(self) -> CheckpointStorage:
        if self._params.storage is None:
            raise StateError(
                f"{self._where}: raw state cannot be stored without a checkpoint storage; "
                f"set one in CheckpointConfig"
            )
        return self._params.storage


@dataclass(frozen=True, slots=True)
class FrozenRawKeyedState:
    """Raw keyed state as of one snapshot."""

    state: RawKeyedState
    output: RawKeyedStateOutput

    def persist(self, keyed: KeyedStateHandle) -> KeyedStateHandle:
        """Write it, off the task's thread; returns `keyed` with the raw state beside it."""
        return self.state.write(self.output, keyed)


def split_raw(handle: KeyedStateHandle) -> tuple[KeyedStateHandle, tuple[SegmentHandle, ...]]:
    """Keyed state of the backend, and the files of raw keyed state."""
    raw = tuple(segment for segment in handle.segments if segment.state_name == RAW_KEYED)
    rest = tuple(segment for segment in handle.segments if segment.state_name != RAW_KEYED)
    descriptors = {name: schema for name, schema in handle.descriptors.items() if name != RAW_KEYED}
    return KeyedStateHandle(rest, descriptors), raw


def _write(pieces: Iterator[tuple[int, bytes]], operator_uid: str) -> tuple[memoryview, int]:
    """A file with one row per piece, and the number of rows. A row group at a time is in memory twice."""
    import pyarrow.parquet as pq

    texts = pa.dictionary(pa.int8(), pa.string())
    fields = [
        ("operator_uid", texts),
        ("state_name", texts),
        ("key_group", pa.int32()),
        ("value", pa.large_binary()),
    ]
    metadata = {
        "tidegate.format_version": str(FORMAT_VERSION),
        "tidegate.operator_uid": operator_uid,
        "tidegate.state_name": RAW_KEYED,
        **{f"tidegate.{name}": str(text) for name, text in SCHEMA.items()},
    }
    schema = pa.schema(fields, metadata)
    sink = pa.BufferOutputStream()
    rows = 0
    with pq.ParquetWriter(
        sink, schema, compression="snappy", use_dictionary=["operator_uid", "state_name"]
    ) as writer:
        while group := list(itertools.islice(pieces, _PIECES_PER_ROW_GROUP)):
            constant = pa.array([0] * len(group), pa.int8())
            columns = [
                pa.DictionaryArray.from_arrays(constant, pa.array([operator_uid])),
                pa.DictionaryArray.from_arrays(constant, pa.array([RAW_KEYED])),
                pa.array([key_group for key_group, _ in group], pa.int32()),
                pa.array([piece for _, piece in group], pa.large_binary()),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            rows += len(group)
    return memoryview(sink.getvalue()), rows


def _streams(data: bytes, path: str, key_groups: KeyGroupRange) -> Iterator[tuple[int, BinaryIO]]:
    for key_group, pieces in itertools.groupby(_pieces(data, path), key=lambda piece: piece[0]):
        if key_groups.contains(key_group):
            yield key_group, io.BytesIO(b"".join(piece for _, piece in pieces))


def _pieces(data: bytes, path: str) -> Iterator[tuple[int, bytes]]:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        version = int((file.schema_arrow.metadata or {})[b"tidegate.format_version"])
        if version > FORMAT_VERSION:
            raise CorruptCheckpointError(
                f"checkpoint file {path!r} has format version {version}; this release reads up to "
                f"{FORMAT_VERSION}: upgrade tidegate"
            )
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["key_group", "value"])
            yield from zip(table["key_group"].to_pylist(), table["value"].to_pylist(), strict=True)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptCheckpointError(
            f"checkpoint file {path!r} is not a file of raw keyed state: {error}; restore another "
            f"checkpoint or savepoint"
        ) from error
