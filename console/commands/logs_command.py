"""`tidegate logs`: what the processes of a job have logged and printed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ...common.errors import JobNotFoundError
from ...telemetry.logs import place_of_line
from ..jobs import address_option, find_job, job_argument
from ..output import progress, say
from ..text import printable
from .command import Command, is_json

if TYPE_CHECKING:
    from ...actors.logs import LogLine

_COORDINATOR = "coordinator"
_JOB_ID = re.compile(r"[0-9a-f]{32}")


@click.command(
    cls=Command,
    examples=[
        "tidegate logs flights",
        "tidegate logs flights --follow --operator Totals --subtask 1",
        "tidegate logs flights --operator coordinator --tail 500",
    ],
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new lines until Ctrl-C.")
@click.option("--operator", metavar="NAME", help="Only what is logged by this operator, or `coordinator`.")
@click.option("--subtask", type=click.IntRange(min=1), help="Only of this subtask, counted from 1.")
@click.option(
    "--tail", type=click.IntRange(min=1), default=100, show_default=True, help="The last lines of each file."
)
@address_option
@job_argument
def logs(
    job: str, follow: bool, operator: str | None, subtask: int | None, tail: int, address: str | None
) -> None:
    """Print the logs and the output of the processes of JOB.

    These are its coordinator and its tasks. Ray's dashboard reads the files, also on other nodes and of
    processes that have ended. JOB may have ended if it is given by its whole id. Output is shown only if no
    operator or subtask is chosen, since operators in one process share it.
    """
    if follow and is_json():
        raise click.UsageError("--follow has no end, so it cannot be one JSON document")
    job_id = _job_id(job, address)
    from ...actors.logs import followed_lines, log_sources, stored_lines

    is_chosen = operator is not None or subtask is not None
    sources = [
        source
        for source in log_sources(job_id, address)
        if (operator != _COORDINATOR or source.role == _COORDINATOR)
        and (source.stream == "log" or not is_chosen)
    ]
    if not sources:
        raise JobNotFoundError(
            f"the nodes of the cluster have no logs of job {job_id}; with env.log.dir they are elsewhere"
        )
    if follow:
        for line in _wanted(followed_lines(sources, tail), operator, subtask):
            click.echo(printable(_text(line)))
        return
    with progress("reading"):
        lines = list(_wanted(stored_lines(sources, tail), operator, subtask))
    document = {"id": job_id, "lines": [_described(line) for line in lines]}
    say(document, lambda: [_text(line) for line in lines] or ["nothing was logged"])


def _job_id(job: str, address: str | None) -> str:
    try:
        return str(find_job(job, address).get_job_id())
    except JobNotFoundError:
        if _JOB_ID.fullmatch(job):
            return job
        raise


def _wanted(lines: Iterable[LogLine], operator: str | None, subtask: int | None) -> Iterator[LogLine]:
    """The lines of an operator or subtask, each with the lines that belong to it."""
    shown: dict[str, bool] = {}
    for line in lines:
        # A line that begins no entry goes with the one before.
        with contextlib.suppress(ValueError):
            shown[line.source.file_name] = _fits(place_of_line(line.text), operator, subtask)
        if (operator in (None, _COORDINATOR) and subtask is None) or shown.get(line.source.file_name):
            yield line


def _fits(place: tuple[str, int] | None, operator: str | None, subtask: int | None) -> bool:
    if place is None:
        return False
    chain, index = place
    return (operator is None or operator in (chain, *chain.split(" -> "))) and subtask in (None, index + 1)


def _described(line: LogLine) -> dict[str, Any]:
    source = line.source
    return {
        "role": source.role,
        "host": source.host,
        "process_id": source.process_id,
        "stream": source.stream,
        "text": line.text,
    }


def _text(line: LogLine) -> str:
    source = line.source
    return f"{source.role} {source.process_id} | {line.text}"
