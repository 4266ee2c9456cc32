"""Async functions and when their calls are tried again, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from ...common.errors import ConfigurationError
from ...common.types import Row
from ..functions import Function

ResultPredicate = Callable[[Any], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function):
    """Asks something outside for every record, without waiting for one answer before the next question.

    `async_invoke` runs on the event loop of its task; `open` and `close` may be `async def` too, and run
    there then. There is no keyed state in it, as in Flink: put it into a function before or after.
    """

    @abstractmethod
    async def async_invoke(self, value: Any) -> Iterable[Any]:
        """The results of one record, as a list; an empty one for none. An exception fails the task."""

    def timeout(self, value: Any) -> Iterable[Any]:
        """The results of a record whose time is over; its call is cancelled. By default that is an error."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncRetryPredicate(ABC):
    """Which outcomes of a call are worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Takes a result; true asks for another attempt. `None` accepts every result."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Takes an exception; true asks for another attempt. `None` accepts no exception."""


class AsyncRetryStrategy(ABC):
    """How often a call is tried again, and how long to wait before."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow `current_attempts` of them (at least 1)."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Milliseconds to wait after `current_attempts` attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which outcomes are worth another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """One attempt."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """See `FixedDelayRetryStrategy`."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """See `ExponentialBackoffDelayRetryStrategy`."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """Two predicates, either of which may be missing."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """One attempt."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


NO_RETRY_STRATEGY = NoRetryStrategy()


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """So many further attempts, each after the same time.

    Args:
        max_attempts: How many attempts may follow the first.
        backoff_time_millis: Milliseconds before each of them.
        result_predicate: Takes a result; true asks for another attempt.
        exception_predicate: Takes an exception; true asks for another attempt.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _check_positive(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """So many further attempts, each after a longer time than the one before.

    Args:
        max_attempts: How many attempts may follow the first.
        initial_delay: Milliseconds before the second attempt.
        max_retry_delay: The most milliseconds before any attempt.
        multiplier: By how much the time grows from attempt to attempt.
        result_predicate: Takes a result; true asks for another attempt.
        exception_predicate: Takes an exception; true asks for another attempt.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _check_positive(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * float(self._multiplier) ** (current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


def _check_positive(**amounts: float) -> None:
    for name, amount in amounts.items():
        if not amount > 0:
            raise ConfigurationError(f"{name} should be greater than zero, got {amount!r}")


def empty_result_predicate(result: Any) -> bool:
    """Whether a call had no results."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Whether a call raised."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Whether a call raised an exception of this type."""
    return isinstance(error, expected_error_type)


def as_results(results: Any, method: str) -> list[Any]:
    """What an async function returned, as a list.

    Raises:
        TypeError: It is no iterable of results; a string, a row or a mapping is taken for one result.
    """
    if type(results) is list:
        return results
    if results is None:
        raise TypeError(
            f"The result of AsyncFunction cannot be none: {method}() returned None; return a list, "
            f"an empty one for no results"
        )
    if isinstance(results, (str, bytes, dict, Row)) or not isinstance(results, Iterable):
        raise TypeError(
            f"The result of AsyncFunction should be of list type: {method}() returned "
            f"{type(results).__name__}; return a list, also of a single result"
        )
    return list(results)
