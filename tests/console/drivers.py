"""A driver program with some variations, run in this process."""

from __future__ import annotations

import runpy
from pathlib import Path

PROGRAM = """
import sys
from tidegate.common import Configuration, Types
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor

class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        {open}

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        self.seen.put(value, True)
        yield ctx.get_current_key(), self.total.value()

configuration = Configuration()
configuration.set_string("execution.target", "local")
configuration.set_string("tidegate.local-dir", sys.argv[1] + "/local")
configuration.set_string("execution.checkpointing.dir", sys.argv[1] + "/checkpoints")
configuration.set_string("execution.checkpointing.interval", "1 h")
configuration.set_string("tidegate.checkpointing.retain-on-finish", "true")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism({parallelism}).set_max_parallelism({max_parallelism})
numbers = env.from_collection(range({count})).uid("numbers")
keyed = numbers.key_by(lambda value: value % 5, key_type=Types.LONG())
totals = keyed.process(Total()).name("Totals").uid('{uid}')
totals.add_sink(lambda value: None).uid("sink")
{execute}
"""

OPEN = (
    "self.total = runtime_context.get_state(ValueStateDescriptor('total', Types.LONG()));"
    "self.seen = runtime_context.get_map_state(MapStateDescriptor('seen', Types.LONG(), Types.BOOLEAN()))"
)


def driver(path: Path, **changes: object) -> str:
    """Write the program with some parts changed: see `parts`."""
    parts: dict[str, object] = {
        "open": OPEN,
        "parallelism": 2,
        "max_parallelism": 128,
        "count": 100,
        "uid": "totals",
        "execute": "env.execute('flights')",
    }
    path.write_text(PROGRAM.format(**(parts | changes)), "utf-8")
    return str(path)


def checkpoint_of(directory: Path, program: str) -> str:
    """Run a driver to its end; the directory of its last checkpoint."""
    import sys

    argv = sys.argv
    sys.argv = [program, str(directory)]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sys.argv = argv
    return str(
        max(directory.rglob("MANIFEST"), key=lambda file: int(file.parent.name.removeprefix("chk-"))).parent
    )
