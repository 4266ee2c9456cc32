"""A source that counts, and a function that counts what it has seen; both go on exactly after a failure.

    python counting.py --directory /tmp/counting [--parallelism 2] [--crash]

The positions of the source and the counts are operator state: they belong to subtasks, not to keys.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import CheckpointedFunction, MapFunction
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor

from common import CountingSource, CrashOnce, arguments, environment

SPLITS = 4


class Numbering(MapFunction, CheckpointedFunction):
    """Gives every record of a split its place in the order of arrival, from 1."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        counts = ListStateDescriptor("counts", Types.TUPLE([Types.LONG(), Types.LONG()]))
        # One item per split: with another parallelism the items are dealt out anew, as the splits are.
        self.state = context.get_operator_state_store().get_list_state(counts)
        self.counts = Counter(dict(self.state))

    def map(self, value: Any) -> Any:
        split, number = value
        self.counts[split] += 1
        return split, number, self.counts[split]

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(list(self.counts.items()))


def main() -> None:
    options = arguments()
    env = environment(options.directory).set_parallelism(options.parallelism)
    source = CountingSource(options.count, SPLITS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    # The chain keeps the records of a split in the subtask that reads it.
    numbered = numbers.map(Numbering()).uid("numbering").map(CrashOnce(options.crash)).uid("crash")
    results = list(numbered.execute_and_collect("counting"))
    expected = {(split, number, number + 1) for split in range(SPLITS) for number in range(options.count)}
    assert len(results) == len(expected), "a record came twice, or never"
    assert set(results) == expected, "a count is wrong"
    print(f"{len(results)} records of {SPLITS} splits, numbered exactly once")


if __name__ == "__main__":
    main()
