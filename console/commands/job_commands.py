"""`tidegate list`, `status`, `stop` and `cancel`: running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from ...common.errors import JobTimeoutError
from ...coordinator.control.job_client import JobClient
from ...coordinator.monitoring.job_report import JobReport
from ...coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics
from ...protocol.elements import SavepointFormatType
from ..jobs import address_option, find_job, job_argument, reports, timeout_option
from ..output import pairs, progress, say, table
from ..stages import STAGE_HEADINGS, stage_documents, stage_rows, web_ui_lines, whole_stage_documents
from ..tasks import task_documents
from ..text import moment, size
from .command import Command

format_option = click.option(
    "--type",
    "format_name",
    type=click.Choice([each.value for each in SavepointFormatType], case_sensitive=False),
    default=SavepointFormatType.CANONICAL.value,
    show_default=True,
    help="How keyed state is stored.",
)
_LOOK_S = 0.2


@click.command("list", cls=Command, examples=["tidegate list", "tidegate list --all --json"])
@click.option("--all", "-a", "with_ended", is_flag=True, help="Also jobs that have ended.")
@address_option
def list_jobs(with_ended: bool, address: str | None) -> None:
    """List the jobs of a Ray cluster.

    A job that has ended is listed for 30 seconds (tidegate.coordinator.linger), one that failed for an hour.
    """
    jobs = [
        {"id": job_id, **job_document(report)}
        for job_id, (_, report) in reports(address).items()
        if with_ended or not report.status.is_globally_terminal_state()
    ]

    def text() -> Iterator[Any]:
        if not jobs:
            yield "no jobs"
            return
        headings = ["id", "name", "status", "restarts", "checkpoints", "mode"]
        rows = [
            [
                job["id"],
                job["name"],
                job["status"],
                job["restarts"],
                job["checkpoints"]["completed"],
                job["checkpointing_mode"],
            ]
            for job in jobs
        ]
        yield table(headings, rows)

    say({"jobs": jobs}, text)


@click.command(cls=Command, examples=["tidegate status flights", "tidegate status 3f2a --json"])
@address_option
@job_argument
def status(job: str, address: str | None) -> None:
    """Show the status of JOB (id, id prefix or name)."""
    client = find_job(job, address)
    details = client.details()
    described = {
        "id": str(client.get_job_id()),
        **job_document(details.report),
        "tasks": task_documents(details),
        "stages": stage_documents(details.subtasks),
        "whole_stages": whole_stage_documents(details.subtasks),
        "processes": client.processes(),
    }
    say(described, lambda: _status_lines(described))


def job_document(report: JobReport) -> dict[str, Any]:
    """A job for programs."""
    statistics = report.statistics
    return {
        "name": report.job_name,
        "status": report.status.name,
        "cause": report.cause,
        "restarts": report.restarts,
        "checkpointing_mode": report.checkpointing_mode,
        "newest_checkpoint": report.newest_checkpoint,
        "stopped_with": report.stopped_with or None,
        "checkpoints": {
            "completed": statistics.counts[CheckpointOutcome.COMPLETED],
            "failed": statistics.counts[CheckpointOutcome.ABORTED],
            "in_progress": len(statistics.in_progress),
        },
        "latest_checkpoint": _latest(statistics.latest_completed),
        "warnings": list(statistics.warnings),
    }


def _latest(checkpoint: CheckpointStatistics | None) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    return {
        "id": checkpoint.checkpoint_id,
        "triggered_ms": checkpoint.triggered_ms,
        "duration_ms": checkpoint.duration_ms,
        "size_bytes": checkpoint.size_bytes,
    }


def _status_lines(job: dict[str, Any]) -> Iterator[Any]:
    counts, latest = job["checkpoints"], job["latest_checkpoint"]
    yield pairs(
        [
            ("id", job["id"]),
            ("name", job["name"]),
            ("status", job["status"]),
            ("cause", job["cause"]),
            ("restarts", job["restarts"]),
            ("mode", job["checkpointing_mode"]),
            ("checkpoints", f"{counts['completed']} completed, {counts['failed']} failed"),
            (
                "latest",
                latest
                and f"{latest['id']} at {moment(latest['triggered_ms'])}, {latest['duration_ms']:.0f} ms, "
                f"{size(latest['size_bytes'])}",
            ),
            ("newest checkpoint", job["newest_checkpoint"]),
            ("stopped with", job["stopped_with"]),
        ]
    )
    yield ""
    headings = ["task", "subtasks", "state", "in/s", "out/s", "busy", "held back"]
    yield table(headings, [_task_row(task) for task in job["tasks"]])
    if job["stages"]:
        yield ""
        yield table(STAGE_HEADINGS, stage_rows(job["whole_stages"], job["stages"]))
        yield from web_ui_lines(job["stages"])
    yield from (f"warning: {text}" for text in job["warnings"])


def _task_row(task: dict[str, Any]) -> list[object]:
    states = sorted(task["states"].items())
    return [
        task["name"],
        task["parallelism"],
        states[0][0] if len(states) == 1 else ", ".join(f"{count} {state}" for state, count in states),
        round(task["records_in_per_s"]),
        round(task["records_out_per_s"]),
        f"{task['busy']:.0%}",
        f"{task['backpressured']:.0%}",
    ]


@click.command(
    cls=Command,
    examples=["tidegate stop flights --savepoint-path s3://backups/flights", "tidegate stop 3f2a --drain"],
)
@click.option("--savepoint-path", "-p", metavar="DIR", help="Where the savepoint makes its directory.")
@click.option("--drain", "-d", is_flag=True, help="End all sources first, so that all windows fire.")
@format_option
@timeout_option
@address_option
@job_argument
def stop(
    job: str,
    savepoint_path: str | None,
    drain: bool,
    format_name: str,
    timeout_s: float,
    address: str | None,
) -> None:
    """Stop JOB (id, id prefix or name) with a savepoint.

    It prints the path of the savepoint.
    """
    client = find_job(job, address)
    path = savepoint_shown(
        client,
        lambda: client.stop_with_savepoint(
            drain, savepoint_path, SavepointFormatType(format_name), timeout_s
        ),
    )
    client.wait(timeout_s)
    say({"id": str(client.get_job_id()), "savepoint": path}, lambda: [path])


def savepoint_shown(client: JobClient, take: Callable[[], Any]) -> str:
    """Take a savepoint, with a bar of the subtasks that have done their part; its path."""
    taken = take()
    with progress("savepoint", 1.0) as show:
        while not taken.done():
            pending = [one for one in client.report().statistics.in_progress.values() if one.subtask_count]
            show(max((len(one.subtasks) / one.subtask_count for one in pending), default=0.0))
            client.wait(_LOOK_S)
    return str(taken.result())


@click.command(cls=Command, examples=["tidegate cancel flights"])
@timeout_option
@address_option
@job_argument
def cancel(job: str, timeout_s: float, address: str | None) -> None:
    """Cancel JOB (id, id prefix or name) without a savepoint.

    Its checkpoints are deleted, unless execution.checkpointing.externalized-checkpoint-retention keeps them.
    """
    client = find_job(job, address)
    client.cancel().result()
    with progress("cancelling"):
        ended = client.wait(timeout_s)
    if not ended.is_globally_terminal_state():
        raise JobTimeoutError(f"the job is still {ended.name} after {timeout_s:g} s; it goes on stopping")
    job_id = str(client.get_job_id())
    say({"id": job_id, "status": ended.name}, lambda: [f"{ended.name} {job_id}"])


@click.command(
    cls=Command, examples=["tidegate rescale flights 8", "tidegate rescale flights Totals 4 --timeout 120"]
)
@timeout_option
@address_option
@job_argument
@click.argument("numbers", metavar="[OPERATOR] PARALLELISM", nargs=-1, required=True)
def rescale(job: str, numbers: tuple[str, ...], timeout_s: float, address: str | None) -> None:
    """Change the parallelism of JOB or one OPERATOR while it runs.

    The job takes a checkpoint and resumes from it with PARALLELISM subtasks. OPERATOR is a uid or a name.
    Without it, all operators change that the program did not limit to one subtask.
    """
    *operators, number = numbers
    if len(operators) > 1 or not number.isdigit() or int(number) < 1:
        raise click.UsageError(
            f"expected [OPERATOR] PARALLELISM, got {' '.join(numbers)!r}; PARALLELISM is a number, at least 1"
        )
    client = find_job(job, address)
    with progress("rescaling"):
        client.rescale({operators[0]: int(number)} if operators else int(number), timeout_s)
    job_id, parallelism = str(client.get_job_id()), _parallelism(client)
    say(
        {"id": job_id, "parallelism": parallelism},
        lambda: [table(["operator", "parallelism"], parallelism.items())],
    )


def _parallelism(client: JobClient) -> dict[str, int]:
    return {node["type"]: node["parallelism"] for node in client.details().plan["nodes"]}
