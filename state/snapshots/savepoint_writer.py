"""Copies the state of one subtask into the directory of a savepoint.

A checkpoint's files are shared with other checkpoints and deleted with the last of them. A savepoint shares
nothing: everything is copied, and every path is relative to its directory, so that it can be moved. Segments
do not depend on the state backend, hence either format can be restored with every backend. Expired state is
left out of both formats, whatever clean-up its configuration requests: users keep and read savepoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from ...protocol.checkpoints.handles import FileHandle, KeyedStateHandle, OperatorSnapshot, SegmentHandle
from ...protocol.elements import SavepointFormatType, SavepointTarget
from ...protocol.key_groups import KeyGroupRange
from ..keyed.change_merge import merge_tables
from ..keyed.raw_state import RAW_KEYED
from ..storage.checkpoint_storage import CheckpointStorage, open_storage
from ..storage.inline_storage import InlineStorage
from ..ttl.expiration import Expiration
from ..ttl.expired_rows import without_expired
from .segments import SegmentInfo, footer_sha256, read_segment, write_segment


class SavepointWriter:
    """Writes the part of one subtask.

    Args:
        target: The savepoint's own directory, and its format.
        source: Where the files of the subtask's snapshots are.
    """

    def __init__(self, target: SavepointTarget, source: CheckpointStorage) -> None:
        self._format = target.format
        self._source = source
        self._inline_bytes = target.inline_threshold_bytes
        self._storage = InlineStorage(open_storage(target.directory), self._inline_bytes)

    def write(
        self,
        snapshot: OperatorSnapshot,
        prefix: str,
        subtask_index: int,
        key_groups: KeyGroupRange,
        expiration: Expiration,
    ) -> OperatorSnapshot:
        """The same snapshot, without expired state, in files of the savepoint.

        Args:
            snapshot: Of one operator.
            prefix: The operator's directory in the savepoint.
            subtask_index: Of the subtask; it makes names unique.
            key_groups: Those of the subtask.
            expiration: What is expired, as of the savepoint's barrier.

        Raises:
            CheckpointStorageError: The savepoint's directory refuses.
            CorruptCheckpointError: A file of the subtask is damaged.
        """
        own = f"{prefix}/{subtask_index}"
        part = _Part(self._source, self._storage, self._inline_bytes, own, key_groups, expiration)
        segments: Iterable[SegmentHandle] = snapshot.keyed.segments
        if self._format is SavepointFormatType.CANONICAL:
            segments = part.merged(segments)
        unexpired = tuple(part.unexpired(segment, snapshot.keyed) for segment in segments)
        snapshot = replace(snapshot, keyed=replace(snapshot.keyed, segments=unexpired))
        return snapshot.with_files(part.copied)


class _Part:
    def __init__(
        self,
        source: CheckpointStorage,
        target: CheckpointStorage,
        inline_bytes: int,
        prefix: str,
        key_groups: KeyGroupRange,
        expiration: Expiration,
    ) -> None:
        self._expiration = expiration
        self._inline_bytes = inline_bytes
        self._source = source
        self._target = target
        self._prefix = prefix
        self._key_groups = key_groups
        self._done: dict[str, FileHandle] = {}

    def copied(self, file: FileHandle) -> FileHandle:
        """A file of the savepoint with the same content; a file that is one already stays."""
        is_small = file.is_inline and file.size_bytes <= self._inline_bytes
        if is_small or self._is_own(file):
            return file
        known = self._done.get(file.path)
        if known is None:
            name = file.path.rsplit("/", 1)[-1]
            known = self._write(name, self._source.read_file(file))
            self._done[file.path] = known
        return known

    def merged(self, segments: Iterable[SegmentHandle]) -> Iterable[SegmentHandle]:
        """One segment for all of each state, where that is possible."""
        states: dict[str, list[SegmentHandle]] = {}
        for segment in segments:
            states.setdefault(segment.state_name, []).append(segment)
        for of_state in states.values():
            is_one = len(of_state) == 1 and of_state[0].is_base
            whole = None if is_one or of_state[0].state_name == RAW_KEYED else self._merged(of_state)
            yield from of_state if whole is None else [whole]

    def unexpired(self, segment: SegmentHandle, keyed: KeyedStateHandle) -> SegmentHandle:
        """A segment without expired state, which is also removed where segments cannot be merged."""
        schema = keyed.descriptors.get(segment.state_name, {})
        if self._is_own(segment.file) or self._expiration.time_of(schema) is None:
            return segment
        key_groups = segment.key_groups.intersect(self._key_groups)
        stored = self._source.read_file(segment.file)
        table, info = read_segment(stored, segment.file.path, key_groups)
        live = without_expired(self._expiration, table, info, is_whole=segment.is_base)
        if live is table:
            return segment
        return replace(self._segment(segment, live, info), is_base=segment.is_base)

    def _merged(self, segments: list[SegmentHandle]) -> SegmentHandle | None:
        """Everything live in one segment; `None` if the schema changed from one segment to another."""
        tables: list[pa.Table] = []
        infos: list[SegmentInfo] = []
        for segment in segments:
            key_groups = segment.key_groups.intersect(self._key_groups)
            stored = self._source.read_file(segment.file)
            table, info = read_segment(stored, segment.file.path, key_groups)
            tables.append(table)
            infos.append(info)
        if any(info != infos[0] for info in infos):
            # Only a job that declares the state knows how its values are converted.
            return None
        table = merge_tables(tables, keep_tombstones=False)
        live = without_expired(self._expiration, table, infos[0], is_whole=True)
        return self._segment(segments[-1], live, infos[0])

    def _segment(self, of: SegmentHandle, table: pa.Table, info: SegmentInfo) -> SegmentHandle:
        """A new segment of the savepoint, which is a base."""
        data = write_segment(table, info)
        file = self._write(of.file.path.rsplit("/", 1)[-1], data)
        self._done[f"written {file.path}"] = file
        footer = footer_sha256(pa.BufferReader(data), len(data))
        return SegmentHandle(of.state_name, file, self._key_groups, table.num_rows, True, footer)

    def _is_own(self, file: FileHandle) -> bool:
        return file.path in (known.path for known in self._done.values())

    def _write(self, name: str, data: bytes | memoryview) -> FileHandle:
        return self._target.write_file(f"{self._prefix}-{len(self._done)}-{name}", data)
