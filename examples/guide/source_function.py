"""A source written as one method: it tails a log, and goes on at the right line after a failure.

python source_function.py
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from tidegate.common import Configuration, Types
from tidegate.datastream import (
    CheckpointedFunction,
    SourceContext,
    SourceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from tidegate.datastream.state import ListStateDescriptor


class Tail(SourceFunction, CheckpointedFunction):
    """The lines of a file, up to the line "end"."""

    def __init__(self, path: str) -> None:
        self.path = path

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("offset", Types.LONG()))
        self.offset = next(iter(self.state.get()), 0)
        self.cancelled = threading.Event()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.offset])

    def run(self, ctx: SourceContext) -> None:
        with open(self.path, encoding="utf-8") as file:
            file.seek(self.offset)
            while not self.cancelled.is_set():
                line = file.readline()
                if not line.endswith("\n"):
                    # Nothing new yet. Wait outside the lock, and never without a timeout.
                    file.seek(self.offset)
                    self.cancelled.wait(0.1)
                    continue
                if line == "end\n":
                    return
                with ctx.get_checkpoint_lock():
                    ctx.collect(line.strip())
                    self.offset = file.tell()

    def cancel(self) -> None:
        self.cancelled.set()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log")
        path.write_text("one\ntwo\nthree\nend\n", encoding="utf-8")
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        configuration.set_string("execution.checkpointing.interval", "1 s")
        configuration.set_string("execution.checkpointing.dir", str(Path(directory, "checkpoints")))
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        with env.add_source(Tail(str(path)), "tail").uid("tail").execute_and_collect() as lines:
            print(*lines)


if __name__ == "__main__":
    main()
