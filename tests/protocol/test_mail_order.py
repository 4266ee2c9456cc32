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


def test_nothing_overtakes_a_gap() -> None:
    order: MailOrder[str] = MailOrder()
    assert order.accept(1, "b") == []
    assert order.accept(0, "a") == ["a", "b"]
