"""A life cycle is a table: what it lists may happen, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from .invalid_event import InvalidEvent

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class InvalidTransition(InvalidEvent):
    """An event that must not happen in this state."""

    def __init__(self, name: str, state: Enum, event: Enum) -> None:
        super().__init__(f"{name} in status {state.name} cannot take the event {event.value!r}")
        self.state = state
        self.event = event


def next_state(name: str, table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """The state after an event.

    Args:
        name: What lives, for errors, such as `job`.
        table: The next state by state and event.
        state: The current state.
        event: What happened.

    Raises:
        InvalidTransition: The table does not list it.
    """
    try:
        return table[state, event]
    except KeyError:
        raise InvalidTransition(name, state, event) from None


class LifeCycle(Generic[S, E]):
    """Holds the state of one thing and allows only what its table lists.

    Args:
        name: What lives, for errors, such as `job`.
        table: The next state by state and event. An event that is not in it is a bug in the caller.
        state: The first state.
    """

    def __init__(self, name: str, table: Mapping[tuple[S, E], S], state: S) -> None:
        self._name = name
        self._table = table
        self.state = state

    def allows(self, event: E) -> bool:
        """Whether `event` may happen now."""
        return (self.state, event) in self._table

    def handle(self, event: E) -> S:
        """Take one event.

        Returns:
            The new state.

        Raises:
            InvalidTransition: The table does not list it.
        """
        self.state = next_state(self._name, self._table, self.state, event)
        return self.state
