"""Finds a running job on a Ray cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..common.errors import JobExecutionError, JobNotFoundError, TidegateError
from ..common.job_id import JobID
from ..coordinator.control.job_client import JobClient
from ..coordinator.monitoring.job_report import JobReport

_SHORTEST_START = 4

address_option = click.option(
    "--address", metavar="HOST:PORT", help="The Ray cluster; else RAY_ADDRESS, else the one on this machine."
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds to wait.",
)


def job_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument JOB: an id, the start of one, or a name; shells complete it."""
    return click.argument("job", shell_complete=_complete_job)(command)


def reports(address: str | None) -> dict[str, tuple[JobClient, JobReport]]:
    """The jobs of a cluster and how they are, by id; those that end while they are asked are left out."""
    # Here and not above: commands about files must not pay for importing Ray.
    from ..actors.deployment import known_jobs
    from ..actors.ray_connection import connect

    with _ended_by_ctrl_c():
        connect(address)
    found = {}
    for job_id, handle in known_jobs(address).items():
        client = JobClient(JobID(job_id), handle)
        try:
            found[job_id] = (client, client.report())
        except JobExecutionError:
            continue
    return found


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process itself: while Ray tries to connect, for up to a minute, no Python runs."""
    heard = signal.getsignal(signal.SIGINT)
    if heard in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


def find_job(job: str, address: str | None) -> JobClient:
    """The one job with this id, start of an id, or name. Jobs that have not ended go first.

    Raises:
        ClusterUnreachableError: There is no way to the cluster.
        JobNotFoundError: There is no such job, or more than one.
    """
    there = reports(address)
    fitting = [
        job_id
        for job_id, (_, report) in there.items()
        if job_id == job or report.job_name == job or (len(job) >= _SHORTEST_START and job_id.startswith(job))
    ]
    live = [each for each in fitting if not there[each][1].status.is_globally_terminal_state()]
    chosen = live or fitting
    if len(chosen) == 1:
        return there[chosen[0]][0]
    listed = ", ".join(f"{job_id} ({report.job_name})" for job_id, (_, report) in there.items()) or "no job"
    how_many = "more than one job is" if chosen else "no job is"
    raise JobNotFoundError(f"{how_many} called {job!r}; there is: {listed}. Give an id of `tidegate list`")


def _complete_job(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    address = context.params.get("address")
    is_near = address or os.environ.get("RAY_ADDRESS") or Path("/tmp/ray/ray_current_cluster").exists()
    try:
        there = reports(address) if is_near else {}
    except TidegateError:
        # A shell has no place for an error: nothing to offer.
        return []
    names = {report.job_name: job_id for job_id, (_, report) in there.items()}
    offered = {**{job_id: report.job_name for job_id, (_, report) in there.items()}, **names}
    return [
        CompletionItem(value, help=help) for value, help in offered.items() if value.startswith(incomplete)
    ]
