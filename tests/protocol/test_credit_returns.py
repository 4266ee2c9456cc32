"""Small messages do not cost a return of credit each, and a sender never waits forever for credit."""

from __future__ import annotations

import random

from tidegate.protocol.channels.credit_returns import CREDIT_STEPS, HELD_NS, CreditReturns
from tidegate.protocol.ids import ChannelId

CREDIT = 1_000_000
FIRST, SECOND = ChannelId(0, 0, 0), ChannelId(0, 1, 0)
SECOND_NS = 1_000_000_000


def returns_at_rest(returns: CreditReturns, now_ns: int) -> dict[ChannelId, int]:
    """What a task gives back that has nothing else to do."""
    return returns.take_all() if returns.due_in_ns(now_ns) == 0 else {}


def test_two_thousand_small_messages_in_a_second_need_fifty_returns() -> None:
    returns, count, given = CreditReturns(CREDIT), 0, 0
    for now_ns in range(0, SECOND_NS, SECOND_NS // 2_000):
        count += bool(returns.consumed(FIRST, 100, now_ns))
        now = returns_at_rest(returns, now_ns)
        count, given = count + bool(now), given + sum(now.values())
    assert 40 <= count <= 50
    assert given + sum(returns.take_all().values()) == 2_000 * 100


def test_a_quarter_of_the_credit_is_given_back_at_once() -> None:
    returns = CreditReturns(CREDIT)
    assert returns.consumed(FIRST, CREDIT // 8, 0) == 0
    assert returns.consumed(SECOND, CREDIT // 8, 0) == 0
    assert returns.consumed(FIRST, CREDIT // 8, 0) == CREDIT // 4
    assert returns.take_all() == {SECOND: CREDIT // 8}


def test_what_is_held_is_due_20_ms_after_the_first_of_it() -> None:
    returns = CreditReturns(CREDIT)
    assert returns.due_in_ns(0) is None
    returns.consumed(FIRST, 1, 5)
    returns.consumed(SECOND, 1, HELD_NS)
    assert returns.due_in_ns(HELD_NS) == 5
    assert returns.due_in_ns(HELD_NS + 5) == 0
    assert returns.take_all() == {FIRST: 1, SECOND: 1}
    assert returns.due_in_ns(HELD_NS + 5) is None


def test_a_sender_without_credit_gets_some_when_all_was_consumed_without_any_wait() -> None:
    choice = random.Random(7)
    for credit in (1, 3, 4, 10, CREDIT):
        returns, outstanding, sent = CreditReturns(credit), 0, []
        for _ in range(1_000):
            while outstanding < credit:
                sent.append(choice.randrange(1, max(2, credit)))
                outstanding += sent[-1]
            outstanding -= sum(returns.consumed(FIRST, size, 0) for size in sent)
            sent = []
            assert outstanding < max(1, credit // CREDIT_STEPS)
