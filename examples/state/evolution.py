"""One job in two versions: the second restores the checkpoint of the first, with another schema.

    python examples/state/evolution.py [DIRECTORY]

Version 1 keeps, for every page, how often it was visited. Version 2 calls the state and the operator by
better names, counts in 64 bits, and keeps the longest visit too: a field with a default, which the stored
values do not have.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Row, Types
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

FIRST_VISITS = [("/", 10), ("/shop", 40), ("/", 20)]
LATER_VISITS = [("/", 35), ("/help", 5)]

PAGE_V1 = Types.ROW_NAMED(["visits", "referrer"], [Types.INT(), Types.STRING()])
PAGE_V2 = Types.ROW_NAMED(["visits", "longest_s"], [Types.LONG(), Types.LONG()])


@dataclass(frozen=True)
class Result:
    page: str
    visits: int
    longest_s: int


class CountVisits(KeyedProcessFunction):
    """Version 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.page = runtime_context.get_state(ValueStateDescriptor("cnt", PAGE_V1))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        page = self.page.value() or Row("visits", "referrer")(0, None)
        self.page.update(Row("visits", "referrer")(page.visits + 1, page.referrer))
        yield value[0], page.visits + 1


class DescribePages(KeyedProcessFunction):
    """Version 2: the field `referrer` is gone, `longest_s` is new and None in older values."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.page = runtime_context.get_state(ValueStateDescriptor("page", PAGE_V2).renamed_from("cnt"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        name, seconds = value
        page = self.page.value() or Row("visits", "longest_s")(0, None)
        page = Row("visits", "longest_s")(page.visits + 1, max(page.longest_s or 0, seconds))
        self.page.update(page)
        yield Result(name, page.visits, page.longest_s)


def environment(directory: Path, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("tidegate.local-dir", str(directory / "local"))
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", "1 s")
    # The checkpoints of a finished job stay, the last one included.
    configuration.set_string("tidegate.checkpointing.retain-on-finish", "true")
    for key, value in options.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def version_1(directory: Path) -> str:
    """Run the first version to its end; returns the address of its final checkpoint."""
    stream = environment(directory).from_collection(FIRST_VISITS).uid("first visits")
    with (
        stream.key_by(lambda visit: visit[0]).process(CountVisits()).uid("cnt").execute_and_collect() as found
    ):
        for page, visits in found:
            print(f"version 1: {page} {visits}")
    (manifest,) = (directory / "checkpoints").glob("*/chk-*/MANIFEST")
    return str(manifest.parent)


def version_2(directory: Path, checkpoint: str) -> list[Result]:
    """Run the second version from that checkpoint."""
    env = environment(
        directory,
        **{
            "execution.state-recovery.path": checkpoint,
            # The position in the first version's input has no place in this job.
            "execution.state-recovery.ignore-unclaimed-state": "true",
        },
    )
    stream = env.from_collection(LATER_VISITS).uid("later visits").key_by(lambda visit: visit[0])
    with stream.process(DescribePages()).uid("pages", previously="cnt").execute_and_collect() as found:
        results = list(found)
    for result in results:
        print(f"version 2: {result}")
    return results


def main(directory: Path) -> list[Result]:
    return version_2(directory, version_1(directory))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
