"""Limits that change while the job runs, beside the orders they apply to.

python broadcast_state.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, Types
from tidegate.datastream import (
    KeyedBroadcastProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class OverTheLimit(KeyedBroadcastProcessFunction):
    """Adds up orders per customer, and at the end names those over the limit of their country."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        self.total.update((self.total.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(1)
        return None

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        country, limit = value
        ctx.get_broadcast_state(LIMITS).put(country, limit)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any]:
        customer, country = ctx.get_current_key()
        limit, total = ctx.get_broadcast_state(LIMITS).get(country), self.total.value() or 0
        if limit is not None and total > limit:
            yield f"{customer} ordered {total}, the limit is {limit}"


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    limits = env.from_collection([("UK", 10), ("FR", 5)]).broadcast(LIMITS)
    orders = env.from_collection([("Ada", "UK", 8), ("Bob", "FR", 4), ("Ada", "UK", 7)])
    keyed = orders.key_by(lambda order: (order[0], order[1]))
    warnings = keyed.connect(limits).process(OverTheLimit(), output_type=Types.STRING()).uid("limits")
    with warnings.execute_and_collect() as results:
        print(*results)


if __name__ == "__main__":
    main()
