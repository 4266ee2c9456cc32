"""A gap that stays counts as a loss; one that closes, or moves on, does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.channels.sequence_gaps import Gap, SequenceGaps


def test_a_gap_that_stays_for_the_timeout_is_a_loss() -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    found = [gaps.look({"a": 3}, now_ms) for now_ms in range(1_000, 8_000, 1_000)]
    assert found == [*([[]] * 5), [Gap("a", 3)], []]


def test_every_gap_that_stays_is_a_loss() -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    found = [gaps.look({"a": 3, "b": 0}, now_ms) for now_ms in range(1_000, 7_000, 1_000)]
    assert found[5] == [Gap("a", 3), Gap("b", 0)]


def test_a_gap_that_closes_is_forgotten() -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    for now_ms in range(1_000, 60_000, 1_000):
        missing = {} if now_ms % 4_000 == 0 else {"a": 3}
        assert gaps.look(missing, now_ms) == []
    assert gaps.is_watching


def test_a_sequence_that_advances_from_gap_to_gap_is_only_out_of_order() -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    for now_ms in range(1_000, 60_000, 1_000):
        assert gaps.look({"a": now_ms // 2_000}, now_ms) == []


def test_time_in_which_the_process_was_suspended_does_not_count() -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    gaps.look({"a": 3}, 1_000)
    assert gaps.look({"a": 3}, 601_000) == []
    assert gaps.look({"a": 3}, 1_201_000) == []
    assert gaps.look({"a": 3}, 1_801_000) == [Gap("a", 3)]


@given(st.lists(st.integers(min_value=1, max_value=3_000), min_size=1, max_size=60))
def test_no_gap_is_a_loss_before_the_timeout_whenever_it_is_looked_at(steps: list[int]) -> None:
    gaps: SequenceGaps[str] = SequenceGaps(5_000)
    now_ms = 1_000
    gaps.look({"a": 0}, now_ms)
    for step in steps:
        now_ms += step
        if gaps.look({"a": 0}, now_ms):
            assert now_ms - 1_000 >= 5_000
            break
