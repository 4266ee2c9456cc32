"""Savepoints of running jobs hold what has not expired; checkpoints may hold more."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, SavepointFormatType
from tidegate.datastream.state import StateTtlConfig, ValueStateDescriptor
from tidegate.state import read_snapshot

from .jobs import WAIT_S, HeldSource, Kept, environment
from .test_savepoints import BACKENDS, COUNT, discard


class Remember(KeyedProcessFunction):
    """Keeps odd numbers for a millisecond and even ones for an hour, by key, without any clean-up."""

    def open(self, runtime_context: RuntimeContext) -> None:
        def state(name: str, ttl: Time) -> Any:
            descriptor = ValueStateDescriptor(name, Types.LONG())
            config = StateTtlConfig.new_builder(ttl).disable_cleanup_in_background().build()
            descriptor.enable_time_to_live(config)
            return runtime_context.get_state(descriptor)

        self.short, self.long = state("short", Time.milliseconds(1)), state("long", Time.hours(1))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        (self.short if value % 2 else self.long).update(value)
        yield value


@pytest.mark.parametrize("format_type", list(SavepointFormatType))
@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_expired_state_is_in_no_savepoint(
    tmp_path: Path, backend: str, format_type: SavepointFormatType
) -> None:
    settings = {"execution.checkpointing.interval": "1 h"}
    env = environment(tmp_path / "one", 2, settings).set_state_backend(BACKENDS[backend])
    source = env.from_source(HeldSource(COUNT, None), WatermarkStrategy.no_watermarks(), "Held").uid(
        "numbers"
    )
    remembered = source.key_by(lambda value: value, Types.LONG()).process(Remember()).uid("remember")
    remembered.map(Kept(str(tmp_path))).add_sink(discard)
    client, seen = env.execute_async("held"), Kept.results[str(tmp_path)]
    while len(seen) < COUNT // 2:
        assert not client.wait(0.01).is_terminal_state(), client.report().cause
    client.trigger_checkpoint()
    written_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 < written_ms + 2:
        assert not client.wait(0.001).is_terminal_state()
    path = client.trigger_savepoint(str(tmp_path / "savepoints"), format_type).result(WAIT_S)
    checkpoint = client.report().newest_checkpoint
    assert checkpoint is not None
    (stored, saved) = (read_snapshot(each).operator("remember").keyed_states for each in (checkpoint, path))
    odd = {value for value in seen if value % 2}
    assert {entry.key for entry in stored["short"].entries()} == odd
    assert list(saved["short"].entries()) == []
    assert {entry.key for entry in saved["long"].entries()} == set(seen) - odd
    client.close()
