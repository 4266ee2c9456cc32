"""State handles: what an acknowledgement and a manifest say about stored state.

A handle names bytes; it never holds live state. Keyed state is an ordered list of segments, each the
changed entries of one state since the segment before it (an LSM-like log: later segments win). A segment
handle carries the range of key groups for which *this reference* to the file counts, so rescaling
narrows references and never rewrites files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..key_groups import KeyGroupRange


@dataclass(frozen=True, slots=True)
class FileHandle:
    """One immutable file: where it is, how long it is, and what its bytes must hash to.

    A small file is not stored but travels in its handle, as `data`; `path` then only names it.

    `root` is the address of the directory that holds a file of another job's checkpoint, and the start of
    `path`; it is empty for a file of the job's own, whose `path` is relative to the job's directory. Such a
    handle is made from the place that a restore named. It is never stored, and its file is never deleted.
    """

    path: str
    size_bytes: int
    sha256: str
    data: bytes | None = field(default=None, repr=False)
    root: str = ""

    def within(self, root: str) -> FileHandle:
        """The handle of a file in another job's directory, from the one in that job's manifest.

        Args:
            root: Address of the directory that `path` is relative to.
        """
        return replace(self, path=f"{root.rstrip('/')}/{self.path}", root=root)

    def relative(self) -> FileHandle:
        """The same file, for the storage that is opened at `root`."""
        if not self.root:
            return self
        return replace(self, path=self.path[len(self.root.rstrip("/")) + 1 :], root="")

    @property
    def is_inline(self) -> bool:
        """Whether the content is in this handle, and not in storage."""
        return self.data is not None


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
    footer_sha256: str = ""
    """Of the end of the file, which says where everything in it is: for readers of a part of it."""

    def restricted_to(self, key_groups: KeyGroupRange) -> SegmentHandle:
        """The same file, counting only for the key groups also in `key_groups`."""
        return replace(self, key_groups=self.key_groups.intersect(key_groups))


@dataclass(frozen=True, slots=True)
class KeyedStateHandle:
    """The keyed state of one operator in one subtask: segments in the order they were written.

    `descriptors` maps a state's name to its serialised descriptor (kind, type texts, TTL flag): plain
    JSON values, enough to check a restore without reading any file. `dropped` are files that were written
    since the last snapshot and merged before any snapshot named them; only acknowledgements carry them.
    """

    segments: tuple[SegmentHandle, ...] = ()
    descriptors: dict[str, dict[str, object]] = field(default_factory=dict)
    dropped: tuple[FileHandle, ...] = ()

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
class ListPart:
    """The rows `start` to `end` (exclusive) of a file of list items, one item a row.

    With `is_changes` the file is a segment: the changed and removed entries of a broadcast state since the
    part before it. Such parts count only together, in their order, and are never cut.
    """

    file: FileHandle
    start: int
    end: int
    is_changes: bool = False

    @property
    def item_count(self) -> int:
        """How many items these are."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class OperatorListHandle:
    """One operator state in one subtask: ranges of rows, so that items move without being rewritten.

    `mode` is `"even-split"`, `"union"` or `"broadcast"` (how the items are redistributed). `schema` is
    the state's serialised descriptor, as in `KeyedStateHandle.descriptors`.
    """

    state_name: str
    mode: str
    schema: dict[str, object] = field(default_factory=dict)
    parts: tuple[ListPart, ...] = ()

    @property
    def item_count(self) -> int:
        """How many items the list has."""
        return sum(part.item_count for part in self.parts)


@dataclass(frozen=True, slots=True)
class ChannelRange:
    """The bytes `offset` to `offset + size_bytes` of a file: records under way in one input channel.

    The first four fields say which channel: the `ordinal`-th edge from the operator with the uid
    `upstream_uid`, and the upstream subtask. `partitioning` is the name of the edge's.
    """

    upstream_uid: str
    ordinal: int
    upstream_index: int
    upstream_parallelism: int
    partitioning: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ChannelStateHandle:
    """The records that the barrier of a checkpoint overtook on its way into one subtask."""

    file: FileHandle
    channels: tuple[ChannelRange, ...]


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """All that one operator stored in one subtask at one checkpoint.

    `channels` belongs to the first operator of a task: it is the one that gets the records.
    """

    keyed: KeyedStateHandle = KeyedStateHandle()
    lists: tuple[OperatorListHandle, ...] = ()
    channels: ChannelStateHandle | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes that this snapshot refers to, shared files included."""
        return sum({file.path: file.size_bytes for file in self.files()}.values())

    def files(self) -> tuple[FileHandle, ...]:
        """Every file this snapshot refers to, inline ones included."""
        segments = (segment.file for segment in self.keyed.segments)
        channels = () if self.channels is None else (self.channels.file,)
        return (*segments, *(part.file for handle in self.lists for part in handle.parts), *channels)

    def with_files(self, change: Callable[[FileHandle], FileHandle]) -> OperatorSnapshot:
        """The same snapshot with every file handle replaced by `change(handle)`."""
        segments = tuple(replace(segment, file=change(segment.file)) for segment in self.keyed.segments)
        lists = tuple(
            replace(handle, parts=tuple(replace(part, file=change(part.file)) for part in handle.parts))
            for handle in self.lists
        )
        channels = self.channels
        if channels is not None:
            channels = replace(channels, file=change(channels.file))
        return OperatorSnapshot(KeyedStateHandle(segments, self.keyed.descriptors), lists, channels)
