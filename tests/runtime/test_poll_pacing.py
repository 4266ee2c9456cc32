"""A source that waits for the world is asked with pauses; one that waits for nobody is not held up."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.runtime.network.poll_pacing import (
    MOST_PAUSE_MS,
    PAUSE_NS,
    SHORTEST_PAUSE_NS,
    PollPacing,
    pause_for,
)

MOST = 1_000
POLL_NS = 200_000
SECOND_NS = 1_000_000_000


class Loop:
    """A task's loop around a source; how many records there are, it is told by a function of the time."""

    def __init__(
        self, available: Callable[[int], int], poll_ns: int = POLL_NS, pause_ns: int = PAUSE_NS
    ) -> None:
        self.pacing = PollPacing(pause_ns)
        self.now_ns = 0
        self.polls = 0
        self.records = 0
        self._available = available
        self._poll_ns = poll_ns

    def run(self, seconds: float) -> Loop:
        self.polls = self.records = 0
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        while self.now_ns < end_ns:
            self.now_ns += max(0, self.pacing.due_in_ns(self.now_ns))
            from_ns = self.now_ns
            records = min(self._available(from_ns), MOST)
            self.now_ns += self._poll_ns
            if not self.pacing.polled(records, MOST, from_ns, self.now_ns) and not records:
                self.now_ns += PAUSE_NS
            self.polls += 1
            self.records += records
        return self


def paced(rate: int) -> Callable[[int], int]:
    """Records that become due, so many a second."""
    taken = 0

    def available(now_ns: int) -> int:
        nonlocal taken
        due = now_ns * rate // SECOND_NS - taken
        taken += min(due, MOST)
        return due

    return available


def test_records_that_become_due_at_a_rate_are_taken_with_pauses() -> None:
    loop = Loop(paced(50_000)).run(0.3).run(1)
    assert loop.records >= 49_800
    # A pause of 2 ms, and now and then none.
    assert loop.polls <= 490


def test_a_short_buffer_timeout_shortens_the_pauses() -> None:
    loop = Loop(paced(50_000), poll_ns=100_000, pause_ns=pause_for(1)).run(0.3).run(1)
    assert loop.records >= 49_900
    assert 1_500 <= loop.polls <= 1_800


def test_a_pause_takes_at_most_half_of_the_buffer_timeout() -> None:
    assert pause_for(100) == pause_for(4) == pause_for(-1) == PAUSE_NS
    assert pause_for(3) == 1_500_000
    assert pause_for(1) == pause_for(0) == SHORTEST_PAUSE_NS


def test_a_source_that_is_quiet_for_long_is_not_asked_more_often_because_of_a_short_buffer_timeout() -> None:
    short, default = QuietLoop(1, pause_for(1)), QuietLoop(1)
    assert short.polls_until(10 * SECOND_NS) <= default.polls_until(10 * SECOND_NS) * 1.01 + 100


def test_a_source_that_always_has_a_few_is_asked_without_pauses() -> None:
    loop = Loop(lambda now_ns: 7).run(0.3).run(1)
    most = SECOND_NS // POLL_NS
    assert loop.polls >= 0.9 * most


def test_a_source_that_begins_to_wait_for_the_world_is_asked_with_pauses_soon() -> None:
    becomes_due = paced(50_000)

    def available(now_ns: int) -> int:
        return 7 if now_ns < SECOND_NS else becomes_due(now_ns)

    loop = Loop(available).run(2)
    assert loop.run(1).polls <= 490


def test_what_has_gathered_while_the_source_was_held_up_is_taken_without_pauses() -> None:
    loop = Loop(paced(50_000)).run(0.5)
    loop.now_ns += SECOND_NS
    assert loop.run(50 * POLL_NS / SECOND_NS).records >= 49_000


def test_a_hold_up_does_not_make_a_source_look_slow_that_always_has_a_few() -> None:
    loop = Loop(lambda now_ns: 7).run(0.5)
    for _ in range(20):
        loop.now_ns += SECOND_NS
        loop.run(0.01)
    assert loop.run(0.1).polls >= 0.9 * SECOND_NS // POLL_NS * 0.1 - 10


def test_there_is_no_pause_behind_records_that_were_much_work() -> None:
    loop = Loop(lambda now_ns: 7, poll_ns=1_500_000).run(1)
    assert loop.polls >= SECOND_NS // 1_500_000


def test_full_batches_follow_each_other_at_once() -> None:
    pacing = PollPacing()
    assert pacing.polled(MOST, MOST, 0, 5)
    assert pacing.due_in_ns(5) <= 0


def test_a_source_that_had_nothing_may_be_asked_as_soon_as_something_happens() -> None:
    pacing = PollPacing()
    assert not pacing.polled(0, MOST, 0, 5)
    assert pacing.due_in_ns(5) <= 0


def test_a_clock_that_stands_still_makes_no_pause() -> None:
    pacing = PollPacing()
    assert all(pacing.polled(3, MOST, 0, 0) for _ in range(100))


class QuietLoop:
    """A task that waits for its source, and counts the polls until it gives a record."""

    def __init__(self, most_ms: int, pause_ns: int = PAUSE_NS) -> None:
        self.pacing = PollPacing(pause_ns)
        self.now_ns = 0
        self._most_ns = most_ms * 1_000_000

    def polls_until(self, due_ns: int) -> int:
        polls = 0
        while self.now_ns < due_ns:
            polls += 1
            self.pacing.polled(0, MOST, self.now_ns, self.now_ns + POLL_NS)
            self.now_ns += POLL_NS
            self.now_ns += self.pacing.quiet_pause_ns(self.now_ns, self._most_ns)
        self.pacing.polled(1, MOST, self.now_ns, self.now_ns + POLL_NS)
        return polls


def test_a_source_that_is_quiet_is_asked_ten_times_a_second() -> None:
    quiet = QuietLoop(MOST_PAUSE_MS)
    assert quiet.polls_until(60 * SECOND_NS) <= 60 * 10 + 120


def test_a_record_after_a_short_silence_is_found_soon() -> None:
    for silence_ms in (10, 100, 400):
        quiet = QuietLoop(MOST_PAUSE_MS)
        due_ns = silence_ms * 1_000_000
        quiet.polls_until(due_ns)
        assert quiet.now_ns - due_ns <= max(PAUSE_NS, due_ns // 10) + POLL_NS


def test_after_a_record_a_source_is_asked_with_short_pauses_again() -> None:
    quiet = QuietLoop(MOST_PAUSE_MS)
    quiet.polls_until(10 * SECOND_NS)
    quiet.pacing.polled(0, MOST, quiet.now_ns, quiet.now_ns + POLL_NS)
    assert quiet.pacing.quiet_pause_ns(quiet.now_ns + POLL_NS, SECOND_NS) == PAUSE_NS


def test_a_short_buffer_timeout_bounds_the_pause() -> None:
    quiet = QuietLoop(most_ms=5)
    quiet.polls_until(10 * SECOND_NS)
    assert quiet.pacing.quiet_pause_ns(20 * SECOND_NS, 5_000_000) <= 5_000_000
