"""Numbered mail arrives in any order, perhaps twice, and leaves in order, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.channels.mail_order import MailOrder


@given(st.permutations(range(6)), st.lists(st.integers(min_value=0, max_value=5)))
def test_mail_leaves_in_order_once(arrivals: list[int], repeated: list[int]) -> None:
    order: MailOrder[str] = MailOrder()
    released: list[str] = []
    for number in [*arrivals, *repeated]:
        released += order.accept(number, str(number))
    assert released == [str(number) for number in range(6)]


@given(st.lists(st.integers(min_value=0, max_value=5), max_size=30))
def test_it_has_what_it_accepted_and_what_passes_is_the_next_when_nothing_waits(arrivals: list[int]) -> None:
    order: MailOrder[str] = MailOrder()
    accepted: set[int] = set()
    for number in arrivals:
        assert order.has(number) is (number in accepted)
        is_next = accepted == set(range(number))
        if order.passes(number):
            assert is_next
        else:
            assert not is_next
            order.accept(number, str(number))
        accepted.add(number)
        assert not order.passes(number), "released twice"


def test_nothing_overtakes_a_gap() -> None:
    order: MailOrder[str] = MailOrder()
    assert order.accept(1, "b") == []
    assert order.accept(0, "a") == ["a", "b"]
