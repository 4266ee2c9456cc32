"""Drivers submitted to a running Ray that asks for a token, and the command line beside them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from ray.job_submission import JobStatus, JobSubmissionClient

from ..free_ports import free_ports
from .jobs import Gate, assert_gone, eventually, expected, records_in

RAY = [sys.executable, "-m", "ray.scripts.scripts"]
TIDEGATE = [sys.executable, "-m", "tidegate.console"]
TIMEOUT_S = 300
"""Each command starts a Python with Ray, which takes a loaded machine long."""
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)
COUNT = 400
# `jobs` lies beside the driver, `tariffs` comes in a wheel; functions of both run in task processes.
DRIVER = """
import sys
from pathlib import Path

import jobs
import tariffs

directory, count, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
settings = jobs.configuration(directory, parallelism=1, interval_ms=1_000)
settings.set_string("execution.checkpointing.savepoint-dir", str(directory / "savepoints"))
settings.set_string("tidegate.coordinator.linger", "5 s")
counts = jobs.counts(settings, count, jobs.Gate(directory))
stream = counts.map(tariffs.charged).name("charged").uid("charged")
stream.sink_to(jobs.FileSink(directory / "out.txt")).name("sink").uid("sink")
env = stream.get_execution_environment()
if how == "waits":
    env.execute(directory.name)
    print("the program went on")
else:
    client = env.execute_async(directory.name)
    client.trigger_checkpoint()
    print(client.get_job_id())
"""
SMALL_DRIVER = """
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(range(10)).uid("numbers").add_sink(lambda value: None).uid("sink")
env.execute("small")
"""
WHEEL = """
def charged(pair):
    return pair
