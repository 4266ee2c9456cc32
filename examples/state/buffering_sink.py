"""A sink that writes in batches, and keeps what is not yet written in operator state.

    python buffering_sink.py --directory /tmp/buffering [--crash]

The buffer is part of every checkpoint, so nothing that the sink has accepted is lost. The batches are
numbered, and the number is state too: after a failure the same records come again, fill the same batches,
and replace the same files. So every number stands in the output exactly once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import CheckpointedFunction, SinkFunction
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor

from common import CountingSource, CrashOnce, arguments, environment


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Writes one file per `batch_size` numbers.

    Args:
        directory: Where the files go.
        batch_size: How many numbers a file has.
    """

    def __init__(self, directory: Path, batch_size: int) -> None:
        self.directory = directory
        self.batch_size = batch_size

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.buffered = store.get_list_state(ListStateDescriptor("buffered", Types.LONG()))
        self.written = store.get_list_state(ListStateDescriptor("batches written", Types.LONG()))
        self.buffer: list[int] = self.buffered.get()
        self.batches: int = sum(self.written)

    def invoke(self, value: Any) -> None:
        self.buffer.append(value[1])
        if len(self.buffer) == self.batch_size:
            self.flush()

    def flush(self) -> None:
        (self.directory / f"batch-{self.batches:05}.json").write_text(json.dumps(self.buffer), "utf-8")
        self.batches += 1
        self.buffer = []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.buffered.update(self.buffer)
        self.written.update([self.batches])

    def close(self) -> None:
        """What is left at the end fills no batch; after a failure it would be written again, alike."""
        if self.buffer:
            self.flush()


def main() -> None:
    options = arguments()
    output = options.directory / "output"
    output.mkdir(parents=True, exist_ok=True)
    env = environment(options.directory)
    numbers = env.from_source(
        CountingSource(options.count), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    sink = BufferingSink(output, batch_size=70)
    numbers.map(CrashOnce(options.crash)).uid("crash").add_sink(sink).uid("buffering sink")
    restarts = env.execute("buffering sink").report.restarts
    written = [number for file in sorted(output.iterdir()) for number in json.loads(file.read_text("utf-8"))]
    assert written == list(range(options.count)), "a number is missing, or stands there twice"
    print(f"{len(written)} numbers in {len(list(output.iterdir()))} batches, {restarts} restarts")


if __name__ == "__main__":
    main()
