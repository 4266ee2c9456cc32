"""Parquet files counted by a job, beside pyarrow's scanner; and written, beside pyarrow's writer."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import Sink, SinkWriter, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink, FileSource
from tidegate.protocol.elements import Batch

from ..parts import compare

FILES = 4


class Count(Sink):
    """Counts rows."""

    rows = 0

    def create_writer(self) -> SinkWriter:
        return _Counting()


class _Counting(SinkWriter):
    def write_batch(self, values: list[Any]) -> None:
        Count.rows += len(values)

    def write_elements(self, batch: Batch) -> None:
        Count.rows += len(batch)


def environment(directory: str) -> StreamExecutionEnvironment:
    """One task per operator in the local shell, with a checkpoint each second below a directory."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "tidegate.local-dir": f"{directory}/local",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.interval": "1 s",
    }.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


def make(directory: Path, rows: int) -> None:
    random = np.random.default_rng(1)
    for number in range(FILES):
        table = pa.table(
            {
                "id": np.arange(rows // FILES) + number,
                "price": random.normal(100, 20, rows // FILES),
                "shop": pa.array(random.integers(0, 1_000, rows // FILES)).cast(pa.string()),
            }
        )
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=500_000)


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "in")
        directory.mkdir()
        make(directory, rows)

        def job() -> None:
            Count.rows = 0
            env = environment(scratch)
            source = FileSource(directory, as_columns=True)
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
            stream.sink_to(Count()).uid("count")
            env.execute()
            assert Count.rows == rows

        def scanner() -> None:
            assert sum(batch.num_rows for batch in ds.dataset(directory).scanner().to_batches()) == rows

        compare("Parquet to count, one task", "pyarrow's scanner", rows, job, scanner, 0.8)

        table = ds.dataset(directory).to_table().combine_chunks()
        number = 0

        def write_job() -> None:
            nonlocal number
            number += 1
            env = environment(scratch)
            stream = env.from_arrow(table).uid("rows")
            stream.sink_to(FileSink(Path(scratch, f"out-{number}"), table.schema)).uid("files")
            env.execute()

        def writer() -> None:
            with pq.ParquetWriter(Path(scratch, "bare"), table.schema) as bare:
                for batch in table.to_batches(65_536):
                    bare.write_batch(batch, row_group_size=500_000)

        compare("Arrow to Parquet, exactly once", "a bare ParquetWriter", rows, write_job, writer)


if __name__ == "__main__":
    main(1_000_000 if "--quick" in sys.argv else 10_000_000)
