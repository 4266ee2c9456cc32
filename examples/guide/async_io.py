"""Asks a service about every order, many orders at a time (docs/guide/async-io.md)."""

import asyncio

from tidegate.common import Configuration, Time
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate

NAMES = {1: "Ada", 2: "Grace", 3: "Edsger"}


class Client:
    """Stands for a client of a database or of a web service; it is busy now and then."""

    def __init__(self) -> None:
        self._calls = 0

    async def name_of(self, customer: int) -> str | None:
        self._calls += 1
        is_busy = self._calls % 5 == 0
        await asyncio.sleep(0.01)
        if is_busy:
            raise ConnectionError("busy")
        return NAMES.get(customer)

    async def close(self) -> None:
        await asyncio.sleep(0)


class NameOfCustomer(AsyncFunction):
    async def open(self, runtime_context: RuntimeContext) -> None:
        self.client = Client()

    async def close(self) -> None:
        await self.client.close()

    async def async_invoke(self, order):
        number, customer = order
        name = await self.client.name_of(customer)
        return [(number, name)]

    def timeout(self, order):
        number, _ = order
        return [(number, "unknown")]


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def main() -> None:
    env = environment()
    orders = env.from_collection([(number, number % 3 + 1) for number in range(100)])

    named = AsyncDataStream.ordered_wait_with_retry(
        orders,
        NameOfCustomer(),
        timeout=Time.seconds(5),
        async_retry_strategy=AsyncRetryStrategy.exponential_backoff(
            max_attempts=5,
            initial_delay=10,
            max_retry_delay=1_000,
            multiplier=2.0,
            result_predicate=empty_result_predicate,
            exception_predicate=has_exception_predicate,
        ),
        capacity=50,
    ).uid("name-of-customer")

    for number, name in named.execute_and_collect(limit=4):
        print(f"order {number} is of {name}")


if __name__ == "__main__":
    main()
