"""When an async call is tried again, and after how long."""

from __future__ import annotations

from functools import partial

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from tidegate.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)
from tidegate.datastream.functions import AsyncRetryStrategy


def test_without_a_strategy_there_is_one_attempt() -> None:
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY
    assert not NO_RETRY_STRATEGY.can_retry(1)


def test_a_fixed_delay_allows_so_many_attempts_after_the_first() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, has_exception_predicate)
    assert isinstance(strategy, FixedDelayRetryStrategy)
    assert [strategy.can_retry(attempts) for attempts in (1, 3, 4)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2)] == [100, 100]
    assert strategy.get_retry_predicate().result_predicate() is None
    assert strategy.get_retry_predicate().exception_predicate() is has_exception_predicate


def test_an_exponential_delay_grows_up_to_its_bound_for_each_record_alike() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(9, 100, 1_000, 2.0, empty_result_predicate, None)
    assert isinstance(strategy, ExponentialBackoffDelayRetryStrategy)
    delays = [100, 200, 400, 800, 1_000, 1_000]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in range(1, 7)] == delays
    # Another record starts from the beginning, whatever came in between.
    assert strategy.get_backoff_time_millis(2) == 200
    assert strategy.get_backoff_time_millis(1_000_000) == 1_000


def test_predicates_tell_outcomes_apart() -> None:
    assert empty_result_predicate([])
    assert empty_result_predicate(None)
    assert not empty_result_predicate([0])
    assert has_exception_predicate(ValueError())
    assert not has_exception_predicate(None)
    is_value_error = partial(exception_type_predicate, expected_error_type=ValueError)
    assert is_value_error(ValueError())
    assert not is_value_error(KeyError())


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts_that_mean_nothing_are_refused(amount: int) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts should be greater than zero"):
        AsyncRetryStrategy.fixed_delay(amount, 100, None, None)
    with pytest.raises(ConfigurationError, match="backoff_time_millis should be greater than zero"):
        AsyncRetryStrategy.fixed_delay(1, amount, None, None)
    with pytest.raises(ConfigurationError, match="multiplier should be greater than zero"):
        AsyncRetryStrategy.exponential_backoff(1, 1, 1, amount, None, None)
