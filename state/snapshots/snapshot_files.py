"""Reads the segments of one keyed state, key-group range by key-group range.

Segments are a log: the later of two rows of one entry wins. Rows are sorted by key group, and a row group
says which key groups it holds, so a range of key groups can be merged without looking at any other.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ...common.errors import CorruptCheckpointError, TidegateError
from ...protocol.checkpoints.handles import FileHandle, SegmentHandle
from ...protocol.key_groups import KeyGroupRange
from ..keyed.change_merge import merge_tables
from ..keyed.conversion import StateConversion
from ..storage.checkpoint_storage import CheckpointStorage
from .key_selection import KeySelection
from .segments import SegmentFile, footer_sha256

_HASHED_BYTES = 8 << 20
_WRONG_CONTENT = (
    *(pa.ArrowException, ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, OSError),
    *(RecursionError, TypeError, ValueError, struct.error),
)


class CheckedFiles:
    """The stored files of one checkpoint; each is compared with its SHA-256 at most once."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self.storage = storage
        self._intact: set[str] = set()

    def verify(self, handle: FileHandle) -> None:
        """Compare a file with its length and SHA-256, in pieces.

        Raises:
            CorruptCheckpointError: when it is missing or damaged.
        """
        if handle.path in self._intact:
            return
        digest = hashlib.sha256()
        with closing(self.storage.open_file(handle)) as file:
            while piece := file.read(_HASHED_BYTES):
                digest.update(piece)
        if digest.hexdigest() != handle.sha256:
            raise CorruptCheckpointError(
                f"checkpoint file {handle.path!r} is damaged: its SHA-256 does not match; restore another "
                f"checkpoint or savepoint"
            )
        self._intact.add(handle.path)


@contextmanager
def content_of(where: object) -> Iterator[None]:
    """Turn what wrong content causes into one clear error.

    A file with a valid checksum may hold anything: other columns, types and values than any release writes.

    Args:
        where: What is read, for the message.

    Raises:
        CorruptCheckpointError: Something inside failed because of the content.
    """
    try:
        yield
    except CorruptCheckpointError as error:
        if str(error).startswith(str(where)):
            raise
        raise CorruptCheckpointError(f"{where}: {error}") from error
    except TidegateError:
        raise
    except _WRONG_CONTENT as error:
        raise CorruptCheckpointError(
            f"{where}: its content does not have the form that it states ({type(error).__name__}: "
            f"{str(error)[:200]!a}); restore another checkpoint or savepoint"
        ) from error


@dataclass(frozen=True)
class StateLocation:
    """Which state is read, for error messages."""

    operator_uid: str
    operator_name: str
    state_name: str

    def named(self) -> AbstractContextManager[None]:
        """Add operator and state to errors about damaged files; see `content_of`."""
        return content_of(self)

    def __str__(self) -> str:
        return f"operator {self.operator_name!r} (uid {self.operator_uid}), state {self.state_name!r}"


