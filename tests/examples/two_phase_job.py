"""A job that writes through the sink of docs/two-phase-sinks.md; a test runs it by `Forks` and kills it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

from tests.forked import serve

GUIDE = Path(__file__).parents[2] / "docs" / "two-phase-sinks.md"
EPOCHS = 6
RECORDS_PER_EPOCH = 40
EXPECTED = [(f"word {number % 7}", number) for number in range(EPOCHS * RECORDS_PER_EPOCH)]


def guide_sink() -> Any:
    """The class that the guide prints."""
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, "two-phase-sinks.md", "exec"), names)
    return names["SqliteSink"]


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
        self.position = splits[0] if splits else len(EXPECTED)
        self.end_of_epoch = self.position + RECORDS_PER_EPOCH

    def poll(self, max_records: int) -> Batch | None:
        if self.position >= len(EXPECTED):
            return None
        stop = min(self.position + 10, self.end_of_epoch)
        records, self.position = EXPECTED[self.position : stop], stop
        return Batch(records)

    def snapshot_state(self) -> list[Any]:
        self.end_of_epoch = self.position + RECORDS_PER_EPOCH
        return [self.position]


def main(database: str, checkpoints: str, parallelism: str, restored: str = "") -> None:
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "parallelism.default": parallelism,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": checkpoints,
        "tidegate.local-dir": f"{checkpoints}-local",
        **({"execution.state-recovery.path": restored} if restored else {}),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    records = env.from_source(Epochs(), WatermarkStrategy.no_watermarks(), "epochs").uid("epochs")
    records.set_parallelism(1).rebalance().sink_to(guide_sink()(database)).name("counts").uid("counts")
    env.execute()


if __name__ == "__main__":
    import tidegate.coordinator.local_executor  # noqa: F401

    serve(main)
