"""A stage with several subtasks in a local job: its epochs are shared, whatever fails after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.operators.epoch_stage import EpochStageOperator
from tidegate.protocol.elements import Batch
from tidegate.protocol.stages.epochs import EpochLimits

RECORDS = 2_000


class Doubling(EpochStageOperator):
    """Doubles numbers in a thread of the first subtask, and gives each subtask a part of the results."""

    def to_table(self, batch: Batch) -> pa.Table:
        return pa.table({"number": pa.array(batch.rows(), pa.int64())})

    def start_runner(self, started: Callable[[], None]) -> None:
        self.context.mailbox(started)

    def offer_share(self, number: int, tables: list[pa.Table]) -> list[int]:
        return [value for table in tables for value in table["number"].to_pylist()]

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        numbers = [2 * value for offer in offers for value in offer]
        parts = [numbers[index :: len(offers)] for index in range(len(offers))]
        result = lambda: finished(parts)  # noqa: E731
        threading.Thread(target=self.deliver, args=(result,), daemon=True).start()

    def deliver(self, result: Callable[[], None]) -> None:
        self.context.mailbox(result)

    def collect_results(self, number: int, part: list[int]) -> pa.Table:
        return pa.table({"number": pa.array(part, pa.int64())})

    def emit_results(self, results: pa.Table) -> None:
        self.emit(Batch(results["number"].to_pylist()))


def environment(directory: Path) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "10 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_result_leaves_once_although_a_task_fails(tmp_path: Path, parallelism: int) -> None:
    env = environment(tmp_path)
    failed = tmp_path / "failed"

    def fail_once(number: int) -> int:
        if number == RECORDS and not failed.exists():
            failed.touch()
            raise ValueError("once")
        return number

    numbers = env.from_collection(list(range(RECORDS))).rebalance()
    stage = numbers._then("Doubling", Doubling(EpochLimits(200, 1, 2)))
    stage.set_parallelism(parallelism).disable_chaining()
    stage.transformation.is_coordinated = True
    with stage.map(fail_once).execute_and_collect() as results:
        assert sorted(results) == [2 * number for number in range(RECORDS)]
    assert failed.exists()
