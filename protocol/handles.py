"""State handles: what an acknowledgement and a manifest say about stored state.

A handle names bytes; it never holds live state. Keyed state is an ordered list of segments, each the
changed entries of one state since the segment before it (an LSM-like log: later segments win). A segment
handle carries the range of key groups for which *this reference* to the file counts, so rescaling
narrows references and never rewrites files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .key_groups import KeyGroupRange


@dataclass(frozen=True, slots=True)
class FileHandle:
    """One immutable stored file: where it is, how long it is, and what its bytes must hash to."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SegmentHandle:
    """One file of changed keyed entries of one state, valid for `key_groups` only.

    `is_base` marks a segment that holds everything of that state and range; older segments of the
    same state and range are then no longer needed.
    """

    state_name: str
    file: FileHandle
    key_groups: KeyGroupRange
    entry_count: int
    is_base: bool = False

    def restricted_to(self, key_groups: KeyGroupRange) -> SegmentHandle:
        """The same file, counting only for the key groups also in `key_groups`."""
        return replace(self, key_groups=self.key_groups.intersect(key_groups))


@dataclass(frozen=True, slots=True)
class KeyedStateHandle:
    """The keyed state of one operator in one subtask: segments in the order they were written.

    `descriptors` maps a state's name to its serialised descriptor (kind, type texts, TTL flag): plain
    JSON values, enough to check a restore without reading any file.
    """

    segments: tuple[SegmentHandle, ...] = ()
    descriptors: dict[str, dict[str, object]] = field(default_factory=dict)

    def restricted_to(self, key_groups: KeyGroupRange) -> KeyedStateHandle:
        """The part of this state that belongs to `key_groups`."""
        narrowed = (segment.restricted_to(key_groups) for segment in self.segments)
        kept = tuple(segment for segment in narrowed if segment.key_groups.size > 0)
        return KeyedStateHandle(kept, self.descriptors)

    @staticmethod
    def concatenated(parts: Iterable[KeyedStateHandle]) -> KeyedStateHandle:
        """One handle over parts with disjoint key groups (the state of several old subtasks)."""
        segments: list[SegmentHandle] = []
        descriptors: dict[str, dict[str, object]] = {}
        for part in parts:
            segments.extend(part.segments)
            descriptors.update(part.descriptors)
        return KeyedStateHandle(tuple(segments), descriptors)


@dataclass(frozen=True, slots=True)
class OperatorListHandle:
    """The items of one operator list state in one subtask, each item encoded on its own.

    `mode` is `"even-split"`, `"union"` or `"broadcast"` (how the items are redistributed).
    """

    state_name: str
    mode: str
    items: tuple[bytes, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all encoded items."""
        return sum(len(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """All that one operator stored in one subtask at one checkpoint."""

    keyed: KeyedStateHandle = KeyedStateHandle()
    lists: tuple[OperatorListHandle, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes that this snapshot refers to, shared files included."""
        files = {segment.file.path: segment.file.size_bytes for segment in self.keyed.segments}
        return sum(files.values()) + sum(handle.size_bytes for handle in self.lists)

    def files(self) -> tuple[FileHandle, ...]:
        """Every stored file this snapshot refers to."""
        return tuple(segment.file for segment in self.keyed.segments)
