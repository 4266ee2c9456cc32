"""A job whose LMDB file is truncated between two batches: run by a test in a process of its own.

    python truncated_state.py DIRECTORY

Prints what happened as JSON. Without care the process ends by SIGBUS.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.connectors.collect import CollectSink
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

from tests.bad_input.full_disk import KEYS, CountWithWeight


class Numbers(Source):
    """Counts upwards, not while there is a file `hold`, and until there is a file `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _NumbersReader(Path(self._directory), splits[0])

    def max_source_parallelism(self) -> int:
        return 1


class _NumbersReader(SourceReader):
    def __init__(self, directory: Path, position: int) -> None:
        self._directory, self._position = directory, position

    def poll(self, max_records: int) -> Batch | None:
        if (self._directory / "stop").exists():
            return None
        if (self._directory / "hold").exists():
            return Batch([])
        self._position += 10
        return Batch(list(range(self._position - 10, self._position)))

    def snapshot_state(self) -> list[Any]:
        return [self._position]


def main(directory: Path) -> dict[str, Any]:
    configuration = Configuration()
    for name, value in {
        "execution.target": "local",
        "state.backend.type": "lmdb",
        "tidegate.state.lmdb.memory": "64 kb",
        "tidegate.local-dir": str(directory / "local"),
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "1 h",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = env.from_source(Numbers(directory), WatermarkStrategy.no_watermarks(), "numbers")
    counted = source.key_by(lambda n: n % KEYS).process(CountWithWeight()).name("count")
    counted.sink_to(CollectSink(is_checkpointing=True))
    client = env.execute_async()
    data: list[Path] = []
    while not data:
        # With the first spill the state is in the file.
        data = [path for path in (directory / "local").glob("**/data.mdb") if path.stat().st_size > 20_000]
        assert not client.wait(0.01).is_terminal_state(), client.report().cause
    (directory / "hold").touch()
    for _ in range(3):
        # The second waits until LMDB has what the first stored, and the third has nothing to store.
        client.trigger_checkpoint()
    os.truncate(data[0], 0)
    (directory / "hold").unlink()
    while not client.report().restarts:
        assert not client.wait(0.01).is_terminal_state(), client.report().cause
    failures = [failure.cause for failure in client.details().exceptions]
    (directory / "stop").touch()
    results = list(client.collected())
    exact = Counter((n % KEYS, n // KEYS + 1) for n in range(len(results)))
    return {
        "file": str(data[0]),
        "failures": failures,
        "is_exact": bool(results) and Counter(results) == exact,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
