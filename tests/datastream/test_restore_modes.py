"""Whom a savepoint or checkpoint belongs to that a job is started from, and what cannot be started from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import (
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
    JobExecutionError,
    StateMigrationError,
    TidegateError,
)
from tidegate.coordinator.checkpoints.savepoints import dispose_savepoint
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import MapFunction, StreamExecutionEnvironment

from .jobs import WAIT_S, HeldSource, Kept, RunningSum, environment, expected_sums
from .test_savepoints import BACKENDS, COUNT, KEYS, held, last_of_each_key, resumed, sums

CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}
RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
CONTROL_DIRECTORIES = ("epochs", "ids", "accepted", "continued")
LARGE = {"execution.checkpointing.data-inline-threshold": "0 b"}
"""Every state has a file of its own, instead of a place in the manifest."""


def savepoint(tmp_path: Path) -> Path:
    client, _ = held(tmp_path / "one", "filesystem", **LARGE)
    path = client.trigger_savepoint(str(tmp_path / "savepoints")).result(WAIT_S)
    client.close()
    return Path(path)


def retained_checkpoint(tmp_path: Path) -> Path:
    client, _ = held(
        tmp_path / "one", "filesystem", **LARGE, **RETAINED, **{"execution.checkpointing.num-retained": "2"}
    )
    client.trigger_checkpoint()
    client.trigger_checkpoint()
    path = client.report().newest_checkpoint
    client.close()
    assert path is not None
    return Path(path)


def waiting(tmp_path: Path, path: Path, **options: str) -> JobClient:
    """A job started from `path` that waits where that stands."""
    settings = {"execution.checkpointing.interval": "1 h", "execution.state-recovery.path": str(path)}
    env = environment(tmp_path / "two", 2, {**settings, **LARGE, **RETAINED, **options})
    sums(env, None).add_sink(lambda value: None)
    return env.execute_async("waiting")


def state_files(original: Path) -> list[Path]:
    """All files next to a checkpoint or savepoint and in it, without records of jobs that started from it."""
    found = (each for each in original.parent.rglob("*") if each.is_file())
    return sorted(each for each in found if each.parent.name not in CONTROL_DIRECTORIES)


@pytest.mark.parametrize("taken", [savepoint, retained_checkpoint])
def test_with_no_claim_the_original_stays_and_is_needed_until_the_first_checkpoint(
    tmp_path: Path, taken: Any
) -> None:
    original = taken(tmp_path)
    files = state_files(original)
    client = waiting(tmp_path, original)
    client.trigger_checkpoint()
    own = client.report().newest_checkpoint
    client.close()
    assert state_files(original) == files
    shutil.rmtree(original.parent)
    assert own is not None
    results = resumed(tmp_path / "three", own)
    assert last_of_each_key(results) == expected_sums(COUNT, KEYS)


@pytest.mark.parametrize("taken", [savepoint, retained_checkpoint])
def test_with_claim_the_original_goes_when_as_many_checkpoints_are_complete_as_are_kept(
    tmp_path: Path, taken: Any
) -> None:
    original = taken(tmp_path)
    client = waiting(tmp_path, original, **CLAIM, **{"execution.checkpointing.num-retained": "2"})
    client.trigger_checkpoint()
    assert (original / "MANIFEST").is_file()
    client.trigger_checkpoint()
    own = client.report().newest_checkpoint
    client.close()
    assert not original.exists()
    assert own is not None
    assert last_of_each_key(resumed(tmp_path / "three", own)) == expected_sums(COUNT, KEYS)


def test_a_claimed_checkpoint_leaves_files_to_the_others_beside_it(tmp_path: Path) -> None:
    original = retained_checkpoint(tmp_path)
    older = original.with_name("chk-1")
    client = waiting(tmp_path, original, **CLAIM)
    client.trigger_checkpoint()
    client.close()
    assert not original.exists()
    assert last_of_each_key(resumed(tmp_path / "three", str(older))) == expected_sums(COUNT, KEYS)


def test_what_one_job_has_claimed_no_other_can_claim_and_nobody_disposes_of(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    client = waiting(tmp_path, original, **CLAIM)
    while not (original / "CLAIMED").exists():
        client.wait(0.01)
    with pytest.raises(CheckpointStorageError, match=f"claimed by job {client.get_job_id()}"):
        waiting(tmp_path, original, **CLAIM)
    with pytest.raises(CheckpointStorageError, match=r"is claimed by job .* use --force"):
        dispose_savepoint(str(original))
    client.close()
    dispose_savepoint(str(original), force=True)
    assert not original.exists()


def test_a_claim_needs_checkpoints(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    env = environment(None, 2, {"execution.state-recovery.path": str(original), **CLAIM})
    sums(env, 0).add_sink(lambda value: None)
    with pytest.raises(ConfigurationError, match="takes no checkpoints"):
        env.execute()


@pytest.mark.parametrize("backend", ["memory", "filesystem", "lmdb"])
@pytest.mark.parametrize("settings", [LARGE, {}], ids=["files", "inline"])
def test_a_job_that_takes_no_checkpoints_goes_on_from_a_savepoint_and_leaves_it_as_it_is(
    tmp_path: Path, backend: str, settings: dict[str, str]
) -> None:
    client, _ = held(tmp_path / "one", "filesystem", **settings)
    original = Path(client.trigger_savepoint(str(tmp_path / "savepoints")).result(WAIT_S))
    client.close()
    files = {path: path.read_bytes() for path in original.rglob("*") if path.is_file()}
    options = {"execution.state-recovery.path": str(original), "tidegate.local-dir": str(tmp_path / "local")}
    env = environment(None, 3, options).set_state_backend(BACKENDS[backend])
    results = list(sums(env, 0).execute_and_collect())
    assert len(results) == COUNT // 2
    assert last_of_each_key(set(results)) == expected_sums(COUNT, KEYS)
    assert {path: path.read_bytes() for path in original.rglob("*") if path.is_file()} == files


def test_a_job_that_takes_no_checkpoints_is_restarted_from_the_savepoint(tmp_path: Path) -> None:
    options = {
        "execution.state-recovery.path": str(savepoint(tmp_path)),
        "tidegate.local-dir": str(tmp_path / "local"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = environment(None, 2, options)
    sums(env, 0).map(FailsOnce()).map(Kept(str(tmp_path))).add_sink(lambda value: None)
    client = env.execute_async("restarted")
    client.wait(WAIT_S)
    client.result()
    assert client.report().restarts == 1
    assert last_of_each_key(set(Kept.results[str(tmp_path)])) == expected_sums(COUNT, KEYS)


class FailsOnce(MapFunction):
    has_failed = False

    def map(self, value: Any) -> Any:
        if not FailsOnce.has_failed:
            FailsOnce.has_failed = True
            raise OSError("once")
        return value


def test_a_checkpoint_is_not_disposed_of(tmp_path: Path) -> None:
    original = retained_checkpoint(tmp_path)
    with pytest.raises(CheckpointStorageError, match=r"is checkpoint 2 of job .* and no savepoint"):
        dispose_savepoint(str(original))
    with pytest.raises(CheckpointStorageError, match="there is no savepoint"):
        dispose_savepoint(str(tmp_path / "nothing"))
    assert (original / "MANIFEST").is_file()


# ---------------------------------------------------------------- what cannot be started from


def started(tmp_path: Path, path: Path, **options: str) -> None:
    resumed(tmp_path / "two", str(path), **options)


def test_a_missing_one_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(CheckpointStorageError, match="there is no checkpoint at"):
        started(tmp_path, tmp_path / "nothing")
    assert not (tmp_path / "two" / "local").exists()


@pytest.mark.parametrize("taken", [savepoint, retained_checkpoint])
def test_a_partly_deleted_one_is_an_error_before_anything_runs(tmp_path: Path, taken: Any) -> None:
    original = taken(tmp_path)
    next(iter(original.parent.rglob("*total-*"))).unlink()
    with pytest.raises(CorruptCheckpointError, match="is missing; restore another"):
        started(tmp_path, original)


def test_a_manifest_alone_is_no_savepoint(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(original / "MANIFEST", moved)
    with pytest.raises(CorruptCheckpointError, match="is missing"):
        started(tmp_path, moved)


def test_a_savepoint_without_its_manifest_is_none(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    (original / "MANIFEST").unlink()
    with pytest.raises(CheckpointStorageError, match="there is no checkpoint at"):
        started(tmp_path, original)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b"tidegate-checkpoint 1 ", b"tidegate-checkpoint 9 ", "has manifest format 9"),
        (b'"entries"', b'"entr1es"', "its checksum does not match"),
        (b"tidegate-checkpoint", b"something else", "is not a checkpoint manifest"),
    ],
)
def test_a_newer_tampered_or_foreign_manifest_is_an_error(
    tmp_path: Path, before: bytes, after: bytes, message: str
) -> None:
    original = savepoint(tmp_path)
    manifest = original / "MANIFEST"
    manifest.write_bytes(manifest.read_bytes().replace(before, after, 1))
    with pytest.raises(CorruptCheckpointError, match=message):
        started(tmp_path, original)


def test_a_tampered_file_is_an_error_before_anything_is_processed(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    # A file with another content of the same length.
    damaged = next(iter(sorted(original.rglob("*total-*"))))
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    with pytest.raises(JobExecutionError, match=r"CorruptCheckpointError: .* is damaged"):
        started(tmp_path, original)
    assert (original / "MANIFEST").is_file()


def other_job(env: StreamExecutionEnvironment) -> None:
    source = env.from_source(HeldSource(COUNT, 0), WatermarkStrategy.no_watermarks(), "Other").uid("other")
    source.key_by(lambda value: value % KEYS).process(RunningSum()).uid("else").add_sink(lambda value: None)


def test_one_of_another_job_is_an_error_unless_its_state_may_be_dropped(tmp_path: Path) -> None:
    original = savepoint(tmp_path)
    options = {"execution.state-recovery.path": str(original)}
    env = environment(tmp_path / "two", 1, options)
    other_job(env)
    with pytest.raises(StateMigrationError, match=r"holds state of .*which the job does not have"):
        env.execute()
    options["execution.state-recovery.ignore-unclaimed-state"] = "true"
    env = environment(tmp_path / "three", 1, options)
    other_job(env)
    env.execute()


def test_every_error_is_one_of_tidegate(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(TidegateError):
        started(tmp_path, tmp_path / "file")


# ---------------------------------------------------------------- an older one, by choice


def damage(checkpoint: Path) -> None:
    manifest = checkpoint / "MANIFEST"
    manifest.write_bytes(manifest.read_bytes()[:-10])


def test_a_damaged_newest_one_is_an_error_and_an_older_one_may_be_chosen(tmp_path: Path) -> None:
    newest = retained_checkpoint(tmp_path)
    damage(newest)
    with pytest.raises(CorruptCheckpointError, match="is damaged"):
        started(tmp_path, newest)
    results = resumed(tmp_path / "three", str(newest.with_name("chk-1")))
    assert last_of_each_key(results) == expected_sums(COUNT, KEYS)


@pytest.mark.parametrize("claim", [{}, CLAIM], ids=["NO_CLAIM", "CLAIM"])
def test_a_step_back_is_warned_of_and_leaves_the_newer_ones_alone(
    tmp_path: Path, claim: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    newest = retained_checkpoint(tmp_path)
    older = newest.with_name("chk-1")
    files = {file: file.read_bytes() for file in newest.rglob("*")}
    client = waiting(tmp_path, older, **claim)
    assert client.trigger_checkpoint() == 3, "its ids are above those of the newer ones"
    warnings = client.report().statistics.warnings
    own = client.report().newest_checkpoint
    client.close()
    assert [text for text in warnings if "newer checkpoints lie beside it: chk-2" in text]
    assert "Sinks may have committed it already" in caplog.text
    assert {file: file.read_bytes() for file in newest.rglob("*")} == files
    assert older.exists() == (not claim)
    assert own is not None
    for each in (own, str(newest)):
        results = resumed(tmp_path / "three", each)
        assert last_of_each_key(results) == expected_sums(COUNT, KEYS)


def test_a_claimed_older_one_leaves_the_files_that_a_damaged_newer_one_may_need(tmp_path: Path) -> None:
    newest = retained_checkpoint(tmp_path)
    whole = (newest / "MANIFEST").read_bytes()
    damage(newest)
    client = waiting(tmp_path, newest.with_name("chk-1"), **CLAIM)
    client.trigger_checkpoint()
    client.close()
    assert not newest.with_name("chk-1").exists()
    # Somebody has a copy of the manifest.
    (newest / "MANIFEST").write_bytes(whole)
    assert last_of_each_key(resumed(tmp_path / "three", str(newest))) == expected_sums(COUNT, KEYS)


@pytest.mark.parametrize("taken", [savepoint, retained_checkpoint])
def test_ids_go_on_above_the_one_that_the_job_is_started_from(
    tmp_path: Path, taken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    original = taken(tmp_path)
    client = waiting(tmp_path, original)
    assert client.trigger_checkpoint() == int(original.name.rpartition("-")[2]) + 1
    client.close()
    assert "newer checkpoints" not in caplog.text


@pytest.mark.parametrize("is_root", [False, True])
def test_a_job_starts_from_the_latest_checkpoint_in_a_directory(tmp_path: Path, is_root: bool) -> None:
    original = retained_checkpoint(tmp_path)
    directory = original.parent.parent if is_root else original.parent
    client = waiting(tmp_path, Path(f"latest:{directory}"), **CLAIM)
    client.trigger_checkpoint()
    own = client.report().newest_checkpoint
    client.close()
    assert not original.exists()
    assert own is not None
    assert last_of_each_key(resumed(tmp_path / "three", own)) == expected_sums(COUNT, KEYS)


def test_a_command_with_claim_can_be_repeated_before_its_job_has_a_checkpoint(tmp_path: Path) -> None:
    """The driver checks the claim before it starts the job, too. The job before may still run."""
    original = retained_checkpoint(tmp_path)
    directory = {"execution.checkpointing.dir": str(original.parents[1])}
    latest = Path(f"latest:{original.parents[1]}")
    killed = waiting(tmp_path, latest, **CLAIM, **directory)
    while not (original / "CLAIMED").exists():
        killed.wait(0.01)
    client = waiting(tmp_path, latest, **CLAIM, **directory)
    client.trigger_checkpoint()
    own = client.report().newest_checkpoint
    client.close()
    killed.close()
    assert not original.exists()
    assert own is not None
    assert last_of_each_key(resumed(tmp_path / "three", own)) == expected_sums(COUNT, KEYS)
