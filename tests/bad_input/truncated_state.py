"""A job whose LMDB file is truncated while it runs: run by a test in a process of its own.

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
from tidegate.coordinator.statistics import CheckpointOutcome
from tidegate.datastream import StreamExecutionEnvironment

from tests.bad_input.full_disk import KEYS, CountWithWeight, UntilTold, wait_for


def main(directory: Path) -> dict[str, Any]:
    configuration = Configuration()
    for name, value in {
        "execution.target": "local",
        "state.backend.type": "lmdb",
        "tidegate.state.lmdb.memory": "64 kb",
        "tidegate.local-dir": str(directory / "local"),
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "30 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = env.from_source(UntilTold(directory / "stop"), WatermarkStrategy.no_watermarks(), "numbers")
    counted = source.key_by(lambda n: n % KEYS).process(CountWithWeight()).name("count")
    counted.sink_to(CollectSink(is_checkpointing=True))
    client = env.execute_async()
    wait_for(client, CheckpointOutcome.COMPLETED)
    data: list[Path] = []
    while not data:
        # With the first spill the state is in the file.
        data = [path for path in (directory / "local").glob("**/data.mdb") if path.stat().st_size > 20_000]
        assert not client.wait(0.01).is_terminal_state()
    os.truncate(data[0], 0)
    while not client.report().restarts:
        assert not client.wait(0.01).is_terminal_state(), client.report().cause
    failures = [failure.cause for failure in client.details().exceptions]
    newest = max(one.checkpoint_id for one in client.report().statistics.checkpoints)
    wait_for(client, CheckpointOutcome.COMPLETED, after=newest)
    (directory / "stop").touch()
    results = list(client.collected())
    exact = Counter((n % KEYS, n // KEYS + 1) for n in range(len(results)))
    return {"file": str(data[0]), "failures": failures, "is_exact": Counter(results) == exact}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
