"""Task-local recovery of whole jobs: restarts read local copies and fall back to checkpoint storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import CheckpointListener, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from . import jobs

COUNT = 2_000
KEYS = 10
ON = {
    "execution.checkpointing.local-backup.enabled": "true",
    # Everything goes to files: what lies in the manifest needs no copy.
    "execution.checkpointing.data-inline-threshold": "0",
}


class CountAndFailOnce(KeyedProcessFunction, CheckpointListener):
    """Counts per key; does something and fails when it is told of a checkpoint for the first time."""

    failures = 0
    before_failing: Callable[[], None]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if not CountAndFailOnce.failures:
            CountAndFailOnce.failures += 1
            CountAndFailOnce.before_failing()
            raise RuntimeError("as the test wants it")


def counted(directory: Path, backend: str, options: dict[str, str], meanwhile: Callable[[], None]) -> Any:
    CountAndFailOnce.failures = 0
    CountAndFailOnce.before_failing = staticmethod(meanwhile)  # type: ignore[assignment]
    env = jobs.environment(directory, options={**options, "state.backend.type": backend})
    source = env.from_source(jobs.HeldSource(COUNT), WatermarkStrategy.no_watermarks(), "numbers")
    keyed = source.uid("numbers").key_by(lambda number: number % KEYS, key_type=Types.LONG())
    with keyed.process(CountAndFailOnce()).uid("count").execute_and_collect() as results:
        found = Counter(results)
    assert CountAndFailOnce.failures == 1
    return found


EXPECTED = Counter((number % KEYS, number // KEYS + 1) for number in range(COUNT))


def copies(directory: Path) -> list[Path]:
    return [path for path in (directory / "local").glob("tidegate-jobs/*/snapshots/*/*") if path.is_file()]


def stored(directory: Path) -> list[Path]:
    return [path for path in (directory / "checkpoints").glob("*/shared/**/*") if path.is_file()]


@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.local-backup.enabled",
        "execution.state-recovery.from-local",
        "state.backend.local-recovery",
    ],
)
def test_a_restart_reads_local_copies(tmp_path: Path, backend: str, key: str) -> None:
    def lose_storage() -> None:
        files = stored(tmp_path)
        assert files
        for path in files:
            path.unlink()

    options = {key: "true", "execution.checkpointing.data-inline-threshold": "0"}
    assert counted(tmp_path, backend, options, lose_storage) == EXPECTED
    assert not (tmp_path / "local" / "tidegate-jobs").exists()


@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_damaged_local_copies_are_noticed(tmp_path: Path, backend: str) -> None:
    def damage_copies() -> None:
        files = copies(tmp_path)
        assert files
        for path in files:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    assert counted(tmp_path, backend, ON, damage_copies) == EXPECTED


def test_without_the_option_there_are_no_copies(tmp_path: Path) -> None:
    def look() -> None:
        assert stored(tmp_path)
        assert copies(tmp_path) == []

    off = {"execution.checkpointing.data-inline-threshold": "0"}
    assert counted(tmp_path, "hashmap", off, look) == EXPECTED


def test_copies_may_lie_elsewhere(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    options = {**ON, "execution.checkpointing.local-backup.dirs": str(place)}

    def look() -> None:
        assert copies(tmp_path) == []
        assert [path for path in place.rglob("*") if path.is_file()]

    assert counted(tmp_path, "hashmap", options, look) == EXPECTED
    assert list(place.iterdir()) == []
