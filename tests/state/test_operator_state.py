from __future__ import annotations

import pytest
from tidegate.common.errors import StateError
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import ListStateDescriptor
from tidegate.state.operator_state import OperatorStateBackend

POSITIONS = ListStateDescriptor("positions", Types.TUPLE([Types.LONG(), Types.LONG()]))


def backend() -> OperatorStateBackend:
    return OperatorStateBackend("source", 3)


def test_items_come_back_in_their_mode() -> None:
    before = backend()
    split, union = before.get_list_state(POSITIONS), before.get_union_list_state(ListStateDescriptor("all"))
    split.add((1, 2))
    split.add_all([(3, 4)])
    union.update([{"any": "thing"}])
    handles = before.snapshot()
    split.add((5, 6))
    assert [(handle.state_name, handle.mode, len(handle.items)) for handle in handles] == [
        ("positions", "even-split", 2),
        ("all", "union", 1),
    ]
    after = backend()
    after.restore(handles)
    assert list(after.get_list_state(POSITIONS)) == [(1, 2), (3, 4)]
    assert after.get_union_list_state(ListStateDescriptor("all")).get() == [{"any": "thing"}]


def test_state_that_is_not_declared_again_is_carried_along() -> None:
    before = backend()
    before.get_list_state(POSITIONS).add((1, 2))
    middle = backend()
    middle.restore(before.snapshot())
    after = backend()
    after.restore(middle.snapshot())
    assert after.get_list_state(POSITIONS).get() == [(1, 2)]


def test_what_get_returns_is_not_the_state() -> None:
    state = backend().get_list_state(POSITIONS)
    state.get().append((1, 2))
    assert state.get() == []
    state.add((1, 2))
    state.clear()
    assert state.get() == []


def test_one_name_means_one_mode_and_type() -> None:
    states = backend()
    states.get_list_state(POSITIONS)
    with pytest.raises(StateError, match=r"source.*subtask 3.*'positions'.*even-split"):
        states.get_union_list_state(POSITIONS)
    with pytest.raises(StateError, match="'positions'"):
        states.get_list_state(ListStateDescriptor("positions", Types.STRING()))


def test_a_changed_mode_is_refused_on_restore() -> None:
    before = backend()
    before.get_list_state(POSITIONS).add((1, 2))
    after = backend()
    after.restore(before.snapshot())
    with pytest.raises(StateError, match="stored as even-split list but is now declared union"):
        after.get_union_list_state(POSITIONS)


def test_an_item_of_a_wrong_type_names_operator_and_state() -> None:
    states = backend()
    states.get_list_state(POSITIONS).add("text")
    with pytest.raises(StateError, match=r"source.*'positions'.*TUPLE\(LONG, LONG\)"):
        states.snapshot()
