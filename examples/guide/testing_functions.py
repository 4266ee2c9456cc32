"""Tests of a job's own functions (docs/guide/testing.md): `python -m pytest testing_functions.py`."""

import asyncio

import pytest
from tidegate.common import Time, Types
from tidegate.common.errors import UserCodeError
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    LmdbStateBackend,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.testing import KeyedOneInputHarness, OneInputHarness, verify_exactly_once


class Balance(KeyedProcessFunction):
    """Adds up payments by account."""

    def open(self, runtime_context):
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element(self, payment, ctx):
        account, amount = payment
        balance = (self.balance.value() or 0) + amount
        if balance < 0:
            raise ValueError("overdrawn")
        self.balance.update(balance)
        yield account, balance


def account_of(payment):
    return payment[0]


def balances(**options):
    return KeyedOneInputHarness(Balance(), account_of, Types.STRING(), **options)


def test_a_balance_is_the_sum_of_its_payments():
    with balances() as harness:
        harness.process_element(("ada", 5))
        harness.process_element(("bob", 3))
        harness.process_element(("ada", 2))
        assert harness.output() == [("ada", 5), ("bob", 3), ("ada", 7)]
        assert harness.get_state("balance", "ada") == 7


def test_an_account_cannot_be_overdrawn():
    with balances() as harness, pytest.raises(UserCodeError, match="overdrawn"):
        harness.process_element(("ada", -1))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_balance_survives_a_restart_with_another_parallelism(parallelism):
    with balances(parallelism=2, state_backend=LmdbStateBackend()) as harness:
        harness.process_elements([("ada", 5), ("bob", 3)])
        stored = harness.snapshot()
        harness.process_element(("ada", 100))

    with balances(parallelism=parallelism, restored=stored) as harness:
        harness.process_element(("ada", 2))
        assert harness.output() == [("ada", 7)]


class Slow(AsyncFunction):
    async def async_invoke(self, seconds):
        await asyncio.sleep(seconds)
        return [f"after {seconds} s"]

    def timeout(self, seconds):
        return [f"gave up on {seconds} s"]


def test_time_passes_when_the_test_says_so():
    def ask(stream):
        return AsyncDataStream.unordered_wait(stream, Slow(), Time.minutes(5))

    with OneInputHarness(ask) as harness:
        harness.process_elements([60, 3_600, 30])
        harness.advance_processing_time(60_000)
        assert harness.take_output() == ["after 30 s", "after 60 s"]
        harness.advance_processing_time(240_000)
        assert harness.take_output() == ["gave up on 3600 s"]


def job(env: StreamExecutionEnvironment):
    payments = env.from_collection([(f"account {number % 4}", number) for number in range(80)])
    return payments.key_by(account_of, Types.STRING()).process(Balance()).uid("balance").set_parallelism(2)


def test_no_crash_loses_or_doubles_a_payment():
    report = verify_exactly_once(job, crashes=2, seeds=5)
    assert report.crashes > 0


def test_a_whole_job(tidegate_env):
    assert len(list(job(tidegate_env).execute_and_collect())) == 80
