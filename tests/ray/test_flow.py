"""Flow control between processes, and objects that only the driver's script defines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.collect import CollectSink
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    Sink,
    SinkWriter,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

RECORD_BYTES = 1_000


def source_position(directory: Path) -> int:
    """How many records the map behind the source has seen."""
    path = directory / "seen"
    return path.stat().st_size * 100 if path.exists() else 0


def payloads(directory: Path, settings: Any, count: int) -> Any:
    """Records of a kilobyte; the source's task marks every hundredth in a file."""
    path, numbers = str(directory / "seen"), itertools.count()

    def payload(number: int) -> tuple[int, bytes]:
        if next(numbers) % 100 == 99:
            with open(path, "ab") as file:
                file.write(b".")
        return number, number.to_bytes(8, "big") * (RECORD_BYTES // 8)

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = NumberSequenceSource(0, count - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(payload)


class ShutSink(Sink):
    """Takes records only once a gate is open, and counts them."""

    def __init__(self, gate: jobs.Gate, path: Path) -> None:
        self._gate, self._path = gate, str(path)

    def create_writer(self) -> SinkWriter:
        return _ShutWriter(self._gate, self._path)


class _ShutWriter(SinkWriter):
    def __init__(self, gate: jobs.Gate, path: str) -> None:
        self._gate, self._path, self._count = gate, path, 0

    def is_ready(self) -> bool:
        return self._gate.is_open

    def write_batch(self, values: list[Any]) -> None:
        self._count += len(values)

    def close(self) -> None:
        Path(self._path).write_text(str(self._count))


def stays(question: Any, client: Any) -> Any:
    """The answer once it has not changed for half a second."""
    before = None
    while (now := question()) != before or not now:
        before = now
        client.wait(0.5)
    return now


def test_a_sink_that_stands_still_stops_the_source_within_the_credit(tmp_path: Path) -> None:
    count, credit = 20_000, 200_000
    settings = jobs.configuration(tmp_path, 1, interval_ms=None)
    settings.set_string("tidegate.channel.credit", f"{credit} b")
    settings.set_string("tidegate.batch.size", "50")
    gate, taken = jobs.Gate(tmp_path), tmp_path / "taken"
    stream = payloads(tmp_path, settings, count).rebalance().map(lambda record: record).disable_chaining()
    with jobs.running(stream, ShutSink(gate, taken)) as client:
        seen = stays(lambda: source_position(tmp_path), client)
        # Two channels, each with its credit and a batch over it.
        assert seen * RECORD_BYTES <= 2 * (credit + 2 * 50 * RECORD_BYTES)
        gate.open()
        client.result()
    assert taken.read_text() == str(count)


def test_results_that_nobody_reads_stop_the_source(tmp_path: Path) -> None:
    count = 40_000
    settings = jobs.configuration(tmp_path, 1, interval_ms=None)
    settings.set_string("tidegate.batch.size", "500")
    with jobs.running(payloads(tmp_path, settings, count), CollectSink(is_checkpointing=False)) as client:
        seen = stays(lambda: source_position(tmp_path), client)
        # 16 MiB wait in the coordinator at most, and a batch more.
        assert seen * RECORD_BYTES <= (16 << 20) + 1_000 * RECORD_BYTES
        numbers = [number for number, _ in client.collected()]
    assert numbers == list(range(count))


@dataclass(frozen=True)
class Order:
    """Known to this module only, which no worker can import."""

    customer: str
    amount: int


class Total(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context) -> Iterator[Order]:
        assert isinstance(value, Order)
        last = self.last.value() or Order(value.customer, 0)
        assert isinstance(last, Order)
        total = Order(value.customer, last.amount + value.amount)
        self.last.update(total)
        yield total


def test_instances_of_a_class_of_the_script_travel_are_stored_and_come_back(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(jobs.configuration(tmp_path))
    orders = [Order(f"customer {number % 5}", 1) for number in range(500)]
    stream = env.from_collection(orders).key_by(lambda order: order.customer, key_type=Types.STRING())
    with stream.process(Total()).execute_and_collect() as results:
        totals = list(results)
    assert all(type(total) is Order for total in totals)
    assert Counter(totals) == Counter(Order(f"customer {c}", n + 1) for c in range(5) for n in range(100))
