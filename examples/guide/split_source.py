"""A source with an enumerator: it watches a directory, and its readers share the files that appear.

python split_source.py
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import (
    Boundedness,
    Source,
    SourceReader,
    SplitEnumerator,
    SplitEnumeratorContext,
    StreamExecutionEnvironment,
)
from tidegate.protocol.elements import Batch


@dataclass(frozen=True)
class FileSplit:
    """A file, and the line to read next."""

    path: str
    line: int = 0


class Directory(Source):
    """The lines of all files of a directory; the file "end" ends it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return Watcher(self.path, context, set(), [])

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return Watcher(self.path, context, *checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return LineReader()


class Watcher(SplitEnumerator):
    """Runs once, in the coordinator."""

    def __init__(
        self, path: str, context: SplitEnumeratorContext, known: set[str], waiting: list[FileSplit]
    ) -> None:
        self.path = path
        self.context = context
        self.known = known
        self.waiting = waiting
        self.asking: list[int] = []

    def start(self) -> None:
        # `listdir` may wait for a slow disk, so it runs in another thread.
        self.context.call_async(lambda: sorted(os.listdir(self.path)), self.listed, period_ms=100)

    def listed(self, names: Any, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem
        self.waiting += [FileSplit(os.path.join(self.path, name)) for name in names if name not in self.known]
        self.known |= set(names)
        self.assign()

    def handle_split_request(self, subtask_id: int) -> None:
        self.asking.append(subtask_id)
        self.assign()

    def assign(self) -> None:
        while self.asking and self.waiting:
            self.context.assign_split(self.waiting.pop(0), self.asking.pop(0))
        while self.asking and "end" in self.known:
            self.context.signal_no_more_splits(self.asking.pop())

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.waiting += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return set(self.known), list(self.waiting)


class LineReader(SourceReader):
    """Runs in every subtask. It asks for another split by having none."""

    def __init__(self) -> None:
        self.splits: list[FileSplit] = []

    def add_splits(self, splits: list[Any]) -> None:
        self.splits += splits

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        split = self.splits[0]
        lines = Path(split.path).read_text("utf-8").splitlines()[split.line :][:max_records]
        if lines:
            self.splits[0] = replace(split, line=split.line + len(lines))
        else:
            self.splits.pop(0)
        return Batch(lines)

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, text in {"1": "a\nb\n", "2": "c\n", "3": "d\ne\nf\n", "end": ""}.items():
            Path(directory, name).write_text(text, encoding="utf-8")
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        stream = env.from_source(Directory(directory), WatermarkStrategy.no_watermarks(), "lines")
        with stream.execute_and_collect() as lines:
            print(*sorted(lines))


if __name__ == "__main__":
    main()
