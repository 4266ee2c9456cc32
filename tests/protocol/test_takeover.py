"""Which checkpoints count after takeovers, and when the newest completed one is missing."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.protocol.checkpoints.takeover import Takeover, counts, missing_newest
from tidegate.protocol.ids import CheckpointId


def takeover(epoch: int, first_id: int, *checkpoints: int) -> Takeover:
    return Takeover(epoch, first_id, frozenset(checkpoints))


def missing(stored: Iterable[int], recorded: Iterable[int], *takeovers: Takeover) -> int | None:
    return missing_newest(map(CheckpointId, stored), map(CheckpointId, recorded), takeovers)


def test_a_checkpoint_counts_if_the_next_coordinator_found_it() -> None:
    second = takeover(2, 257, 1)
    assert counts(CheckpointId(1), [second])
    assert not counts(CheckpointId(2), [second])
    assert counts(CheckpointId(257), [second]), "its own"


def test_the_newest_coordinator_judges() -> None:
    """An older one may have recorded its view after it was replaced."""
    assert counts(CheckpointId(2), [takeover(2, 257, 1), takeover(3, 513, 1, 2)])
    assert not counts(CheckpointId(2), [takeover(3, 513, 1), takeover(2, 257, 1, 2)])


def test_a_coordinator_that_took_its_ids_after_its_successor_does_not_judge_the_successors_checkpoints() -> (
    None
):
    """It was stopped in its takeover, and completed that when it woke up."""
    late, successor = takeover(2, 513, 2), takeover(3, 257, 2)
    assert counts(CheckpointId(259), [late, successor])
    assert counts(CheckpointId(2), [late, successor])
    assert not counts(CheckpointId(3), [late, successor])
    assert not counts(CheckpointId(259), [late, successor, takeover(4, 769, 2)]), "a later one judges"


def test_nothing_is_missing_if_the_newest_or_a_newer_one_is_there() -> None:
    assert missing([], []) is None
    assert missing([3], [3], takeover(1, 1)) is None
    assert missing([4], [3], takeover(1, 1)) is None, "it was not recorded before the coordinator died"
    assert missing([300], [3, 300], takeover(1, 1), takeover(2, 257, 3)) is None, "3 was replaced and deleted"


def test_a_completed_checkpoint_without_a_manifest_is_missing() -> None:
    assert missing([2], [3], takeover(1, 1)) == 3
    assert missing([], [3], takeover(1, 1)) == 3


def test_a_checkpoint_that_a_coordinator_resumed_from_is_missing_too() -> None:
    assert missing([2], [2, 3], takeover(1, 1), takeover(2, 257, 2, 3)) == 3


def test_a_checkpoint_that_does_not_count_is_not_missed() -> None:
    assert missing([2], [2, 3], takeover(2, 257, 2, 3), takeover(3, 513, 2)) is None
