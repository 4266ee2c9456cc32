"""Cuts between the hosts of a job: `python -m tests.ray.partitions` does all of them (`make partitions`).

A job counts numbers per key on two hosts. Ray's head, the coordinator and the driver are on a third. Each
scenario cuts some links for some time. The output must be exact. The time from the end of the cut to the end
of the next checkpoint is measured: every subtask needs the barriers of all others for it.

`python -m tests.ray.partitions --on-head PREFIX RAY_DIRECTORY DIRECTORY SCENARIO…` is the driver.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import cloudpickle
import ray
from tidegate.common.failpoints import VARIABLE
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome

from ..chaos import job as chaos_job
from . import jobs
from .hosts import HEAD, NODE_A, NODE_B, Hosts, Pair, connected_hosts

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
COUNT = 100_000
DEADLINE_S = 240
LIMIT_S = 40
"""How long a job may take to complete a checkpoint after a cut, also on a busy machine."""
ALIGNING_MS = 1_000
A_AND_B = ((NODE_A, NODE_B), (NODE_B, NODE_A))
HEAD_AND_A = ((HEAD, NODE_A), (NODE_A, HEAD))
OPTIONS = {
    "execution.checkpointing.interval": "500 ms",
    "heartbeat.timeout": "15 s",
}
HELD_UP = "process@numbers/0:100:sleep={}"
"""A source that stops for some seconds: the barriers of the other one wait for its."""


@dataclass(frozen=True)
class Cut:
    """What carries nothing, and for how long."""

    pairs: tuple[Pair, ...]
    seconds: float


@dataclass(frozen=True)
class Scenario:
    """Cuts of one job.

    Attributes:
        cuts: One after the other, each when the job has got over the one before.
        restarts: Whether the job may restart; if not, its links must resume.
        needs_failure: The cut lasts, longer than its time, until an attempt has failed.
        moment: `running`, `aligning` or `starting`.
        held_up_s: How long a source stops, for `aligning`: longer than `ALIGNING_MS` and the cut together.
        options: Further options of the job.
    """

    cuts: tuple[Cut, ...]
    restarts: bool = False
    needs_failure: bool = False
    moment: str = "running"
    held_up_s: int = 8
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a cut did.

    Attributes:
        scenario: The name of its scenario.
        cut: Which links, and for how long in seconds.
        resumed_s: From the end of the cut to that of the first checkpoint that was triggered after its begin;
            negative if the job completed one during the cut.
        restarts: How often the job restarted because of it.
        causes: Why.
    """

    scenario: str
    cut: str
    resumed_s: float
    restarts: int
    causes: list[str]


UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}
SCENARIOS: dict[str, Scenario] = {
    "short": Scenario((Cut(A_AND_B, 2), Cut(A_AND_B[:1], 2), Cut(HEAD_AND_A, 2))),
    "timeout": Scenario(
        (Cut(A_AND_B, 1),), True, True, options={"tidegate.network.reconnect-timeout": "2 s"}
    ),
    "link": Scenario((Cut(A_AND_B, 2), Cut(A_AND_B, 5))),
    "half-open": Scenario(tuple(Cut((pair,), seconds) for seconds in (2, 5) for pair in A_AND_B)),
    "head": Scenario((Cut(HEAD_AND_A, 2), Cut(HEAD_AND_A, 5))),
    "aligning-short": Scenario((Cut(A_AND_B, 2),), moment="aligning", held_up_s=5),
    "aligning-unaligned-short": Scenario(
        (Cut(A_AND_B, 2),), moment="aligning", held_up_s=5, options=UNALIGNED
    ),
    "starting-short": Scenario((Cut(A_AND_B, 2),), moment="starting"),
    "aligning": Scenario((Cut(A_AND_B, 5),), moment="aligning"),
    "aligning-unaligned": Scenario((Cut(A_AND_B, 5),), moment="aligning", options=UNALIGNED),
    "starting": Scenario((Cut(A_AND_B, 5),), moment="starting"),
    "link-long": Scenario((Cut(A_AND_B, 60),), True, True),
    "half-open-long": Scenario((Cut(A_AND_B[:1], 60), Cut(A_AND_B[1:], 60)), True, True),
    "aligning-long": Scenario((Cut(A_AND_B, 60),), True, True, "aligning"),
    "aligning-unaligned-long": Scenario((Cut(A_AND_B, 60),), True, True, "aligning", options=UNALIGNED),
    "starting-long": Scenario((Cut(A_AND_B, 60),), True, True, "starting"),
    # The last one: Ray counts a node as dead that its head does not reach for 65 s, and ends it.
    "head-long": Scenario((Cut(HEAD_AND_A, 60),), True, True),
}
FAST = ("short", "timeout")
ON_HEAD = "--on-head"


class PartitionError(Exception):
    """A job did not do what it had to after a cut."""


# ---------------------------------------------------------------- the driver, on the head


