"""The surroundings of a job in the local shell, for the parts that measure one."""

from __future__ import annotations

from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment


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
