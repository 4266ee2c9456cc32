"""`tidegate logs`: what the processes of a job have printed and logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..common.errors import JobNotFoundError
from .command import Command, is_json
from .jobs import address_option, find_job, job_argument
from .output import progress, say

if TYPE_CHECKING:
    from ..coordinator.ray_logs import LogLine, LogSource


@click.command(
    cls=Command,
    examples=[
        "tidegate logs flights",
        "tidegate logs flights --follow --operator Totals",
        "tidegate logs flights --operator coordinator --tail 500",
    ],
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new lines until the job ends.")
@click.option("--operator", metavar="NAME", help="Only of processes with this operator, or `coordinator`.")
@click.option("--subtask", type=click.IntRange(min=1), help="Only of this subtask, counted from 1.")
@click.option(
    "--tail",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The last so many lines of each.",
)
@address_option
@job_argument
def logs(
    job: str, follow: bool, operator: str | None, subtask: int | None, tail: int, address: str | None
) -> None:
    """Print what the processes of JOB have printed and logged: its coordinator and its tasks.

    Ray's dashboard reads the files, also on other nodes. Operators in one task share a process. Each line
    begins with the subtasks that it may come from.
    """
    if follow and is_json():
        raise click.UsageError("--follow has no end, so it cannot be one JSON document")
    client = find_job(job, address)
    from ..coordinator.ray_logs import followed_lines, log_sources, stored_lines

    there = log_sources(client.details(), client.processes())
    sources = [each for each in there if _is_wanted(each, operator, subtask)]
    if not sources:
        names = ", ".join(name for each in there for name in each.names)
        raise JobNotFoundError(f"no process of the job fits; there is: {names}")
    if follow:
        for line in followed_lines(sources, tail):
            click.echo(_text(line))
        return
    with progress("reading"):
        lines = list(stored_lines(sources, tail))
    document = {"id": str(client.get_job_id()), "lines": [_described(line) for line in lines]}
    say(document, lambda: [_text(line) for line in lines] or ["nothing was logged"])


def _is_wanted(source: LogSource, operator: str | None, subtask: int | None) -> bool:
    return any(
        (operator is None or operator in _operators(name))
        and (subtask is None or (name.endswith(")") and f"({subtask}/" in name.rpartition(" ")[2]))
        for name in source.names
    )


def _operators(name: str) -> list[str]:
    """Names of the operators in a subtask such as `Map -> Sink (1/2)`."""
    task = name.rpartition(" (")[0] or name
    return [task, *task.split(" -> ")]


def _described(line: LogLine) -> dict[str, Any]:
    return {
        "subtasks": list(line.source.names),
        "process_id": line.source.process_id,
        "stream": line.stream,
        "text": line.text,
    }


def _text(line: LogLine) -> str:
    return f"[{', '.join(line.source.names)}] {line.text}"