class Run:
    """One job under the cuts of a scenario."""

    def __init__(self, hosts: Hosts, directory: Path, name: str) -> None:
        self._hosts = hosts
        self._name = name
        self._scenario = SCENARIOS[name]
        options = {**OPTIONS, **self._scenario.options}
        self._job = chaos_job.ChaosJob(directory, COUNT, options=options)

    def measure(self) -> Iterable[Measured]:
        """Run the job, cut, compare the output; what was measured."""
        is_starting = self._scenario.moment == "starting"
        if is_starting:
            self._hosts.cut(*self._scenario.cuts[0].pairs)
        with closing(self._start()) as client:
            for cut in self._scenario.cuts:
                self._moment(client)
                yield self._measure(client, cut, is_cut=is_starting)
            self._job.open_gate()
            if client.wait(DEADLINE_S) is not JobStatus.FINISHED:
                raise PartitionError(f"{self._name}: the job did not end: {client.report().cause}")
            client.result()
        missing, doubled = self._job.missing_and_doubled()
        if missing or doubled:
            raise PartitionError(f"{self._name}: {missing} records missing, {doubled} too many")

    def _start(self) -> JobClient:
        if self._scenario.moment != "aligning":
            return self._job.start()
        os.environ[VARIABLE] = HELD_UP.format(self._scenario.held_up_s)
        try:
            return self._job.start()
        finally:
            del os.environ[VARIABLE]

    def _moment(self, client: JobClient) -> None:
        """Wait until the job is where it is to be cut."""
        if self._scenario.moment == "starting":
            _eventually("the tasks", client, lambda: len(client.processes()) == 4)
        elif self._scenario.moment == "aligning":
            _eventually("an alignment", client, lambda: _is_aligning(client))
        else:
            now_ms = _now_ms()
            _eventually("a checkpoint", client, lambda: _completed_since(client, now_ms))
        on = sorted(self._hosts.host_of(pid) for pid in client.processes().values())
        if set(on) != {NODE_A, NODE_B}:
            raise PartitionError(f"{self._name}: the tasks are on {on}, so nothing travels between the nodes")

    def _measure(self, client: JobClient, cut: Cut, is_cut: bool) -> Measured:
        before = client.report()
        if not is_cut:
            self._hosts.cut(*cut.pairs)
        start_ms = _now_ms()
        try:
            client.wait(cut.seconds)
            if self._scenario.needs_failure:
                _eventually("a failure", client, lambda: client.report().restarts > before.restarts)
        finally:
            self._hosts.heal(*cut.pairs)
        healed_ms = _now_ms()
        done_ms = _eventually("a checkpoint", client, lambda: _completed_since(client, start_ms))
        resumed_s = (done_ms - healed_ms) / 1_000
        report = client.report()
        restarts = report.restarts - before.restarts
        recoveries = list(report.statistics.recoveries)[len(before.statistics.recoveries) :]
        causes = [one.cause for one in recoveries]
        if restarts and not self._scenario.restarts:
            raise PartitionError(f"{self._name}: restarted {restarts} times: {causes}")
        if resumed_s > LIMIT_S:
            raise PartitionError(
                f"{self._name}: resumed after {resumed_s:.1f} s; {restarts} restarts: {causes}"
            )
        links = ", ".join(" > ".join(pair) for pair in cut.pairs)
        lasted_s = (healed_ms - start_ms) / 1_000
        return Measured(self._name, f"{links}: {lasted_s:.0f} s", round(resumed_s, 1), restarts, causes)


def _eventually(what: str, client: JobClient, question: Callable[[], T]) -> T:
    return jobs.eventually(what, question, client, DEADLINE_S)


def _completed_since(client: JobClient, moment_ms: int) -> float:
    """When the first checkpoint was completed that was triggered after a moment, 0 if none was."""
    report = client.report()
    if report.status.is_globally_terminal_state():
        raise PartitionError(f"the job ended as {report.status.name}: {report.cause}")
    ends = [
        one.triggered_ms + one.duration_ms
        for one in report.statistics.checkpoints
        if one.triggered_ms > moment_ms and one.outcome is CheckpointOutcome.COMPLETED
    ]
    return min(ends, default=0.0) if report.status is JobStatus.RUNNING else 0.0


def _is_aligning(client: JobClient) -> bool:
    report, latest_ms = client.report(), _now_ms() - ALIGNING_MS
    in_progress = report.statistics.in_progress.values()
    return report.status is JobStatus.RUNNING and any(one.triggered_ms < latest_ms for one in in_progress)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def drive(made: Hosts, directory: Path, names: Iterable[str]) -> None:
    """Run scenarios, and print what was measured, a line for each cut."""
    if made.host_of(os.getpid()) != HEAD:
        raise PartitionError("the driver runs on the head only: elsewhere its traffic would leave the hosts")
    for module in (chaos_job, jobs, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    ray.init(address=made.ray_address, log_to_driver=False, logging_level="ERROR")
    try:
        for name in names:
            (directory / name).mkdir()
            for measured in Run(made, directory / name, name).measure():
                print(json.dumps(asdict(measured)), flush=True)
    finally:
        ray.shutdown()


# ---------------------------------------------------------------- what starts it


def run_on_head(made: Hosts, directory: Path, *names: str) -> subprocess.Popen[str]:
    """Start the driver with some scenarios on the head."""
    module = [sys.executable, "-m", "tests.ray.partitions", ON_HEAD, made.prefix, made.ray_directory]
    return subprocess.Popen(
        made.command(HEAD, [*module, str(directory), *names]),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def main() -> int:
    if sys.argv[1:2] == [ON_HEAD]:
        prefix, ray_directory, directory, *names = sys.argv[2:]
        drive(Hosts(prefix, ray_directory), Path(directory), names)
        return 0
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # Otherwise it would leave the hosts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = sys.argv[1:] or [name for name in SCENARIOS if name not in FAST]
    code = 0
    with connected_hosts() as made, tempfile.TemporaryDirectory() as directory:
        made.start_cluster()
        for name in names:
            driver = run_on_head(made, Path(directory), name)
            output, errors = driver.communicate()
            print(output, end="", flush=True)
            if driver.returncode:
                code = 1
                print(f"{name} went wrong:\n{errors}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
