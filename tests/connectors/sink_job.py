"""A job that writes numbers through an exactly-once sink; run by a test that kills it."""

from __future__ import annotations

from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

from tests.forked import serve

RECORDS = 240
RECORDS_PER_EPOCH = 40


class Epochs(Source):
    """So many records between two barriers, and the end after the last: every epoch has some."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _EpochReader(splits)

    def max_source_parallelism(self) -> int:
        return 1


class _EpochReader(SourceReader):
    def __init__(self, splits: list[Any]) -> None:
        self.position = splits[0] if splits else RECORDS
        self.end_of_epoch = self.position + RECORDS_PER_EPOCH

    def poll(self, max_records: int) -> Batch | None:
        if self.position >= RECORDS:
            return None
        stop = min(self.position + 10, self.end_of_epoch)
        records = [(number, f"text {number}") for number in range(self.position, stop)]
        self.position = stop
        return Batch(records)

    def snapshot_state(self) -> list[Any]:
        self.end_of_epoch = self.position + RECORDS_PER_EPOCH
        return [self.position]


def sink_of(kind: str, target: str) -> Any:
    """The sink to test; `target` is a connection string, a directory or a URI."""
    if kind == "postgres":
        from tidegate.datastream.connectors.postgres import PostgresSink

        return PostgresSink(target, "numbers", transaction_prefix="sink job")
    import pyarrow as pa
    from tidegate.datastream.connectors.file_system import BucketAssigner, FileSink

    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    by_remainder = BucketAssigner.of(lambda record: f"remainder={record[0] % 2}")
    return FileSink(target, schema, bucket_assigner=by_remainder)


def main(kind: str, target: str, checkpoints: str, restored: str = "") -> None:
    """Run the job, from the start or from a checkpoint."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "parallelism.default": "2",
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": checkpoints,
        "tidegate.local-dir": f"{checkpoints}-local",
        **({"execution.state-recovery.path": restored} if restored else {}),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    records = env.from_source(Epochs(), WatermarkStrategy.no_watermarks(), "epochs").uid("epochs")
    records.set_parallelism(1).rebalance().sink_to(sink_of(kind, target)).name("numbers").uid("sink")
    env.execute()


if __name__ == "__main__":
    import tidegate.coordinator.local_executor
    import tidegate.datastream.connectors.file_system
    import tidegate.datastream.connectors.postgres  # noqa: F401

    serve(main)
