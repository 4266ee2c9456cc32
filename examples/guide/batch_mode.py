"""One program as a stream and as a batch, and a cached stream that two batch jobs share.

python batch_mode.py
"""

from __future__ import annotations

from tidegate.common import Configuration
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

WORDS = ["to", "be", "or", "not", "to", "be"]


def environment(mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_runtime_mode(mode)


def main() -> None:
    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        pairs = environment(mode).from_collection(WORDS).map(lambda word: (word, 1))
        counts = pairs.key_by(lambda pair: pair[0]).sum(1)
        with counts.execute_and_collect() as results:
            print(mode.name, *sorted(results))

    env = environment(RuntimeExecutionMode.BATCH)
    lengths = env.from_collection(WORDS).map(len).cache()
    longest = lengths.key_by(lambda length: 0).max().execute_and_collect(limit=1)
    total = lengths.key_by(lambda length: 0).sum().execute_and_collect(limit=1)
    print("longest", *longest, "total", *total)
    env.close()


if __name__ == "__main__":
    main()
