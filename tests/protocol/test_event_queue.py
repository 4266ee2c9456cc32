"""Whatever events lead to, all commands of one event are performed before the next event is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.event_queue import Cause, Decision, EventQueue, described
from tidegate.protocol.task_events import CheckpointCompleted

Events = list["Events"]
"""An event is the list of the events that its commands lead to."""

events: st.SearchStrategy[Events] = st.recursive(
    st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=20
)


class Taken:
    def __init__(self) -> None:
        self.queue: EventQueue[Events] = EventQueue(self.take)
        self.causes: list[Cause[Events]] = []
        self.is_performing = False
        self.after: list[int] = []

    def take(self, cause: Cause[Events]) -> None:
        assert not self.is_performing, "an event was handled between two commands of another one"
        self.is_performing = True
        self.causes.append(cause)
        for following in cause.event:
            self.queue.put(following)
            self.queue.afterwards(lambda: self.after.append(len(self.causes)))
        self.is_performing = False


@given(st.lists(events, max_size=4))
def test_events_are_taken_one_after_the_other_and_know_their_cause(given_events: list[Events]) -> None:
    taken = Taken()
    for event in given_events:
        earlier = len(taken.after)
        taken.queue.put(event)
        assert set(taken.after[earlier:]) <= {len(taken.causes)}, "an action ran while events waited"
    assert [cause.number for cause in taken.causes] == list(range(1, len(taken.causes) + 1))
    by_number = {cause.number: cause for cause in taken.causes}
    assert [cause.event for cause in taken.causes if not cause.follows] == given_events
    for cause in taken.causes:
        if cause.follows:
            assert any(each is cause.event for each in by_number[cause.follows].event)
    assert len(taken.after) == sum(len(cause.event) for cause in taken.causes)


def test_an_event_that_cannot_be_handled_does_not_hold_up_later_ones() -> None:
    def take(cause: Cause[int]) -> None:
        if cause.event < 0:
            raise ValueError("negative")
        seen.append(cause.event)

    seen: list[int] = []
    queue: EventQueue[int] = EventQueue(take)
    with pytest.raises(ValueError, match="negative"):
        queue.put(-1)
    queue.put(1)
    assert seen == [1]


def test_an_action_that_puts_an_event_is_done_before_the_next_action() -> None:
    order: list[str] = []
    queue: EventQueue[str] = EventQueue(lambda cause: order.append(cause.event))

    def action(name: str) -> Callable[[], None]:
        return lambda: (order.append(name), queue.put(f"event of {name}"))[0]

    queue.afterwards(action("first"))
    queue.afterwards(action("second"))
    assert order == ["first", "event of first", "second", "event of second"]


def test_a_decision_without_commands_names_its_event() -> None:
    assert Decision(Cause(3, CheckpointCompleted(7), follows=2), ()).lines() == [  # type: ignore[arg-type]
        "event 3 CheckpointCompleted(checkpoint 7) after event 2"
    ]
    assert described(object()) == "object()"
