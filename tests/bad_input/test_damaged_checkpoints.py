"""A checkpoint that is not there or not whole is never taken for one; the error says which file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError, JobExecutionError
from tidegate.datastream import KeyedProcessFunction, RuntimeContext

from . import programs

RECORDS = [number % 10 for number in range(2_000)]


def run(directory: Path, **settings: str) -> Counter[Any]:
    env = programs.environment(directory, **programs.CHECKPOINTING, **settings)
    stream = env.from_collection(RECORDS).uid("records").key_by(lambda n: n)
    with stream.process(programs.CountPerKey()).uid("count").name("count").execute_and_collect() as results:
        return Counter(results)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The final checkpoint of a finished job, which has counted every key 200 times."""
    run(tmp_path)
    return Path(programs.checkpoints_in(tmp_path)[-1])


def segment_of(checkpoint: Path) -> Path:
    (path,) = programs.keyed_files(str(checkpoint))
    return path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_the_first_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


SHORTENED = [truncate, empty]
FLIPPED = [flip_a_bit, flip_the_first_bit]
DAMAGE = [*SHORTENED, *FLIPPED]


def test_a_whole_checkpoint_is_restored(checkpoint: Path, tmp_path: Path) -> None:
    again = run(tmp_path, **{"execution.state-recovery.path": str(checkpoint)})
    # The source had ended there. Only what the last epoch prepared is committed again, by contract.
    assert again
    assert set(again.values()) == {1}
    assert max(count for _, count in again) == 200


def test_an_unknown_checkpoint_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    with pytest.raises(CheckpointStorageError, match=r"there is no checkpoint at .*nowhere.*MANIFEST"):
        run(tmp_path, **{"execution.state-recovery.path": str(tmp_path / "nowhere")})


def test_a_checkpoint_whose_manifest_was_never_written_is_none(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "MANIFEST").rename(checkpoint / "MANIFEST.tmp-1")
    with pytest.raises(CheckpointStorageError, match="there is no checkpoint at"):
        run(tmp_path, **{"execution.state-recovery.path": str(checkpoint)})


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_manifest_is_refused_before_the_job_starts(
    damage: Callable[[Path], None], checkpoint: Path, tmp_path: Path
) -> None:
    damage(checkpoint / "MANIFEST")
    with pytest.raises(CorruptCheckpointError, match=f"{checkpoint}/MANIFEST"):
        run(tmp_path, **{"execution.state-recovery.path": str(checkpoint)})


@pytest.mark.parametrize("damage", [*SHORTENED, Path.unlink])
def test_a_missing_or_shortened_state_file_is_refused_before_the_job_starts(
    damage: Callable[[Path], None], checkpoint: Path, tmp_path: Path
) -> None:
    segment = segment_of(checkpoint)
    damage(segment)
    with (
        programs.leaving_no_thread(),
        pytest.raises(CorruptCheckpointError, match="restore another") as failure,
    ):
        run(tmp_path, **{"execution.state-recovery.path": str(checkpoint)})
    assert str(segment) in str(failure.value)


@pytest.mark.parametrize("damage", FLIPPED)
def test_a_damaged_state_file_ends_the_job_without_restarts_and_is_named(
    damage: Callable[[Path], None], checkpoint: Path, tmp_path: Path
) -> None:
    segment = segment_of(checkpoint)
    damage(segment)
    with programs.leaving_no_thread(), pytest.raises(JobExecutionError) as failure:
        run(tmp_path, **{"execution.state-recovery.path": str(checkpoint)})
    cause = str(failure.value).partition("\n\n")[0]
    for words in ("task count -> Collect (1/1)", "CorruptCheckpointError", str(segment), "restore another"):
        assert words in cause


class DamagesTheNewest(KeyedProcessFunction):
    """Waits for a second checkpoint in the first attempt, spoils its new state file, and fails."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_first = runtime_context.get_attempt_number() == 0
        self.counter = programs.CountPerKey()
        self.counter.open(runtime_context)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        found = programs.checkpoints_in(self._directory)
        if self.is_first and len(found) >= 2:
            newest, older = (programs.keyed_files(address) for address in (found[-1], found[-2]))
            for path in newest - older or newest:
                flip_a_bit(path)
            raise ValueError("boom")
        return self.counter.process_element(value, ctx)


def test_a_restart_does_not_step_back_behind_a_damaged_newest_checkpoint(tmp_path: Path) -> None:
    env = programs.environment(
        tmp_path,
        **programs.CHECKPOINTING,
        **{
            "execution.checkpointing.num-retained": "3",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "5",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "tidegate.batch.size": "1",
        },
    )
    stream = env.from_collection(range(10_000_000)).key_by(lambda n: n)
    stream.process(DamagesTheNewest(tmp_path)).name("count").uid("count").add_sink(lambda _: None)
    with pytest.raises(JobExecutionError, match=r"count.*CorruptCheckpointError.*parquet.*is damaged"):
        env.execute()
    older = programs.checkpoints_in(tmp_path)[0]
    programs.assert_readable(older)
