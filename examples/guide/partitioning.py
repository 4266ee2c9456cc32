"""How records get to subtasks: every record with the subtask that saw it.

python partitioning.py
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.common import Configuration
from tidegate.datastream import (
    DataStream,
    MapFunction,
    Partitioner,
    RuntimeContext,
    StreamExecutionEnvironment,
)


class Where(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: int) -> tuple[int, int]:
        return value, self.index


class LargeToLast(Partitioner):
    """Large orders have a subtask of their own."""

    def partition(self, key: int, num_partitions: int) -> int:
        return num_partitions - 1 if key >= 100 else key % (num_partitions - 1)


SPREAD: dict[str, Callable[[DataStream], DataStream]] = {
    "rebalance": lambda stream: stream.rebalance(),
    "broadcast": lambda stream: stream.broadcast(),
    "global_": lambda stream: stream.global_(),
    "custom": lambda stream: stream.partition_custom(LargeToLast(), lambda value: value),
}


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    for name, spread in SPREAD.items():
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(3)
        placed = spread(env.from_collection([1, 2, 300])).map(Where())
        with placed.execute_and_collect() as results:
            print(name, *sorted(results))


if __name__ == "__main__":
    main()
