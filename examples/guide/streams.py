"""From orders to totals: the calls that most programs are made of.

python streams.py
"""

from __future__ import annotations

from tidegate.common import Configuration, Types
from tidegate.datastream import CoMapFunction, StreamExecutionEnvironment

ORDERS = [("Ada", "tea", 3), ("Bob", "tea", 5), ("Ada", "ink", 2), ("Ada", "tea", 1)]
PRICES = [("ink", 7)]


class Label(CoMapFunction):
    def map1(self, value: tuple[str, str, int]) -> str:
        return f"order of {value[0]}"

    def map2(self, value: tuple[str, int]) -> str:
        return f"price of {value[0]}"


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def main() -> None:
    order_type = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()])
    env = environment()
    orders = env.from_collection(ORDERS, order_type).name("Orders").uid("orders")
    totals = (
        orders.filter(lambda order: order[1] == "tea")
        .project(0, 2)
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .sum(1)
        .uid("totals")
    )
    totals.print("tea")
    env.execute("totals")

    env = environment()
    orders, prices = env.from_collection(ORDERS), env.from_collection(PRICES)
    labels = orders.connect(prices).map(Label(), output_type=Types.STRING())
    with labels.execute_and_collect() as results:
        for label in sorted(set(results)):
            print(label)


if __name__ == "__main__":
    main()
