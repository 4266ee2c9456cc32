"""Somebody sets the clock of the machine: nothing that measures time may notice."""

from __future__ import annotations

import time

import pytest
from tidegate.common.clock import SteadyClock

HOUR_NS = 3_600_000_000_000


@pytest.mark.parametrize("jump_ns", [-HOUR_NS, 0, HOUR_NS])
def test_a_jump_of_the_wall_clock_is_not_followed(jump_ns: int) -> None:
    wall, steady = [1_000 * HOUR_NS], [7]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    assert clock.now_ns() == 1_000 * HOUR_NS
    wall[0] += jump_ns + 5
    steady[0] += 5
    assert clock.now_ns() == 1_000 * HOUR_NS + 5


def test_it_shows_the_time_of_the_machine() -> None:
    before = time.time_ns()
    now = SteadyClock().now_ns()
    assert abs(now - before) < 60_000_000_000
