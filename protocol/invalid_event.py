"""The error of a state machine that got an event which cannot happen in its state."""

from __future__ import annotations

from ..common.errors import TidegateError


class InvalidEvent(TidegateError):
    """An event that cannot happen in the current state of a state machine: a bug in its caller.

    The machine has changed nothing. Late and repeated messages of tasks are no bugs; they are ignored.
    """
