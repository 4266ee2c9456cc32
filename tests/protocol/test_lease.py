"""When a coordinator verifies that it owns its job, and what it may do until then."""

from __future__ import annotations

from tidegate.protocol.checkpoints.lease import Lease


def test_a_fresh_lease_allows_everything_and_asks_for_nothing() -> None:
    lease = Lease(100, now_ms=1_000)
    lease.awake(1_100)
    assert not lease.is_due(1_100)
    assert lease.allows(1_100, is_final=True)


def test_a_lease_that_ran_out_is_renewed_and_until_then_nothing_final_happens() -> None:
    lease = Lease(100, now_ms=1_000)
    for now_ms in (1_050, 1_101):
        lease.awake(now_ms)
    assert lease.is_due(1_101)
    assert lease.allows(1_101, is_final=False), "it was never silent, and storage may be slow"
    assert not lease.allows(1_101, is_final=True)
    lease.verified(1_101, 1_103)
    assert not lease.is_due(1_103)
    assert lease.allows(1_103, is_final=True)


def test_after_a_silence_longer_than_the_lease_nothing_is_allowed_before_storage_has_answered() -> None:
    lease = Lease(100, now_ms=1_000)
    lease.awake(1_101)
    assert not lease.allows(1_101, is_final=False)
    lease.awake(1_102)
    assert not lease.allows(1_102, is_final=False), "it does not pass by itself"
    lease.verified(1_102, 1_104)
    assert lease.allows(1_104, is_final=True)


def test_an_answer_counts_from_the_question_and_not_if_it_is_older_than_the_lease() -> None:
    lease = Lease(100, now_ms=1_000)
    lease.awake(1_101)
    lease.verified(1_101, 1_300)
    assert not lease.allows(1_300, is_final=False), "the process was stopped while it asked"
    lease.verified(1_300, 1_310)
    assert lease.allows(1_400, is_final=True)
    assert not lease.allows(1_401, is_final=True)


def test_a_lost_lease_is_never_asked_for_and_never_allows_anything() -> None:
    lease = Lease(100, now_ms=1_000)
    lease.lost()
    lease.verified(1_001, 1_002)
    assert lease.is_lost
    assert not lease.is_due(5_000)
    assert not lease.allows(1_002, is_final=False)