"""


@dataclass(frozen=True)
class Head:
    """A Ray of its own, with a dashboard, and a directory with a driver and what it needs."""

    address: str
    dashboard: str
    project: Path
    runtime_env: dict[str, Any]
    """`tidegate list` with a wrong token."""

    @property
    def client(self) -> JobSubmissionClient:
        return JobSubmissionClient(self.dashboard)

    def submit(self, *command: str, options: tuple[str, ...] = (), **changes: str) -> Ended:
        """`ray job submit --working-dir . -- python COMMAND`."""
        place = ["--address", self.dashboard, "--runtime-env-json", json.dumps(self.runtime_env)]
        entry = ["job", "submit", *place, "--working-dir", ".", *options, "--", *command]
        return run([*RAY, *entry], cwd=self.project, changes=changes)

    def tidegate(self, *command: str, cwd: Path | None = None, **changes: str) -> Ended:
        return run([*TIDEGATE, *command], cwd=cwd, changes={"RAY_ADDRESS": self.address, **changes})

    def jobs(self, *options: str) -> list[dict[str, Any]]:
        """What `tidegate list` finds."""
        listed: list[dict[str, Any]] = json.loads(self.tidegate("list", "--json", *options).out)["jobs"]
        return listed

    def status(self, job: str) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.tidegate("status", "--json", job).out)
        return status


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


def run(command: list[str], changes: dict[str, str], cwd: Path | None = None) -> Ended:
    environment = {**os.environ, **changes}
    done = subprocess.run(
        command,
        env={name: value for name, value in environment.items() if value},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def wheel(directory: Path) -> Path:
    """A wheel of one module, made by hand: nothing is taken from an index."""
    path = directory / "tariffs-1.0-py3-none-any.whl"
    about = "tariffs-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tariffs.py", WHEEL)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tariffs\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def ports_of_head() -> list[int]:
    """The ports for `head_command`."""
    first = free_ports(5)
    return list(range(first, first + 5))


def head_command(ports: list[int], temp_dir: str) -> list[str]:
    names = (
        "port",
        "dashboard-port",
        "ray-client-server-port",
        "dashboard-agent-listen-port",
        "metrics-export-port",
    )
    options = [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
    return [
        *RAY,
        *("start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=2"),
        *("--object-store-memory=100000000", "--min-worker-port=0", "--max-worker-port=0"),
        *("--include-dashboard=true", f"--temp-dir={temp_dir}", "--disable-usage-stats"),
        *options,
    ]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    home, project = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("project")
    (project / "driver.py").write_text(DRIVER)
    shutil.copy(Path(__file__).with_name("jobs.py"), project)
    runtime_env = {"py_modules": [str(wheel(tmp_path_factory.mktemp("wheel")))]}
    temp_dir = tempfile.mkdtemp(prefix="tgh", dir="/tmp")
    ports = ports_of_head()
    process = subprocess.Popen(
        head_command(ports, temp_dir),
        env={**os.environ, "HOME": str(home), "RAY_JOB_STOP_WAIT_TIME_S": str(TIMEOUT_S)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                break
        else:
            pytest.fail("the head did not start:\n" + "".join(said))
        address = f"127.0.0.1:{ports[0]}"
        yield Head(address, f"http://127.0.0.1:{ports[1]}", project, runtime_env)
    finally:
        # A session of its own, so this reaches every process of this head and of no other Ray.
        process.kill()
        process.wait()
        for pid in pids_of_session(process.pid):
            # Some end with the head.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(temp_dir, ignore_errors=True)


def pids_of_session(session: int) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    pids.append(int(entry.name))
            except ProcessLookupError:
                continue
    return pids


def place(tmp_path: Path, name: str, is_open: bool = False) -> Path:
    """The directory of one job."""
    directory = tmp_path / name
    directory.mkdir()
    if is_open:
        Gate(directory).open()
    return directory


def test_a_submitted_driver_finds_its_modules_and_its_wheel(head: Head, tmp_path: Path) -> None:
    directory = place(tmp_path, "submitted", is_open=True)
    done = head.submit(sys.executable, "driver.py", str(directory), str(COUNT), "waits")
    assert done.code == 0, done.out + done.err
    assert "the program went on" in done.out
    # What its processes write goes to the driver: nothing of that may come from what nobody asked for.
    assert "DeprecationWarning" not in done.out + done.err
    assert sorted(records_in(directory / "out.txt")) == sorted(expected(COUNT).elements())


def test_without_the_token_nothing_runs_and_the_error_says_so(head: Head, tmp_path: Path) -> None:
    directory = place(tmp_path, "refused", is_open=True)
    command = (sys.executable, "driver.py", str(directory), str(COUNT), "waits")
    for token in ("0" * 64, ""):
        refused = head.submit(*command, RAY_AUTH_TOKEN=token, HOME="/none")
        assert refused.code != 0
        assert "authentication" in refused.err
        assert "token" in refused.err
    assert list(directory.iterdir()) == [directory / "gate-is-open"]
    causes = {
        "refuses the token in RAY_AUTH_TOKEN": {"RAY_AUTH_TOKEN": "0" * 64},
        "/none/.ray/auth_token holds none": {"RAY_AUTH_TOKEN": "", "HOME": "/none"},
        "RAY_AUTH_MODE is not set": {"RAY_AUTH_MODE": ""},
    }
    for cause, changes in causes.items():
        listed = head.tidegate("list", **changes)
        assert (listed.code, listed.out) == (4, "")
        # No log of Ray, which would try for 20 seconds.
        (line,) = listed.err.splitlines()
        assert line.startswith(f"tidegate: Cannot reach the Ray cluster at {head.address}: ")
        assert cause in line


async def until_end(client: JobSubmissionClient, driver: str) -> None:
    """Wait for the end of a driver: of what it prints."""
    async for _ in client.tail_job_logs(driver):
        pass


def test_jobs_go_on_without_their_drivers_and_do_not_see_each_other(head: Head, tmp_path: Path) -> None:
    counts = {"first": COUNT, "second": 2 * COUNT}
    directories = {name: place(tmp_path, name) for name in counts}
    drivers, client = [], head.client
    for name, count in counts.items():
        command = (sys.executable, "driver.py", str(directories[name]), str(count), "leaves")
        drivers.append(
            client.submit_job(
                entrypoint=" ".join(command),
                runtime_env={"working_dir": str(head.project), **head.runtime_env},
            )
        )
    for driver in drivers:
        asyncio.run(until_end(client, driver))
        assert client.get_job_status(driver) is JobStatus.SUCCEEDED, client.get_job_logs(driver)
    assert {job["name"]: job["status"] for job in head.jobs()} == dict.fromkeys(counts, "RUNNING")

    processes = {name: head.status(name)["processes"] for name in counts}
    assert set(processes["first"]) == set(processes["second"])
    assert not set(processes["first"].values()) & set(processes["second"].values())
    for name, count in counts.items():
        Gate(directories[name]).open()
        assert_gone(processes[name].values())
        assert sorted(records_in(directories[name] / "out.txt")) == sorted(expected(count).elements())
    eventually("the end of the coordinators", lambda: head.jobs("--all") == [], deadline_s=TIMEOUT_S)


def test_ray_job_stop_ends_in_a_savepoint_from_which_the_job_goes_on(head: Head, tmp_path: Path) -> None:
    directory = place(tmp_path, "stopped")
    arguments = ("driver.py", str(directory), str(COUNT), "waits")
    tidegate = (*TIDEGATE, "run", "--on-stop-signal", "stop-with-savepoint")
    done = head.submit(*tidegate, *arguments, options=("--no-wait", "--submission-id", "to-be-stopped"))
    assert done.code == 0, done.out + done.err
    # A look at a directory is cheap, and a process that lists the jobs is not.
    eventually("a manifest", lambda: glob(f"{directory}/checkpoints/*/chk-*/MANIFEST"), deadline_s=TIMEOUT_S)
    eventually(
        "a checkpoint",
        lambda: [job for job in head.jobs() if job["checkpoints"]["completed"]],
        deadline_s=TIMEOUT_S,
    )
    processes = head.status("stopped")["processes"]

    stopped = run([*RAY, "job", "stop", "--address", head.dashboard, "to-be-stopped"], changes={})
    assert stopped.code == 0, stopped.err
    assert_gone(processes.values())
    logs = head.client.get_job_logs("to-be-stopped")
    (savepoint,) = (directory / "savepoints").iterdir()
    assert f"stopped with savepoint {savepoint}\n" in logs
    assert "the program went on" not in logs

    Gate(directory).open()
    again = head.submit(*tidegate, "--from-savepoint", str(savepoint), *arguments)
    assert again.code == 0, again.out + again.err
    assert sorted(records_in(directory / "out.txt")) == sorted(expected(COUNT).elements())


def small_checkpoint(directory: Path) -> str:
    """A checkpoint of the small driver, which is in the same directory; its path from there."""
    (directory / "small.py").write_text(SMALL_DRIVER)
    settings = ("execution.checkpointing.interval=1 h", "tidegate.checkpointing.retain-on-finish=true")
    place = f"execution.checkpointing.dir={directory / 'checkpoints'}"
    options = [word for each in (*settings, place) for word in ("-D", each)]
    done = run([*TIDEGATE, "run", "--local", *options, "small.py"], cwd=directory, changes={})
    assert done.code == 0, done.err
    (manifest,) = directory.glob("checkpoints/*/chk-*/MANIFEST")
    return str(manifest.parent.relative_to(directory))


def test_a_relative_savepoint_is_found_from_the_directory_of_the_driver(head: Head, tmp_path: Path) -> None:
    checkpoint = small_checkpoint(place(tmp_path, "relative"))
    restored = head.tidegate("run", "-s", checkpoint, "small.py", cwd=tmp_path / "relative")
    assert restored.code == 0, restored.err


def test_a_job_that_fails_at_its_start_is_not_submitted_and_its_cause_stays_known(
    head: Head, tmp_path: Path
) -> None:
    # The driver can read this address, and the coordinator finds its own working directory there.
    checkpoint = f"/proc/self/cwd/{small_checkpoint(place(tmp_path, 'elsewhere'))}"
    command = ("run", "--json", "--detached", "-D", "tidegate.coordinator.linger=5 s", "-s", checkpoint)
    done = head.tidegate(*command, "small.py", cwd=tmp_path / "elsewhere")
    assert done.code == 5, done.err
    document = json.loads(done.out)
    cause = document["error"]["message"]
    assert checkpoint in cause
    assert "all nodes" in cause
    (job,) = document["jobs"]
    logged = json.loads(head.tidegate("logs", "--json", job["id"]).out)
    assert cause in "\n".join(line["text"] for line in logged["lines"])
    status = head.status(job["id"])
    assert (status["status"], status["cause"]) == ("FAILED", cause)
    assert job["id"] in [each["id"] for each in head.jobs("--all")]
