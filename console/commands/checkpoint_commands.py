"""`tidegate checkpoint …`: checkpoints of running jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ...common.errors import CheckpointNotFoundError
from ...coordinator.monitoring.critical_path import critical_path, explain_lines
from ...coordinator.monitoring.statistics import CheckpointStatistics, JobStatistics
from ...protocol.elements import CheckpointingMode
from ...protocol.ids import CheckpointId
from ..jobs import address_option, find_job, job_argument, timeout_option
from ..output import progress, say, table
from ..text import moment, size
from .command import Group

_MODES = {
    "exactly-once": (CheckpointingMode.EXACTLY_ONCE, False),
    "at-least-once": (CheckpointingMode.AT_LEAST_ONCE, False),
    "unaligned": (CheckpointingMode.EXACTLY_ONCE, True),
}


@click.group(cls=Group)
def checkpoint() -> None:
    """Show, trigger and configure the checkpoints of running jobs."""


@checkpoint.command("list", examples=["tidegate checkpoint list flights --limit 5"])
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="The newest so many."
)
@address_option
@job_argument
def list_checkpoints(job: str, limit: int, address: str | None) -> None:
    """List the checkpoints and savepoints of JOB, the newest first.

    It also shows what took their time.
    """
    client = find_job(job, address)
    statistics = client.report().statistics
    known = [*statistics.checkpoints, *statistics.in_progress.values()]
    known.sort(key=lambda one: one.checkpoint_id, reverse=True)
    found = [_described(one) for one in known[:limit]]
    say({"id": str(client.get_job_id()), "checkpoints": found}, lambda: _lines(found))


def _described(one: CheckpointStatistics) -> dict[str, Any]:
    return {
        "id": one.checkpoint_id,
        "kind": one.kind.value,
        "outcome": one.outcome.name,
        "triggered_ms": one.triggered_ms,
        "duration_ms": one.duration_ms,
        "start_delay_ms": one.start_delay_ms,
        "alignment_ms": one.alignment_ms,
        "sync_ms": one.sync_ms,
        "async_ms": one.async_ms,
        "size_bytes": one.size_bytes,
        "new_bytes": one.new_bytes,
        "acknowledged": len(one.subtasks),
        "subtasks": one.subtask_count,
        "reason": one.reason or None,
    }


def _lines(found: list[dict[str, Any]]) -> Iterator[Any]:
    if not found:
        yield "no checkpoints yet"
        return
    headings = ["id", "kind", "outcome", "at", "ms", "align", "sync", "async", "size", "new"]
    yield table(
        headings,
        [
            [
                one["id"],
                one["kind"],
                one["outcome"],
                moment(one["triggered_ms"])[11:19],
                *(round(one[name]) for name in ("duration_ms", "alignment_ms", "sync_ms", "async_ms")),
                size(one["size_bytes"]),
                size(one["new_bytes"]),
            ]
            for one in found
        ],
    )
    yield from (f"{one['id']}: {one['reason']}" for one in found if one["reason"])


@checkpoint.command(examples=["tidegate checkpoint trigger flights"])
@timeout_option
@address_option
@job_argument
def trigger(job: str, timeout_s: float, address: str | None) -> None:
    """Take a checkpoint of JOB now, and print its number."""
    client = find_job(job, address)
    with progress("checkpoint"):
        number = client.trigger_checkpoint(timeout_s)
    say({"id": str(client.get_job_id()), "checkpoint": number}, lambda: [str(number)])


@checkpoint.command(
    examples=["tidegate checkpoint explain flights", "tidegate checkpoint explain flights 12 --json"]
)
@address_option
@job_argument
@click.argument("number", metavar="[ID]", type=click.IntRange(min=1), required=False)
def explain(job: str, number: int | None, address: str | None) -> None:
    """Show the steps that determined the duration of a checkpoint.

    By default it is the newest complete one of JOB. Each step waited for the one before.
    """
    client = find_job(job, address)
    found = _checkpoint(client.report().statistics, number)
    path = critical_path(found)
    document = {
        "id": str(client.get_job_id()),
        "checkpoint": found.checkpoint_id,
        "duration_ms": found.duration_ms,
        "cause": path.cause,
        "steps": [
            {
                "name": step.name,
                "subtask": step.subtask_name,
                "start_ms": step.start_ms,
                "duration_ms": step.duration_ms,
                "cause": step.cause,
            }
            for step in path.steps
        ],
    }
    say(document, lambda: explain_lines(found))


def _checkpoint(statistics: JobStatistics, number: int | None) -> CheckpointStatistics:
    known = {one.checkpoint_id: one for one in statistics.in_progress.values()}
    known.update((one.checkpoint_id, one) for one in statistics.checkpoints)
    if number is None and statistics.latest_completed is not None:
        return statistics.latest_completed
    if number is None:
        raise CheckpointNotFoundError("the job has completed no checkpoint yet")
    found = known.get(CheckpointId(number))
    if found is None:
        there = f"those from {min(known)} to {max(known)}" if known else "none yet"
        raise CheckpointNotFoundError(f"the job remembers no checkpoint {number}, only {there}")
    return found


@checkpoint.command(examples=["tidegate checkpoint mode flights unaligned"])
@address_option
@job_argument
@click.argument("mode", type=click.Choice(list(_MODES), case_sensitive=False))
def mode(job: str, mode: str, address: str | None) -> None:
    """Change how JOB takes its checkpoints, from the next one on."""
    client = find_job(job, address)
    client.set_checkpointing_mode(*_MODES[mode.lower()])
    job_id = str(client.get_job_id())
    say(
        {"id": job_id, "checkpointing_mode": mode.lower()},
        lambda: [f"{job_id} takes {mode.lower()} checkpoints from the next one on"],
    )
