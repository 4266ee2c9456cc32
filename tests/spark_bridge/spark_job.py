"""A job whose records go through a Spark stage into a Spark sink; run by a test that kills it."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment

from tests.connectors.sink_job import Epochs

INPUT = pa.schema([("number", pa.int64()), ("text", pa.string())])
OUTPUT = pa.schema([("number", pa.int64()), ("twice", pa.int64())])


def twice(frame: Any) -> Any:
    return frame.selectExpr("number", "number * 2 AS twice")


def as_csv(frame: Any) -> Any:
    return frame.write.format("csv")


def main(target: str, checkpoints: str, restored: str = "") -> None:
    """Run the job, from the start or from a checkpoint."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": checkpoints,
        "tidegate.local-dir": f"{checkpoints}-local",
        "tidegate.spark.log-dir": f"{checkpoints}-spark",
        **({"execution.state-recovery.path": restored} if restored else {}),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    records = env.from_source(Epochs(), WatermarkStrategy.no_watermarks(), "epochs").uid("epochs")
    doubled = records.spark_stage(twice, OUTPUT, INPUT, max_epoch_records=60).uid("stage")
    doubled.sink_to_spark(as_csv, target, OUTPUT).uid("out")
    env.execute()


if __name__ == "__main__":
    main(*sys.argv[1:])
