"""`map_with_state` and its kin: what the function gets, what becomes of the state it returns."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import UserCodeError
from tidegate.common.typeinfo import Types
from tidegate.operators.keyed.keyed_with_state import KeyedWithStateOperator

from .harness import OperatorUnderTest


def first(value: Any) -> Any:
    return value[0]


def running_sum(value: tuple[str, int], total: int | None) -> tuple[Any, int | None]:
    total = (total or 0) + value[1]
    return (value[0], total), total


def pairs_of(value: tuple[str, int], waiting: int | None) -> tuple[Any, int | None]:
    """Every second record of a key completes a pair, which clears the state."""
    if waiting is None:
        return None, value[1]
    return [(value[0], waiting), (value[0], value[1])], None


def is_new(value: tuple[str, int], seen: bool | None) -> tuple[bool, bool]:
    return seen is None, True


def under_test(function: Any, method: str, state_type: Any = None, restored: Any = None) -> Any:
    operator = KeyedWithStateOperator(function, method, first, Types.STRING(), state_type)
    return OperatorUnderTest(operator, restored, parallelism=1).open()


@pytest.mark.parametrize("state_type", [None, Types.LONG()])
def test_map_hands_the_state_of_the_key_in_and_keeps_what_comes_out(state_type: Any) -> None:
    test = under_test(running_sum, "map_with_state", state_type)
    assert test.process([("a", 1), ("b", 10), ("a", 2)]) == [("a", 1), ("b", 10), ("a", 3)]
    again = under_test(running_sum, "map_with_state", state_type, test.checkpoint(1))
    assert again.process([("a", 3), ("b", 1)]) == [("a", 6), ("b", 11)]


def test_flat_map_gives_any_number_and_a_state_of_none_clears() -> None:
    test = under_test(pairs_of, "flat_map_with_state", Types.LONG())
    test.process([("a", 1), ("a", 2), ("b", 3), ("a", 4)], timestamps=[10, 20, 30, 40])
    assert test.records() == [(("a", 1), 20), (("a", 2), 20)]
    again = under_test(pairs_of, "flat_map_with_state", Types.LONG(), test.checkpoint(1))
    assert again.process([("b", 5), ("c", 6)]) == [("b", 3), ("b", 5)]


def test_filter_keeps_records_with_their_timestamps() -> None:
    test = under_test(is_new, "filter_with_state")
    test.process([("a", 1), ("a", 2), ("b", 3)], timestamps=[10, 20, 30])
    assert test.records() == [(("a", 1), 10), (("b", 3), 30)]
    assert test.process([("a", 1), ("b", 2)]) == []
    assert test.process([("c", 1), ("c", 2)]) == [("c", 1)]


class Opened:
    """An object with the method instead of a function."""

    def map_with_state(self, value: Any, state: Any) -> Any:
        return value, state


def test_an_object_with_the_method_will_do() -> None:
    assert under_test(Opened(), "map_with_state").process([("a", 1)]) == [("a", 1)]


def no_pair(value: Any, state: Any) -> Any:
    return value[1]


def test_a_result_that_is_no_pair_names_the_operator_and_the_record() -> None:
    test = under_test(no_pair, "map_with_state")
    with pytest.raises(UserCodeError, match=r"Totals.*map_with_state\(\).*\(result, state\).*\('a', 1\)"):
        test.process([("a", 1)])
