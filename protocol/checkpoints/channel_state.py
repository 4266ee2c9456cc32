"""Which new channel gets the records that were under way in an old one, when a job is restored.

Records of a keyed edge follow their keys: every new subtask looks at the old channels whose key groups
meet its own, and keeps the records whose keys it owns. Records of a rebalanced edge stay together, old
subtask by old subtask. Edges that no barrier overtakes have no records to restore. Source: the idea of
Flink's `StateAssignmentOperation` and of its demultiplexing of recovered channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ids import ChannelId
from ..key_groups import KeyGroupRange, key_group_range_of_subtask
from ..scheduling.partitioning import Partitioning
from ..scheduling.plan import EdgeOrigin, StreamEdge, Task
from .handles import ChannelRange, FileHandle
from .manifest import OperatorManifest


@dataclass(frozen=True, slots=True)
class RecoveredChannel:
    """Records that one new channel delivers before anything else.

    Attributes:
        channel: The new channel.
        file: Where they are, in the bytes `offset` to `offset + size_bytes`.
        key_groups: Only the records with these keys are meant; `None` for all of them.
        max_parallelism: The number of key groups.
        keeps_watermarks: False when the upstream subtasks are others than those that sent the watermarks,
            which then say nothing about what comes next.
        key_selector: The pickled function that gives the key of a record that was stored without one.
    """

    channel: ChannelId
    file: FileHandle
    offset: int
    size_bytes: int
    key_groups: KeyGroupRange | None
    max_parallelism: int
    keeps_watermarks: bool
    key_selector: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """An edge into a task, and what a checkpoint holds of the task's first operator.

    `upstream_uids` are the uid of the operator that the edge comes from, and its earlier ones.
    """

    edge: StreamEdge
    origin: EdgeOrigin
    upstream_uids: frozenset[str]
    stored: OperatorManifest
    task: Task

    def claims(self, channel: ChannelRange) -> bool:
        """Whether stored records belong to this edge."""
        return (
            channel.upstream_uid in self.upstream_uids
            and channel.ordinal == self.origin.ordinal
            and channel.partitioning == self.origin.partitioning.value
        )

    def recovered(self) -> Iterator[tuple[int, RecoveredChannel]]:
        """What the subtasks of the task recover of this edge, with the subtask's index."""
        for index in range(self.task.parallelism):
            for old_index, key_groups in self._old_subtasks(index):
                handle = self.stored.subtasks[old_index].channels
                for channel in () if handle is None else handle.channels:
                    if self.claims(channel):
                        assert handle is not None
                        yield index, self._recovered(index, handle.file, channel, key_groups)

    def _recovered(
        self, index: int, file: FileHandle, channel: ChannelRange, key_groups: KeyGroupRange | None
    ) -> RecoveredChannel:
        upstream_index = channel.upstream_index % self.origin.parallelism
        return RecoveredChannel(
            ChannelId(self.edge.edge_id, upstream_index, index),
            file,
            channel.offset,
            channel.size_bytes,
            key_groups,
            self.task.max_parallelism,
            keeps_watermarks=channel.upstream_parallelism == self.origin.parallelism,
            key_selector=self.edge.key_selector,
        )

    def _old_subtasks(self, index: int) -> list[tuple[int, KeyGroupRange | None]]:
        """The old subtasks whose records the new one looks at, and for which key groups."""
        parallelism, max_parallelism = self.task.parallelism, self.task.max_parallelism
        old_parallelism, old_maximum = len(self.stored.subtasks), self.stored.max_parallelism
        if self.origin.partitioning is not Partitioning.HASH:
            return [(old, None) for old in range(old_parallelism) if old % parallelism == index]
        if (old_parallelism, old_maximum) == (parallelism, max_parallelism):
            return [(index, None)]
        mine = key_group_range_of_subtask(index, max_parallelism, parallelism)
        return [
            (old, mine)
            for old in range(old_parallelism)
            if old_maximum != max_parallelism
            or key_group_range_of_subtask(old, old_maximum, old_parallelism).intersect(mine).size > 0
        ]
