"""A job whose disk gets full: run by a test in a process of its own, since it mounts or limits itself.

    python full_disk.py DIRECTORY checkpoints|local TOLERABLE MEMORY ABORTED|COMPLETED

The disk is full from the first complete checkpoint until one that was triggered later had this outcome.
Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.connectors.collect import CollectSink
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.datastream import KeyedProcessFunction, Source, SourceReader, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch
from tidegate.state.storage.checkpoint_storage import open_storage
from tidegate.state.storage.stored_checkpoint import read_checkpoint

KEYS = 100
DISK_BYTES = 16 << 20


class SmallDisk:
    """A tmpfs of a few megabytes; where none can be mounted, a limit on the size of files."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
        self.is_mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        self._ballast = path / "ballast"

    def fill(self) -> None:
        if not self.is_mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        with open(self._ballast, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        if self.is_mounted:
            self._ballast.unlink()
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class UntilTold(Source):
    """Counts upwards until a file appears."""

    def __init__(self, stop: Path) -> None:
        self._stop = str(stop)

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _UntilToldReader(self._stop, splits[0])

    def max_source_parallelism(self) -> int:
        return 1


class _UntilToldReader(SourceReader):
    def __init__(self, stop: str, position: int) -> None:
        self._stop, self._position, self._is_turn = stop, position, False

    def poll(self, max_records: int) -> Batch | None:
        if os.path.exists(self._stop):
            return None
        self._is_turn = not self._is_turn
        if not self._is_turn:
            return Batch([])
        self._position += 10
        return Batch(list(range(self._position - 10, self._position)))

    def snapshot_state(self) -> list[Any]:
        return [self._position]


class CountWithWeight(KeyedProcessFunction):
    """Counts per key, and keeps a kilobyte that does not compress, and more with each count.

    State that stays as large as it is needs no more room on a full disk: LMDB writes to pages that are free.
    On a busy machine the disk got full only when the file had such pages, and then nothing ever failed.
    """

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.state.value() or (0, b""))[0] + 1
        self.state.update((count, os.urandom(1_000 + 50 * count)))
        yield ctx.get_current_key(), count


def start(directory: Path, disk: str, tolerable: str, memory: str) -> JobClient:
    configuration = Configuration()
    for name, value in {
        "execution.target": "local",
        # With state in memory only checkpoints are written, so that the limit hits what it is to hit.
        "state.backend.type": "lmdb" if disk == "local" else "hashmap",
        "tidegate.state.lmdb.memory": memory,
        "tidegate.local-dir": str(directory / "local"),
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "30 ms",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.tolerable-failed-checkpoints": tolerable,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "none",
    }.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = env.from_source(UntilTold(directory / "stop"), WatermarkStrategy.no_watermarks(), "numbers").uid(
        "numbers"
    )
    counted = source.key_by(lambda n: n % KEYS).process(CountWithWeight()).name("count").uid("count")
    counted.sink_to(CollectSink(is_checkpointing=True)).uid("collect")
    return env.execute_async()


def wait_for(client: JobClient, outcome: CheckpointOutcome, after: int = 0) -> Any:
    """The first checkpoint with this outcome and an id beyond `after`; None if the job ends without one."""
    while True:
        checkpoints = client.report().statistics.checkpoints
        found = [one for one in checkpoints if one.outcome is outcome and one.checkpoint_id > after]
        if found or client.wait(0.01).is_globally_terminal_state():
            return found[0] if found else None


def is_whole(address: str) -> bool:
    storage = open_storage(address)
    return all(storage.read_file(handle) for handle in read_checkpoint(address).files())


def main(directory: Path, which: str, tolerable: str, memory: str, until: str) -> dict[str, Any]:
    disk = SmallDisk(directory / which)
    client = start(directory, which, tolerable, memory)
    wait_for(client, CheckpointOutcome.COMPLETED)
    disk.fill()
    # One that was under way has its snapshots and may lack but the manifest.
    under_way = max(one.checkpoint_id for one in client.report().statistics.checkpoints)
    later = wait_for(client, CheckpointOutcome[until], after=under_way)
    newest = client.report().newest_checkpoint
    readable = newest is not None and is_whole(newest)
    disk.free()
    (directory / "stop").touch()
    error, results = "", []
    try:
        results = list(client.collected())
    except JobExecutionError as failure:
        error = str(failure).partition("\n\n")[0]
    exact = Counter((n % KEYS, n // KEYS + 1) for n in range(len(results)))
    return {
        "is_mounted": disk.is_mounted,
        "reason": later.reason if later else "",
        "error": error,
        "newest_is_whole": readable,
        "is_exact": bool(results) and Counter(results) == exact,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *sys.argv[2:])))
