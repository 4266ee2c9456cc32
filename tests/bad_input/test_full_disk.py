"""A full disk costs checkpoints, with the reason, and never those that are complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("full_disk.py"))
FULL = r"No space left on device|File too large"


def run(
    directory: Path, disk: str, tolerable: int, memory: str = "64 mb", until: str = "ABORTED"
) -> dict[str, Any]:
    """Run the program where its mounts are its own, as far as this machine lets us."""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    own_mounts = subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode == 0
    command = [sys.executable, PROGRAM, str(directory), disk, str(tolerable), memory, until]
    done = subprocess.run(
        [*(unshare if own_mounts else []), *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**outcome, "log": done.stderr}


def test_a_job_goes_on_while_the_disk_is_full_and_takes_checkpoints_again_when_it_is_not(
    tmp_path: Path,
) -> None:
    outcome = run(tmp_path, "checkpoints", tolerable=1_000_000)
    assert re.search(FULL, outcome["reason"])
    # Where an old checkpoint was deleted the snapshots may find room, and then the manifest does not.
    assert "task 'count" in outcome["reason"] or "its manifest could not be written" in outcome["reason"]
    if outcome["is_mounted"]:
        # Else a limit holds for all files, and which one meets it first is chance.
        assert "/checkpoints/" in outcome["reason"]
        assert "space" in outcome["reason"]
    assert outcome["newest_is_whole"]
    assert outcome["error"] == ""
    assert outcome["is_exact"]


def test_a_full_local_disk_does_not_matter_to_state_that_fits_in_memory(tmp_path: Path) -> None:
    outcome = run(tmp_path, "local", tolerable=0, until="COMPLETED")
    if outcome["is_mounted"]:
        assert outcome["error"] == ""
        assert outcome["is_exact"]
    assert outcome["newest_is_whole"]


def test_state_that_finds_room_neither_in_memory_nor_on_disk_ends_the_job_with_the_reason(
    tmp_path: Path,
) -> None:
    outcome = run(tmp_path, "local", tolerable=1_000_000, memory="64 kb")
    assert re.search(FULL, outcome["error"])
    assert "count" in outcome["error"]
    if outcome["is_mounted"]:
        assert "cannot be stored" in outcome["error"]
        assert "/local/" in outcome["error"]
    assert outcome["newest_is_whole"]
    assert "tidegate.state.lmdb.memory is 65,536 bytes" in outcome["log"]
    # The spills before the failure are logged once, without the places in the code.
    assert outcome["log"].count("could not be moved to local disk") <= 1
    assert "the backend is closed" not in outcome["log"]
    assert "Traceback" not in outcome["log"]


def test_a_job_that_tolerates_no_failed_checkpoint_ends_with_the_reason(tmp_path: Path) -> None:
    outcome = run(tmp_path, "checkpoints", tolerable=0)
    assert re.search(FULL, outcome["error"])
    assert "tolerable-failed-checkpoints" in outcome["error"]
    assert outcome["newest_is_whole"]


CUT_SHORT = """
import resource, sys
from tidegate.common.errors import CheckpointStorageError
from tidegate.state.lmdb.environment import LmdbEnvironment, WriteBatch

environment = LmdbEnvironment(sys.argv[1], 1 << 24, "count")
keys = [b"%04d" % number for number in range(1_000)]
# In the midst of a page, so that a write comes to a part of its end.
resource.setrlimit(resource.RLIMIT_FSIZE, (100_001, resource.RLIM_INFINITY))
try:
    environment.write(WriteBatch(keys, [bytes(1_000)] * len(keys), []))
except CheckpointStorageError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
environment.write(WriteBatch(keys, [b"value"] * len(keys), []))
assert environment.get(b"0999") == b"value"
environment.close()
"""


def test_a_write_of_local_state_that_the_disk_cuts_short_says_that_it_is_full(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CUT_SHORT, str(tmp_path / "local")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    for words in ("operator 'count'", "Input/output error", "No space left on device", "free space there"):
        assert words in done.stdout


def test_a_truncated_file_of_local_state_fails_the_attempt_by_name_and_the_job_recovers(
    tmp_path: Path,
) -> None:
    program = str(Path(__file__).with_name("truncated_state.py"))
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert f"the file {outcome['file']} of its local state was truncated" in outcome["failures"][-1]
    assert outcome["is_exact"]
