"""Reports an alarm once, and again only when it has been quiet for a while.

    python examples/state/time_to_live.py

The state of a sensor lives for half a second after its last alarm. Nothing has to clean it up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tidegate.common import Configuration, Time, Types
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import StateTtlConfig, ValueStateDescriptor

QUIET = Time.milliseconds(500)
ALARMS = [
    ("kitchen", "smoke"),
    ("kitchen", "smoke"),
    ("cellar", "water"),
    ("kitchen", "nothing for a second"),
    ("kitchen", "smoke"),
]


class OncePerQuietTime(KeyedProcessFunction):
    """Passes an alarm on if its sensor has been quiet."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("alarmed", Types.BOOLEAN(), default_value=False)
        # Every alarm counts, also one that is not passed on: so reading prolongs the life of the state.
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(QUIET).update_ttl_on_read_and_write().never_return_expired().build()
        )
        self._alarmed = runtime_context.get_state(descriptor)

    def process_element(
        self, value: tuple[str, str], ctx: KeyedProcessFunction.Context
    ) -> Iterable[tuple[str, str]]:
        if value[1].startswith("nothing"):
            time.sleep(1)
        elif not self._alarmed.value():
            self._alarmed.update(True)
            yield value


def main() -> None:
    """Run the job in this process and print what is reported."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    reported = (
        env.from_collection(ALARMS)
        .key_by(lambda alarm: alarm[0], key_type=Types.STRING())
        .process(OncePerQuietTime())
    )
    with reported.execute_and_collect("alarms") as results:
        for sensor, what in results:
            print(f"{sensor}: {what}")


if __name__ == "__main__":
    main()
