"""Settings of checkpoints and restores that cannot work: one clear error, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import (
    CheckpointStorageError,
    ConfigurationError,
    JobExecutionError,
    StateMigrationError,
    TidegateError,
)
from tidegate.common.job_status import JobStatus

from . import programs

RAN: list[Any] = []
WAIT_S = 60


def run(directory: Path, uid: str | None = "count", **settings: str) -> None:
    env = programs.environment(directory, **{**programs.CHECKPOINTING, **settings})
    counted = (
        env.from_collection([1, 2, 3]).uid("records").key_by(lambda n: n).process(programs.CountPerKey())
    )
    counted = counted.name("count") if uid is None else counted.name("count").uid(uid)
    counted.map(lambda pair: RAN.append(pair)).uid("map").add_sink(lambda _: None).uid("sink")
    env.execute()


def refused(directory: Path, error: type[TidegateError], words: str, **settings: Any) -> None:
    RAN.clear()
    with programs.leaving_no_thread(), pytest.raises(error, match=words):
        run(directory, **settings)
    assert not RAN
    assert not list((directory / "local").rglob("*")), "nothing of a job that never started stays"


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"interval": "0 s"}, "interval is 0 ms; it must be at least 10 ms"),
        (
            {"max-concurrent-checkpoints": "2", "unaligned.enabled": "true"},
            "max-concurrent-checkpoints is 2, but unaligned checkpoints need one at a time",
        ),
    ],
)
def test_checkpoints_that_cannot_be(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    chosen = {f"execution.checkpointing.{key}": value for key, value in settings.items()}
    refused(tmp_path, ConfigurationError, words, **chosen)
    assert content(tmp_path) == {}


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    settings = {"execution.checkpointing.dir": str(blocked / "checkpoints")}
    refused(tmp_path, CheckpointStorageError, r"file/checkpoints.*check the checkpoint path", **settings)
    assert blocked.read_text() == "no directory"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The final checkpoint of a job that counted three keys."""
    run(tmp_path)
    return Path(programs.checkpoints_in(tmp_path)[-1])


@pytest.mark.parametrize("uid", [None, "other"])
def test_a_restore_with_a_missing_or_another_uid_names_the_operator(
    checkpoint: Path, tmp_path: Path, uid: str | None
) -> None:
    before = content(tmp_path)
    words = (
        r"holds state of 'count' \(uid count\), which the job does not have. Give the operator its old uid"
    )
    settings = {"execution.state-recovery.path": str(checkpoint)}
    refused(tmp_path, StateMigrationError, words, uid=uid, **settings)
    assert content(tmp_path) == before, "nothing is lost, and nothing is left behind"


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_a_restore_of_what_is_not_there_leaves_nothing_behind(tmp_path: Path, mode: str) -> None:
    settings = {
        "execution.state-recovery.path": str(tmp_path / "nowhere" / "chk-1"),
        "execution.state-recovery.claim-mode": mode,
    }
    refused(tmp_path, CheckpointStorageError, r"there is no checkpoint at .*nowhere/chk-1", **settings)
    assert list(tmp_path.rglob("*")) in ([], [tmp_path / "checkpoints"])


def test_a_claim_mode_that_flink_has_given_up(tmp_path: Path) -> None:
    settings = {"execution.state-recovery.claim-mode": "LEGACY"}
    refused(tmp_path, ConfigurationError, r"claim-mode.*NO_CLAIM.*CLAIM", **settings)


def test_a_savepoint_into_a_directory_with_other_things(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    env = programs.environment(tmp_path, **programs.CHECKPOINTING)
    numbers = env.from_collection(range(10_000_000)).uid("records")
    numbers.add_sink(lambda _: None).uid("sink")
    client = env.execute_async()
    words = r"not empty and holds more than savepoints.*notes.txt"
    try:
        with pytest.raises(JobExecutionError, match=words):
            client.trigger_savepoint(str(mine)).result(WAIT_S)
        with pytest.raises(JobExecutionError, match=words):
            client.stop_with_savepoint(False, str(mine)).result(WAIT_S)
        assert client.wait(0) is JobStatus.RUNNING, "the job goes on"
    finally:
        client.close()
    assert content(mine) == {mine / "notes.txt": b"mine"}
