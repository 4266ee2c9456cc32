"""How records travel along an edge, and which subtasks an edge therefore connects."""

from __future__ import annotations

import enum


class Partitioning(enum.Enum):
    """How an edge spreads the records of one upstream subtask over the downstream ones."""

    FORWARD = "forward"
    """To the subtask with the same index; parallelism must be equal. The only one that chains."""
    HASH = "hash"
    """By the key group of the record's key."""
    REBALANCE = "rebalance"
    """Round robin over all."""
    RESCALE = "rescale"
    """Round robin over a local group, so that few channels are needed."""
    BROADCAST = "broadcast"
    """Every record to all."""
    SHUFFLE = "shuffle"
    """Each record to one of all, drawn at random."""
    GLOBAL = "global"
    """Every record to the first subtask."""
    CUSTOM = "custom"
    """Each record to the subtask that a function of the user names."""

    @property
    def may_be_overtaken(self) -> bool:
        """Whether a barrier may overtake records, which are then stored and later sent again.

        As in Flink not on forward and rescale, where programs rely on records staying with the subtask
        that the one before them went to, and not on broadcast, where all receivers must have seen the same
        records when their state is recorded. Nor on global and custom: after a rescale a record that was
        stored for one subtask could reach another than the program names.
        """
        return self in (Partitioning.HASH, Partitioning.REBALANCE, Partitioning.SHUFFLE)


def connected_subtasks(
    partitioning: Partitioning,
    upstream_index: int,
    upstream_parallelism: int,
    downstream_parallelism: int,
) -> range:
    """Downstream subtasks that one upstream subtask has channels to.

    With both parallelisms exchanged, these are the upstream subtasks of a downstream one.
    """
    if partitioning is Partitioning.FORWARD:
        return range(upstream_index, upstream_index + 1)
    if partitioning is not Partitioning.RESCALE:
        return range(downstream_parallelism)
    if upstream_parallelism >= downstream_parallelism:
        target = upstream_index * downstream_parallelism // upstream_parallelism
        return range(target, target + 1)
    start = -(-upstream_index * downstream_parallelism // upstream_parallelism)
    end = -(-(upstream_index + 1) * downstream_parallelism // upstream_parallelism)
    return range(start, end)
