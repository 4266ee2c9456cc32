"""Two ends of a stream: a function called for each record, and a sink whose files appear exactly once.

python sinks.py
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tidegate.common import Configuration
from tidegate.datastream import (
    Committer,
    RichSinkFunction,
    RuntimeContext,
    Sink,
    SinkFunction,
    SinkWriter,
    StreamExecutionEnvironment,
)
from tidegate.operators.base import OperatorContext


class AppendLines(RichSinkFunction):
    """At least once: after a failure some lines come again."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context: RuntimeContext) -> None:
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        os.write(self.descriptor, f"{value} {context.timestamp()}\n".encode())

    def close(self) -> None:
        os.close(self.descriptor)


class JsonFiles(Sink):
    """Exactly once: a file for each checkpoint, written under another name and renamed by the commit."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self) -> SinkWriter:
        return JsonWriter(self.directory)

    def create_committer(self) -> Committer:
        return RenameCommitter()


class JsonWriter(SinkWriter):
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.values: list[Any] = []
        self.files = 0

    def open(self, context: OperatorContext) -> None:
        # No attempt is numbered twice, so no two writers ever choose the same name.
        self.prefix = f"{context.operator_uid}-{context.subtask_index}-{context.attempt}"

    def write_batch(self, values: list[Any]) -> None:
        self.values += values

    def prepare_commit(self) -> list[Any]:
        if not self.values:
            return []
        self.files += 1
        path = os.path.join(self.directory, f"{self.prefix}-{self.files}.json")
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(self.values, file)
            file.flush()
            os.fsync(file.fileno())
        self.values = []
        return [path]


class RenameCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        for path in committables:
            # After a failure a commit is repeated: then the file has its name already.
            if os.path.exists(path + ".tmp"):
                os.rename(path + ".tmp", path)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        numbers = env.from_collection(range(5))
        numbers.add_sink(AppendLines(os.path.join(directory, "lines"))).uid("lines")
        numbers.sink_to(JsonFiles(directory)).uid("json")
        env.execute()
        print(Path(directory, "lines").read_text("utf-8").split("\n")[:2])
        print(*(json.loads(path.read_text("utf-8")) for path in Path(directory).glob("*.json")))


if __name__ == "__main__":
    main()
