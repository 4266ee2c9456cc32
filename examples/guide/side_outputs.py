"""Readings that make no sense go aside, with a reason, instead of failing the job.

python side_outputs.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, Types
from tidegate.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

BROKEN = OutputTag("broken", Types.STRING())


class Parse(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterable[Any]:
        try:
            yield float(value)
        except ValueError:
            yield BROKEN, f"{value!r} is no number"


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    readings = env.from_collection(["20.5", "21.0", "cold"]).process(Parse(), Types.DOUBLE()).uid("parse")
    readings.print("reading")
    readings.get_side_output(BROKEN).print("broken")
    env.execute("readings")


if __name__ == "__main__":
    main()
