"""`tidegate savepoint …`: savepoints and checkpoints as starting points of jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ...coordinator.checkpoints.savepoints import dispose_savepoint
from ...coordinator.checkpoints.stored_checkpoints import stored_checkpoints
from ...coordinator.restore.restore_check import (
    OperatorCheck,
    Outcome,
    RestoreCheck,
    StateCheck,
    check_restore_of,
)
from ...protocol.elements import SavepointFormatType
from ...state.storage.stored_checkpoint import read_checkpoint
from ..driver import job_of_driver
from ..exit_codes import ExitCode
from ..jobs import address_option, find_job, job_argument, timeout_option
from ..output import progress, say, table
from ..text import moment, size
from .command import Group
from .job_commands import format_option, savepoint_shown
from .snapshot_commands import diff_command, inspect


@click.group(cls=Group)
def savepoint() -> None:
    """Manage savepoints; file commands also accept checkpoints."""


savepoint.add_command(inspect)
savepoint.add_command(diff_command)


@savepoint.command(
    context_settings={"allow_interspersed_args": False},
    examples=["tidegate savepoint check /savepoints/savepoint-3f2a1c-7 driver.py --airport JFK"],
)
@click.option(
    "--allow-non-restored-state", is_flag=True, help="State that the job does not declare may be ignored."
)
@click.argument("path")
@click.argument("driver", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def check(
    context: click.Context,
    path: str,
    driver: str,
    arguments: tuple[str, ...],
    allow_non_restored_state: bool,
) -> None:
    """Check whether the job of DRIVER would start from PATH.

    PATH is a savepoint or checkpoint. Nothing is started. To learn which states the job declares, this
    command runs DRIVER with ARGUMENTS up to its first execute(), and calls open() of the job's functions
    once, in this process and without data. Exit code 0: it would start; 1: it would not.
    """
    manifest = read_checkpoint(path)
    spec = job_of_driver(driver, arguments)
    settings = spec.settings
    result = check_restore_of(
        spec.graph,
        manifest,
        allow_non_restored_state or settings.allow_non_restored_state,
        settings.job_parameters,
    )
    heading = f"checkpoint {manifest.checkpoint_id} of job {manifest.job_name!r} against {driver}"
    say(_described(result), lambda: _shown(heading, result))
    context.exit(ExitCode.FAILED if result.problems else ExitCode.DONE)


@savepoint.command(
    examples=[
        "tidegate savepoint trigger flights /savepoints",
        "tidegate savepoint trigger 3f2a s3://bucket/savepoints --type native",
    ]
)
@format_option
@timeout_option
@address_option
@job_argument
@click.argument("directory", required=False)
def trigger(job: str, directory: str | None, format_name: str, timeout_s: float, address: str | None) -> None:
    """Take a savepoint of JOB (id, id prefix or name).

    It prints the path of the savepoint: a new directory in DIRECTORY, by default in
    execution.checkpointing.savepoint-dir.
    """
    client = find_job(job, address)
    format_type = SavepointFormatType(format_name)
    path = savepoint_shown(client, lambda: client.trigger_savepoint(directory, format_type, timeout_s))
    say({"id": str(client.get_job_id()), "savepoint": path}, lambda: [path])


@savepoint.command("list", examples=["tidegate savepoint list /savepoints"])
@click.argument("directory")
def list_savepoints(directory: str) -> None:
    """List the savepoints and checkpoints below DIRECTORY.

    DIRECTORY may also be a URL such as s3://…. The newest come first.
    """
    with progress("looking"):
        listed = stored_checkpoints(directory)
    found = [
        {
            "path": each.path,
            "kind": each.manifest.kind.value if each.manifest else None,
            "checkpoint_id": each.manifest.checkpoint_id if each.manifest else None,
            "job_name": each.manifest.job_name if each.manifest else None,
            "job_id": each.manifest.job_id if each.manifest else None,
            "completed_ms": each.manifest.completed_ms if each.manifest else None,
            "size_bytes": each.manifest.size_bytes if each.manifest else None,
            "problem": each.problem or None,
        }
        for each in listed
    ]
    say({"directory": directory, "savepoints": found}, lambda: _listed(found))


def _listed(found: list[dict[str, Any]]) -> Iterator[Any]:
    if not found:
        yield "no savepoints or checkpoints"
        return
    whole = [each for each in found if each["problem"] is None]
    if whole:
        rows = [
            [
                each["kind"],
                each["checkpoint_id"],
                each["job_name"],
                moment(each["completed_ms"]),
                size(each["size_bytes"]),
                each["path"],
            ]
            for each in whole
        ]
        yield table(["kind", "id", "job", "completed", "size", "path"], rows)
    yield from (f"{each['path']}: {each['problem']}" for each in found if each["problem"] is not None)


@savepoint.command(examples=["tidegate savepoint dispose /savepoints/savepoint-3f2a1c-7"])
@click.option("--force", is_flag=True, help="Also if a job has claimed it.")
@click.argument("path")
def dispose(path: str, force: bool) -> None:
    """Delete the savepoint at PATH. Checkpoints, and what a job has claimed, are refused."""
    with progress("deleting"):
        manifest = dispose_savepoint(path, force)
    say(
        {"path": path, "checkpoint_id": manifest.checkpoint_id, "job_name": manifest.job_name},
        lambda: [f"deleted savepoint {manifest.checkpoint_id} of job {manifest.job_name!r}"],
    )


def _described(result: RestoreCheck) -> dict[str, Any]:
    def plain(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value.value if isinstance(value, Outcome) else value for name, value in items}

    return {
        "would_restore": not result.problems,
        "problems": result.problems,
        "operators": [dataclasses.asdict(operator, dict_factory=plain) for operator in result.operators],
    }


def _shown(heading: str, result: RestoreCheck) -> Iterator[Any]:
    yield heading
    for operator in result.operators:
        yield ""
        yield f"{operator.name} (uid {operator.uid}){_parallelism(operator)}"
        if operator.states:
            rows = [[state.name, state.kind, state.outcome.value, state.text] for state in operator.states]
            yield table(["state", "kind", "outcome", ""], rows, indent=2)
        for state in operator.states:
            if state.outcome is Outcome.INCOMPATIBLE:
                yield from _schemas(state)
        yield from (f"  note: {note}" for note in operator.notes)
        yield from (f"  problem: {problem}" for problem in operator.problems)
    yield ""
    count = len(result.problems)
    yield f"would not restore: {count} problem{'s' if count > 1 else ''}" if count else "would restore"


def _schemas(state: StateCheck) -> Iterator[str]:
    yield f"    {state.name} was stored as    {_schema(state.stored)}"
    yield f"    {state.name} is now declared  {_schema(state.declared)}"


def _schema(schema: Mapping[str, object] | None) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted((schema or {}).items()))


def _parallelism(operator: OperatorCheck) -> str:
    before, now = operator.stored_parallelism, operator.parallelism
    if before is None:
        return f", not in the checkpoint, parallelism {now}"
    if now is None or before == now:
        return f", parallelism {before}"
    return f", parallelism {before} -> {now}"
