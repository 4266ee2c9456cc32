"""Calling the user's window function, whichever of the four kinds it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from ..functions import Function
from ..window_functions import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)

Results = Iterable[Any] | None


class WindowCall(ABC):
    """A window function and how it is called.

    Attributes:
        function: The user's.
        method: Its method that turns a window into results.
        needs_clear: Whether it wants to know that a window is over.
        passes_through: Whether it gives what it gets.
    """

    method: str
    needs_clear = False
    passes_through = False

    def __init__(self, function: Any) -> None:
        self.function = function

    def bind(self, call: Callable[..., Results], context: Any) -> None:
        """Take the bound method and the context to call it with; before the first window."""
        self._call = call
        self._context = context

    @abstractmethod
    def results(self, key: Any, window: Any, elements: list[Any]) -> Results:
        """Call the function for a window that fires."""

    def clear(self, window: Any) -> None:
        """Tell the function that a window is over; only if `needs_clear`."""


class ApplyCall(WindowCall):
    """A `WindowFunction`, or a callable of key, window and records."""

    method = "apply"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.passes_through = type(function) is PassThroughWindowFunction

    def results(self, key: Any, window: Any, elements: list[Any]) -> Results:
        return self._call(key, window, elements)


class ApplyAllCall(WindowCall):
    """An `AllWindowFunction`, or a callable of window and records."""

    method = "apply"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.passes_through = type(function) is PassThroughAllWindowFunction

    def results(self, key: Any, window: Any, elements: list[Any]) -> Results:
        return self._call(window, elements)


class ProcessCall(WindowCall):
    """A `ProcessWindowFunction`, or a callable of key, context and records."""

    method = "process"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        base = ProcessWindowFunction.clear
        self.needs_clear = getattr(type(function), "clear", base) is not base

    def results(self, key: Any, window: Any, elements: list[Any]) -> Results:
        self._context.of = window
        return self._call(key, self._context, elements)

    def clear(self, window: Any) -> None:
        self._context.of = window
        self.function.clear(self._context)


class ProcessAllCall(ProcessCall):
    """A `ProcessAllWindowFunction`, or a callable of context and records."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        base = ProcessAllWindowFunction.clear
        self.needs_clear = getattr(type(function), "clear", base) is not base

    def results(self, key: Any, window: Any, elements: list[Any]) -> Results:
        self._context.of = window
        return self._call(self._context, elements)


def window_call(function: Any, is_keyed: bool, is_process: bool) -> WindowCall:
    """How to call a function that was given to `apply` or `process`."""
    if is_process:
        return ProcessCall(function) if is_keyed else ProcessAllCall(function)
    return ApplyCall(function) if is_keyed else ApplyAllCall(function)


def call_after_folding(function: Any, is_keyed: bool) -> WindowCall:
    """How to call the function that was given beside a reduce or aggregate function, if there was one."""
    if function is None:
        function = PassThroughWindowFunction() if is_keyed else PassThroughAllWindowFunction()
    if isinstance(function, (ProcessWindowFunction, ProcessAllWindowFunction)):
        return window_call(function, is_keyed, is_process=True)
    is_process = not isinstance(function, AllWindowFunction) and callable(getattr(function, "process", None))
    return window_call(function, is_keyed, is_process)


def life_cycle_of(function: Any) -> Function | None:
    """The function itself if it has `open` and `close`."""
    return function if isinstance(function, Function) else None