class StateSegments:
    """The segments of one keyed state, by subtask.

    Args:
        subtasks: the segments of each subtask in the order they were written. The key groups of two
            subtasks never meet.
        conversion: to the schema of the checkpoint, from those of older segments.
        selection: the keys to read, if not all.
        is_part: whether only a part of the files is read; they are then checked by the checksums of their
            footers and pages, since the SHA-256 of a whole file would need all of it.
    """

    def __init__(
        self,
        files: CheckedFiles,
        where: StateLocation,
        subtasks: Sequence[tuple[SegmentHandle, ...]],
        conversion: StateConversion,
        selection: KeySelection | None = None,
        is_part: bool = False,
    ) -> None:
        self._files = files
        self._where = where
        self._subtasks = subtasks
        self._conversion = conversion
        self._selection = selection
        self._is_part = is_part or selection is not None

    def selected(self, selection: KeySelection) -> StateSegments:
        """The same, for some keys only: other segments are not even opened."""
        held = [
            tuple(segment for segment in segments if selection.meets(segment.key_groups))
            for segments in self._subtasks
        ]
        return StateSegments(self._files, self._where, held, self._conversion, selection)

    def within(self, key_groups: KeyGroupRange) -> StateSegments:
        """The same, for a range of key groups only: other segments are not even opened."""
        held = [
            tuple(
                segment.restricted_to(key_groups)
                for segment in segments
                if segment.key_groups.intersect(key_groups).size
            )
            for segments in self._subtasks
        ]
        return StateSegments(self._files, self._where, held, self._conversion, self._selection, is_part=True)

    def types(self) -> list[dict[str, pa.DataType]]:
        """The column types of every segment."""
        found: list[dict[str, pa.DataType]] = []
        for segments in self._subtasks:
            with self._opened(segments) as opened:
                found.extend(file.types for _, file in opened)
        return found

    def tables(self, range_rows: int) -> Iterator[pa.Table]:
        """Merged change tables without tombstones, in pieces of about `range_rows` stored rows.

        A piece holds whole key groups, so one key group is the least that must fit into memory.

        Raises:
            CorruptCheckpointError: naming the file, the operator and the state.
        """
        for segments in self._subtasks:
            with self._opened(segments) as opened:
                for key_groups in self._ranges(opened, range_rows):
                    table = self._merged(opened, key_groups)
                    if table is not None:
                        yield table

    def row_groups(self) -> list[tuple[KeyGroupRange, int]]:
        """The key groups and the number of rows of all row groups of all segments."""
        found: list[tuple[KeyGroupRange, int]] = []
        for segments in self._subtasks:
            with self._opened(segments) as opened:
                found.extend(entry for _, file in opened for entry in file.row_groups)
        return found

    def read(self, key_groups: KeyGroupRange) -> pa.Table | None:
        """The merged change table of a range of key groups; None when it holds nothing."""
        found = []
        for segments in self._subtasks:
            meeting = [one for one in segments if one.key_groups.intersect(key_groups).size]
            with self._opened(meeting) as opened:
                table = self._merged(opened, key_groups)
                if table is not None:
                    found.append(table)
        return merge_tables(found, keep_tombstones=False) if found else None

    def verify(self) -> None:
        """Compare every file with its SHA-256."""
        with self._where.named():
            for segments in self._subtasks:
                for segment in segments:
                    self._files.verify(segment.file)

    def _merged(
        self, opened: Sequence[tuple[SegmentHandle, SegmentFile]], key_groups: KeyGroupRange
    ) -> pa.Table | None:
        parts = []
        for segment, file in opened:
            wanted = segment.key_groups.intersect(key_groups)
            if wanted.size == 0:
                continue
            part = file.read_key_groups(wanted)
            if self._selection is not None:
                part = self._selection.apply(part)
            if part.num_rows:
                parts.append(self._conversion.converted(part, file.info.schema))
        if not parts:
            return None
        merged = merge_tables(parts, keep_tombstones=False)
        return merged if merged.num_rows else None

    def _ranges(
        self, opened: Sequence[tuple[SegmentHandle, SegmentFile]], range_rows: int
    ) -> Iterator[KeyGroupRange]:
        if self._selection is not None:
            yield from (KeyGroupRange(group, group) for group in self._selection.key_groups)
            return
        held = [
            (key_groups.intersect(segment.key_groups), rows)
            for segment, file in opened
            for key_groups, rows in file.row_groups
        ]
        yield from key_group_ranges([entry for entry in held if entry[0].size], range_rows)

    @contextmanager
    def _opened(self, segments: Sequence[SegmentHandle]) -> Iterator[list[tuple[SegmentHandle, SegmentFile]]]:
        with self._where.named(), ExitStack() as stack:
            opened = []
            for segment in segments:
                opened.append((segment, self._open(segment, stack)))
            yield opened

    def _open(self, segment: SegmentHandle, stack: ExitStack) -> SegmentFile:
        handle = segment.file
        if not self._is_part:
            self._files.verify(handle)
        source = stack.enter_context(closing(self._files.storage.open_file(handle)))
        if self._is_part and footer_sha256(source, handle.size_bytes) != segment.footer_sha256:
            raise CorruptCheckpointError(
                f"checkpoint file {handle.path!r} is damaged: the SHA-256 of its footer does not match; "
                f"restore another checkpoint or savepoint"
            )
        file = SegmentFile(source, handle.path)
        if file.num_rows != segment.entry_count:
            raise CorruptCheckpointError(
                f"checkpoint file {handle.path!r} holds {file.num_rows} rows, but its manifest says "
                f"{segment.entry_count}; restore another checkpoint or savepoint"
            )
        return file


def key_group_ranges(
    row_groups: Sequence[tuple[KeyGroupRange, int]], range_rows: int
) -> Iterator[KeyGroupRange]:
    """Cut key groups into ranges of about `range_rows` rows, as far as row groups tell where rows are."""
    if not row_groups:
        return
    first = min(held.start for held, _ in row_groups)
    last = max(held.end for held, _ in row_groups)
    rows = np.zeros(last - first + 1)
    for held, count in row_groups:
        rows[held.start - first : held.end - first + 1] += count / held.size
    piece = np.floor(np.cumsum(rows) / range_rows)
    starts = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(rows)]
    for low, high in pairwise(starts):
        yield KeyGroupRange(first + low, first + high - 1)
