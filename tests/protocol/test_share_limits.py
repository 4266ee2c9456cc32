"""An epoch has its full number of records whatever part of them each subtask gets, and never more."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tidegate.protocol.share_limits import ShareLimits
from tidegate.protocol.stages.epoch_leader import EpochLeader
from tidegate.protocol.stages.epoch_messages import FromLeader, ShareEnded, ToLeader
from tidegate.protocol.stages.epoch_shares import ShareMachine
from tidegate.protocol.stages.epochs import (
    EpochLimits,
    RecordsGathered,
    SendToLeader,
    ShareEvent,
    StageRestored,
)

from ..simulation.mutants.base import Mutant

SEEDS = 60
NEVER_MS = 1_000_000


class Gathering:
    """Subtasks that gather one record after the other; messages arrive in any order between subtasks."""

    def __init__(self, random: Random, subtasks: int, max_records: int) -> None:
        self._random = random
        self._leader = EpochLeader(subtasks)
        limits = EpochLimits(max_records, NEVER_MS, buffer_bytes=1 << 40, memory_bytes=1 << 40)
        self._machines = [ShareMachine(limits, subtasks) for _ in range(subtasks)]
        self._to_leader: list[deque[ToLeader]] = [deque() for _ in range(subtasks)]
        self._from_leader: list[deque[FromLeader]] = [deque() for _ in range(subtasks)]
        self._ended: dict[int, list[int]] = {}
        for index in range(subtasks):
            self._handle(index, StageRestored())

    @property
    def epochs(self) -> list[int]:
        """The records of each epoch that all subtasks have ended."""
        full = len(self._machines)
        return [sum(shares) for _, shares in sorted(self._ended.items()) if len(shares) == full]

    def run(self, records: int, parts: Sequence[float], message_rate: float) -> None:
        """Gather records, of which each subtask gets a part; so many messages arrive for each of them."""
        for _ in range(records):
            (index,) = self._random.choices(range(len(parts)), parts)
            self._handle(index, RecordsGathered(1, 1))
            while self._random.random() < message_rate / (1 + message_rate):
                self._deliver()

    def _handle(self, index: int, event: ShareEvent) -> None:
        for command in self._machines[index].handle(event, 0):
            if isinstance(command, SendToLeader):
                self._to_leader[index].append(command.message)
                if isinstance(command.message, ShareEnded):
                    self._ended.setdefault(command.message.number, []).append(command.message.records)
        self._machines[index].validate()

    def _deliver(self) -> None:
        index = self._random.randrange(len(self._machines))
        if self._random.random() < 0.5 and self._to_leader[index]:
            for target, message in self._leader.handle(index, self._to_leader[index].popleft()):
                self._from_leader[target].append(message)
        elif self._from_leader[index]:
            self._handle(index, self._from_leader[index].popleft())


def exceeded(seed: int) -> list[int]:
    """Epochs with more records than they may have, while the parts change."""
    random = Random(seed)
    subtasks, max_records = random.choice((2, 3, 4)), random.choice((10, 40, 100))
    gathering = Gathering(random, subtasks, max_records)
    for _ in range(8):
        parts = [random.choice((0.0, 0.05, 1.0)) for _ in range(subtasks)]
        parts[random.randrange(subtasks)] += 0.1
        gathering.run(max_records * 4, parts, random.choice((0.1, 1.0, 20.0)))
    # The first equal parts are rounded up.
    return [records for records in gathering.epochs if records > max_records + subtasks - 1]


def last_epochs(seed: int) -> tuple[list[int], int]:
    """The last epochs, and their bound, of input that nearly all goes to one subtask."""
    random = Random(seed)
    subtasks, max_records = random.choice((2, 3, 4)), 200
    parts = [0.05 / subtasks] * subtasks
    parts[random.randrange(subtasks)] = 0.95
    gathering = Gathering(random, subtasks, max_records)
    gathering.run(max_records * 12, parts, 20.0)
    return gathering.epochs[-3:], max_records


@pytest.mark.parametrize("first", range(0, SEEDS, 30))
def test_no_epoch_has_more_records_than_its_bound(first: int) -> None:
    for seed in range(first, first + 30):
        assert exceeded(seed) == [], f"seed {seed}"


def test_epochs_of_skewed_input_are_nearly_full() -> None:
    for seed in range(12):
        found, max_records = last_epochs(seed)
        assert min(found) >= 0.7 * max_records, f"seed {seed}: {found} of {max_records}"


def test_the_limits_of_equal_input_stay_as_they_are() -> None:
    limits = ShareLimits(3, 300)
    assert limits.epoch_ended([100, 95, 90]) == {}
    assert limits.epoch_ended([3, 0, 0]) == {}, "an epoch that was due says nothing"


def test_a_limit_grows_when_others_have_reported_lower_ones() -> None:
    limits = ShareLimits(2, 80)
    assert limits.epoch_ended([40, 0]) == {1: 10}
    limits.share_ended(0, 40)
    limits.share_ended(1, 40)
    assert limits.epoch_ended([40, 0]) == {}
    limits.share_ended(1, 10)
    assert limits.epoch_ended([40, 0]) == {0: 70}


# ---------------------------------------------------------------- planted bugs


def _sent_only(original: Any) -> Any:
    return lambda self: max(0, self._max_records - sum(self._sent))


def _fixed(original: Any) -> Any:
    return lambda self, records: {}


def test_a_limit_that_grows_too_early_is_found() -> None:
    with Mutant("a part is free once it was given up", ShareLimits, "_free", _sent_only).planted():
        assert any(exceeded(seed) for seed in range(SEEDS))


def test_fixed_limits_are_found() -> None:
    with Mutant("each subtask keeps an equal part", ShareLimits, "epoch_ended", _fixed).planted():
        found, max_records = last_epochs(0)
        assert max(found) < 0.7 * max_records
