"""Asks services outside for every record of a stream (PyFlink's `AsyncDataStream`)."""

from __future__ import annotations

from typing import Any

from ..common.errors import ConfigurationError
from ..common.time import Duration, Time
from ..common.typeinfo import TypeInformation
from ..operators.async_io.async_function import NO_RETRY_STRATEGY, AsyncRetryStrategy
from ..operators.async_io.async_wait import AsyncWaitOperator
from .data_stream import DataStream


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream.

    All four methods take:

    * `data_stream`: the input, keyed or not; the function has no keyed state.
    * `async_function`: an `AsyncFunction`, or an `async def` function of one argument.
    * `timeout`: how long a record may take with all its attempts; 0 for any time.
    * `capacity`: how many calls may be under way in one subtask.
    * `output_type`: type of the results.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: Any,
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results leave as they come; none passes a watermark."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Any,
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `unordered_wait`; a call may be tried again, as `async_retry_strategy` says."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: Any,
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results leave in the order of their records; a slow one holds up those behind it."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Any,
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `ordered_wait`; a call may be tried again, as `async_retry_strategy` says."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, True)


def _wait(
    data_stream: DataStream,
    async_function: Any,
    timeout: Time | Duration,
    retry: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    is_ordered: bool,
) -> DataStream:
    if isinstance(timeout, Duration):
        timeout_ms = timeout.to_millis()
    elif isinstance(timeout, Time):
        timeout_ms = timeout.to_milliseconds()
    else:
        raise ConfigurationError(f"the timeout is {timeout!r}; give a Time or a Duration, as Time.seconds(5)")
    operator = AsyncWaitOperator(async_function, timeout_ms, capacity, is_ordered, retry)
    return data_stream.transform("async wait operator", operator, output_type)
