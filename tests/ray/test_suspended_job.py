"""A RayJob of `k8s/` is suspended and resumed: everything is killed, and the same command line runs again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path

import pytest

from .jobs import Gate, eventually, expected, records_in
from .test_job_submit import (
    TIDEGATE,
    TIMEOUT_S,
    Ended,
    head_command,
    pids_of_session,
    ports_of_head,
    run,
)

pytestmark = pytest.mark.timeout(3 * TIMEOUT_S)
COUNT = 400
CONFIG = Path(__file__).parents[2] / "k8s" / "overlays" / "job-on-volume" / "config.yaml"
# Sets nothing that config.yaml sets.
DRIVER = """
import sys
from glob import glob
from pathlib import Path

import jobs
from tidegate.common import Configuration

directory, count = Path(sys.argv[1]), int(sys.argv[2])
settings = Configuration()
settings.set_string("parallelism.default", "1")
counts = jobs.counts(settings, count, jobs.Gate(directory))
counts.sink_to(jobs.FileSink(directory / "out.txt")).name("sink").uid("sink")
counts.get_execution_environment().execute("suspended")
print("the program went on")
"""


class Deployment:
    """The volume of a RayJob, and its entrypoint."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoints = directory / "checkpoints"
        self.checkpoints.mkdir()
        (directory / "driver.py").write_text(DRIVER)
        shutil.copy(Path(__file__).with_name("jobs.py"), directory)
        text = CONFIG.read_text("utf-8").replace("file:///checkpoints", f"file://{self.checkpoints}")
        text = text.replace("local-dir: /state", f"local-dir: {directory / 'state'}")
        (directory / "config.yaml").write_text(text)

    @property
    def jobs(self) -> list[str]:
        """The runs that have begun, by the ids of their jobs."""
        return [Path(path).parents[1].name for path in glob(f"{self.checkpoints}/*/epochs/1")]

    def has_checkpoint(self) -> bool:
        return bool(glob(f"{self.checkpoints}/*/chk-*/MANIFEST"))

    def entrypoint(self, interval: str, *options: str) -> list[str]:
        conf = ("--conf-file", "config.yaml", "-D", f"execution.checkpointing.interval={interval}", *options)
        return [*TIDEGATE, "run", *conf, "driver.py", str(self.directory), str(COUNT)]

    def records(self) -> list[tuple[int, int]]:
        return sorted(records_in(self.directory / "out.txt"))


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster, whose processes are all killed in the end; its address."""
    temp_dir, ports = tempfile.mkdtemp(prefix="tgs", dir="/tmp"), ports_of_head()
    process = subprocess.Popen(
        head_command(ports, temp_dir), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert any("Ray runtime started" in line for line in process.stdout)
        yield f"127.0.0.1:{ports[0]}"
    finally:
        killed(process)
        shutil.rmtree(temp_dir, ignore_errors=True)


def killed(process: subprocess.Popen[str]) -> None:
    """Kill a process and all of its session."""
    process.kill()
    process.wait()
    for pid in pids_of_session(process.pid):
        # Some end with the first.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def started(deployment: Deployment, interval: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The entrypoint, killed in the end."""
    process = subprocess.Popen(
        deployment.entrypoint(interval, *options),
        cwd=deployment.directory,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        killed(process)


def test_a_resumed_job_continues_from_its_latest_checkpoint(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    # Killed before its first checkpoint, so that the second run starts from nothing, too.
    with started(deployment, "48 h", "--local"):
        eventually("the first run", lambda: deployment.jobs, deadline_s=TIMEOUT_S)
    (first,) = deployment.jobs
    assert not deployment.has_checkpoint()
    with cluster() as address, started(deployment, "200 ms", "--address", address):
        eventually("a checkpoint", deployment.has_checkpoint, deadline_s=TIMEOUT_S)
        assert len(deployment.jobs) == 2
        assert first in deployment.jobs
    Gate(tmp_path).open()
    with cluster() as address:
        done = run(deployment.entrypoint("200 ms", "--address", address), {}, cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert "the program went on" in done.out
    assert deployment.records() == sorted(expected(COUNT).elements())
    # The run finished before KubeRay noticed, say: the next one has nothing left to do.
    again = local(deployment)
    assert again.code == 0, again.err
    assert "starts from nothing" not in done.err + again.err
    assert deployment.records() == sorted(expected(COUNT).elements())


def local(deployment: Deployment) -> Ended:
    return run(deployment.entrypoint("200 ms", "--local"), {}, cwd=deployment.directory)


def test_a_deleted_job_continues_where_its_savepoint_was_taken(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with started(deployment, "48 h", "--local") as process:
        eventually("the first run", lambda: deployment.jobs, deadline_s=TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143, said
    assert f"No run has completed a checkpoint in file://{deployment.checkpoints}, so the job" in said
    assert "stopped with savepoint" in said
    # What the first run emitted until then is committed.
    before = deployment.records()
    Gate(tmp_path).open()
    done = local(deployment)
    assert done.code == 0, done.err
    assert deployment.records() == sorted(expected(COUNT).elements())
    assert len(before) < len(deployment.records())
