"""The segments that make up the keyed state of one subtask, and their compaction.

Each persist appends a segment per changed state. When the increments of a state have more than twice the
entries of its base they are merged into a new base; when there are many small ones they are merged into
one. Size-tiered compaction as in LSM trees (O'Neil et al., 1996), with two tiers. A state of a few entries
is one segment, written anew each time: that is less than the smallest increments would be together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa

from ...common.errors import StateError
from ...protocol.checkpoints.handles import FileHandle, KeyedStateHandle, SegmentHandle
from ...protocol.key_groups import KeyGroupRange
from ..backend import KeyedStateBackendParameters
from ..keyed.change_merge import merge_tables
from ..keyed.conversion import StateConversion
from ..storage.checkpoint_storage import CheckpointStorage, read_restored
from .segments import COLUMNS, SegmentInfo, footer_sha256, read_segment, write_segment

_SMALLEST_BASE_ENTRIES = 65_536
_MOST_INCREMENTS = 16
# After a rescale there may be one of each old subtask.
_MOST_BASES = 16
# Of one state in one subtask: a restore reads no more files. Reached only if merges in the background lag.
_MOST_SEGMENTS = 64
# Entries of increments for each of the base: the more, the fewer merges, and the longer a restore.
_MOST_GROWTH = 2
# A state that is written anew each time: about the size of an empty segment file.
TINY_ENTRIES = 256
_TINY_BYTES = 8_192
# What every acknowledgement and manifest may carry of one state in one subtask.
_MOST_INLINE_BYTES = 65_536
# Merging this many entries takes about a quarter of a second: the most that a checkpoint is delayed.
_INLINE_ENTRIES = 262_144


class SegmentLog:
    """Live segments by state, in the order they were written.

    Belongs to the snapshot thread once the backend is open, except `restore` and `read`, which happen
    under the backend's persist lock.
    """

    def __init__(self, params: KeyedStateBackendParameters, tiny_entries: int) -> None:
        self._params = params
        self._tiny_entries = tiny_entries
        # Tuples: a merge in the background refers to the segments of its start.
        self._segments: dict[str, tuple[SegmentHandle, ...]] = {}
        # The contents of states that consist of one tiny segment.
        self._tiny: dict[str, tuple[SegmentHandle, pa.Table]] = {}
        self._conversions: dict[str, StateConversion] = {}
        # Restored but not declared: their files may have several schemas, and nobody knows the right one.
        self._undeclared: set[str] = set()
        # Renamed: their files still say the old name.
        self._misnamed: set[str] = set()
        self._is_foreign = False
        self._sequence = itertools.count()
        # Written here and in no snapshot yet, and those of them that were merged meanwhile.
        self._unnamed: set[str] = set()
        self._dropped: list[FileHandle] = []
        self._is_closed = False
        self._executor: ThreadPoolExecutor | None = None
        self._running: tuple[str, tuple[SegmentHandle, ...], Future[SegmentHandle]] | None = None

    def restore(self, handle: KeyedStateHandle, owned: bool) -> None:
        """Start from stored segments; `owned` is False when another job owns the files."""
        for segment in handle.segments:
            name = segment.state_name
            self._segments[name] = (*self._segments.get(name, ()), segment)
        self._undeclared = set(self._segments)
        self._is_foreign = not owned and bool(handle.segments)

    def rename(self, before: str, after: str) -> None:
        """Give a state the name it is declared under now.

        After a rescale one old subtask may have stored it under the old name and another under the new:
        the key groups then differ. Where both names stand for the same key groups, the new name wins.
        """
        present = self._segments.get(after, ())
        taken = tuple(
            replace(segment, state_name=after)
            for segment in self._segments.pop(before, ())
            if all(segment.key_groups.intersect(other.key_groups).size == 0 for other in present)
        )
        self._undeclared.discard(before)
        if taken or present:
            self._segments[after] = (*taken, *present)
            self._undeclared.add(after)
        if taken:
            self._misnamed.add(after)

    def read(self, state_name: str, conversion: StateConversion, now_ms: int | None) -> pa.Table | None:
        """The entries of a declared state, without tombstones and what is expired by a time.

        None when nothing is stored.

        Args:
            conversion: applied to every segment of the state from now on; its schema is that of merges.
        """
        self._conversions[state_name] = conversion
        self._undeclared.discard(state_name)
        return self.contents(state_name, now_ms)

    def contents(self, state_name: str, now_ms: int | None = None) -> pa.Table | None:
        """The same of a state that was read before."""
        segments = self._segments.get(state_name)
        if not segments:
            return None
        table, _ = self._merged(segments, keep_tombstones=False, now_ms=now_ms)
        return table

    def holds(self, state_name: str) -> bool:
        """Whether anything of a state is left, which need not be declared: its values are not looked at."""
        parts = []
        for segment in self._segments.get(state_name, ()):
            data = read_restored(self._params.storage, segment.file)
            key_groups = segment.key_groups.intersect(self._params.key_groups)
            table, _ = read_segment(data, segment.file.path, key_groups)
            for name in ("value", "value_encoded", "expiry"):
                table = table.set_column(COLUMNS.index(name), name, pa.nulls(table.num_rows))
            parts.append(table)
        return bool(parts) and merge_tables(parts, keep_tombstones=False).num_rows > 0

    def append(self, state_name: str, schema: dict[str, object], table: pa.Table, now_ms: int | None) -> None:
        """Store the changes of one state as a new segment, or a tiny state anew.

        Args:
            now_ms: what is expired by then is left out of a state that is written anew.
        """
        segments = self._segments.get(state_name, ())
        replaced: tuple[SegmentHandle, ...] = ()
        info = self._info(state_name, schema)
        before, contents = self._tiny.pop(state_name, (None, None))
        if before is not None and segments == (before,):
            merged = merge_tables([contents, table], keep_tombstones=False, now_ms=now_ms)
            if self._is_tiny(merged):
                segments, replaced, table = (), segments, merged
        written = self._write(table, info, is_base=not segments)
        self._segments[state_name] = (*segments, written)
        self._account(replaced, written)
        if not segments and self._is_tiny(table):
            self._tiny[state_name] = written, table

    def _is_tiny(self, table: pa.Table) -> bool:
        return bool(table.num_rows <= self._tiny_entries and table.nbytes <= _TINY_BYTES)

    def segments(self) -> tuple[SegmentHandle, ...]:
        """All live segments."""
        return tuple(itertools.chain.from_iterable(self._segments.values()))

    def take_snapshot(self) -> tuple[tuple[SegmentHandle, ...], tuple[FileHandle, ...]]:
        """All live segments, for a snapshot that names them, and the files that no snapshot will name."""
        dropped, self._dropped = tuple(self._dropped), []
        self._unnamed.clear()
        return self.segments(), dropped

    def tidy(self, cut_offs: Mapping[str, int | None]) -> None:
        """Copy segments of another job, and compact what has grown too long.

        Large merges run in the background; their result is taken over by a later call.

        Args:
            cut_offs: by state, the time by which expired entries are left out of bases.
        """
        rewritten = (set(self._segments) if self._is_foreign else self._misnamed) - self._undeclared
        for state_name in sorted(rewritten):
            segments = self._segments[state_name]
            self._replace(state_name, segments, self._compacted(segments, True, cut_offs.get(state_name)))
        if self._is_foreign:
            for state_name in self._undeclared:
                self._segments[state_name] = tuple(map(self._copied, self._segments[state_name]))
                for copy in self._segments[state_name]:
                    self._account((), copy)
            self._is_foreign = False
        self._misnamed &= self._undeclared
        self._take_over()
        for state_name in [name for name in self._segments if name not in self._undeclared]:
            self._merge_when_due(state_name, cut_offs.get(state_name))

    def _merge_when_due(self, state_name: str, now_ms: int | None) -> None:
        has_too_many = len(self._segments[state_name]) > _MOST_SEGMENTS
        if self._running is not None and self._running[0] == state_name:
            if not has_too_many:
                return
            self._take_over(waits=True)
        plan = _plan(self._segments[state_name])
        if plan is None:
            return
        merged, is_base = plan
        if has_too_many or sum(segment.entry_count for segment in merged) <= _INLINE_ENTRIES:
            self._replace(state_name, merged, self._compacted(merged, is_base, now_ms))
        elif self._running is None:
            self._start(state_name, merged, is_base, now_ms)

    def close(self) -> None:
        """Let a merge in the background stop at its next file, without waiting for it."""
        self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(
        self, state_name: str, merged: tuple[SegmentHandle, ...], is_base: bool, now_ms: int | None
    ) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="state-compaction")
        self._running = (
            state_name,
            merged,
            self._executor.submit(self._compacted, merged, is_base, now_ms),
        )

    def _take_over(self, waits: bool = False) -> None:
        if self._running is None or not (waits or self._running[2].done()):
            return
        state_name, merged, future = self._running
        self._running = None
        # A merge that failed raises here: this checkpoint is declined, and the next plans it anew.
        self._replace(state_name, merged, future.result())

    def _replace(self, state_name: str, merged: tuple[SegmentHandle, ...], by: SegmentHandle) -> None:
        segments = self._segments[state_name]
        start = segments.index(merged[0])
        self._segments[state_name] = (*segments[:start], by, *segments[start + len(merged) :])
        self._account(merged, by)

    def _account(self, replaced: tuple[SegmentHandle, ...], written: SegmentHandle) -> None:
        """Note a new segment, and the files it replaces of which the coordinator would never hear."""
        for segment in replaced:
            if segment.file.path in self._unnamed:
                self._unnamed.remove(segment.file.path)
                self._dropped.append(segment.file)
        if not written.file.is_inline:
            self._unnamed.add(written.file.path)

    def _compacted(
        self, segments: tuple[SegmentHandle, ...], is_base: bool, now_ms: int | None
    ) -> SegmentHandle:
        table, info = self._merged(segments, not is_base, now_ms)
        if self._is_closed:
            raise CancelledError
        return self._write(table, info, is_base)

    def _copied(self, segment: SegmentHandle) -> SegmentHandle:
        key_groups = segment.key_groups.intersect(self._params.key_groups)
        table, stored = read_segment(self._storage().read_file(segment.file), segment.file.path, key_groups)
        copy = self._write(table, self._info(segment.state_name, stored.schema), segment.is_base)
        return replace(copy, key_groups=key_groups)

    def _merged(
        self, segments: tuple[SegmentHandle, ...], keep_tombstones: bool, now_ms: int | None
    ) -> tuple[pa.Table, SegmentInfo]:
        state_name = segments[0].state_name
        conversion = self._conversions[state_name]
        parts = []
        for segment in segments:
            if self._is_closed:
                raise CancelledError
            data = read_restored(self._params.storage, segment.file)
            key_groups = segment.key_groups.intersect(self._params.key_groups)
            table, stored = read_segment(data, segment.file.path, key_groups)
            parts.append(conversion.converted(table, stored.schema))
        return merge_tables(parts, keep_tombstones, now_ms), self._info(state_name, conversion.schema)

    def _info(self, state_name: str, schema: Mapping[str, object]) -> SegmentInfo:
        texts = {name: str(text) for name, text in schema.items()}
        return SegmentInfo(self._params.operator_uid, state_name, texts)

    def _write(self, table: pa.Table, info: SegmentInfo, is_base: bool) -> SegmentHandle:
        params = self._params
        name = quote(info.state_name, safe="")
        path = (
            f"{params.file_prefix}/{name}-{params.subtask_index}-{params.attempt}"
            f"-{next(self._sequence)}.parquet"
        ).lstrip("/")
        data = write_segment(table, info)
        file = self._storage().write_file(path, data)
        key_groups = KeyGroupRange(params.key_groups.start, params.key_groups.end)
        footer = footer_sha256(pa.BufferReader(data), len(data))
        return SegmentHandle(info.state_name, file, key_groups, table.num_rows, is_base, footer)

    def _storage(self) -> CheckpointStorage:
        storage = self._params.storage
        if storage is None:
            raise StateError(
                f"operator {self._params.operator_name!r}: keyed state cannot be stored "
                f"without a checkpoint storage; set one in CheckpointConfig"
            )
        return storage


def _plan(segments: tuple[SegmentHandle, ...]) -> tuple[tuple[SegmentHandle, ...], bool] | None:
    """What to merge, and whether the result is a base; None when nothing needs it."""
    base_entries = sum(segment.entry_count for segment in segments if segment.is_base)
    increments = tuple(segment for segment in segments if not segment.is_base)
    grown = sum(segment.entry_count for segment in increments)
    inline = [segment.file.size_bytes for segment in segments if segment.file.is_inline]
    is_heavy = len(inline) > 1 and sum(inline) > _MOST_INLINE_BYTES
    if grown > max(_MOST_GROWTH * base_entries, _SMALLEST_BASE_ENTRIES) or (
        is_heavy and len(inline) == len(segments)
    ):
        return segments, True
    has_many_bases = len(segments) - len(increments) > _MOST_BASES
    if len(increments) <= _MOST_INCREMENTS and not has_many_bases and not is_heavy:
        return None
    if has_many_bases:
        return segments, True
    # After a rescale bases and increments of several subtasks stand mixed: then all become one.
    bases_first = all(segment.is_base for segment in segments[: len(segments) - len(increments)])
    return (increments, False) if bases_first and len(increments) > 1 else (segments, True)
