"""`tidegate savepoint …`: savepoints and checkpoints as starting points of jobs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

from ..coordinator.restore_check import OperatorCheck, Outcome, RestoreCheck, StateCheck, check_restore_of
from ..coordinator.savepoints import dispose_savepoint
from ..state.stored_checkpoint import read_checkpoint
from .driver import job_of_driver
from .job_commands import address_option, format_of, format_option, timeout_option
from .jobs import find_job
from .text import table


@click.group()
def savepoint() -> None:
    """Savepoints and checkpoints as starting points of jobs."""


@savepoint.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--allow-non-restored-state", is_flag=True, help="State of operators that are gone may be dropped."
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
    as_json: bool,
    allow_non_restored_state: bool,
) -> None:
    """Say whether the job of DRIVER would start from the checkpoint at PATH. Nothing is started.

    Runs DRIVER with ARGUMENTS up to its first execute(), and calls open() of the job's functions once, in
    this process and without data, to learn which states they declare. Exit code 0: it would; 1: it would
    not; 2: the command was not understood.
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
    if as_json:
        click.echo(json.dumps(_described(result), indent=2))
    else:
        click.echo(f"checkpoint {manifest.checkpoint_id} of job {manifest.job_name!r} against {driver}")
        click.echo("\n".join(_shown(result)))
    context.exit(1 if result.problems else 0)


@savepoint.command()
@format_option
@timeout_option
@address_option
@click.argument("job")
@click.argument("directory", required=False)
def trigger(job: str, directory: str | None, format_name: str, timeout_s: float, address: str | None) -> None:
    """Take a savepoint of JOB (an id, the start of one, or a name), and print its path.

    It makes a directory of its own in DIRECTORY, by default in execution.checkpointing.savepoint-dir.
    """
    client = find_job(job, address)
    click.echo(client.trigger_savepoint(directory, format_of(format_name), timeout_s).result())


@savepoint.command()
@click.option("--force", is_flag=True, help="Also if a job has claimed it.")
@click.argument("path")
def dispose(path: str, force: bool) -> None:
    """Delete the savepoint at PATH. Checkpoints, and what a job has claimed, are refused."""
    manifest = dispose_savepoint(path, force)
    click.echo(f"deleted savepoint {manifest.checkpoint_id} of job {manifest.job_name!r}")


def _described(result: RestoreCheck) -> dict[str, Any]:
    def plain(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value.value if isinstance(value, Outcome) else value for name, value in items}

    return {
        "would_restore": not result.problems,
        "problems": result.problems,
        "operators": [dataclasses.asdict(operator, dict_factory=plain) for operator in result.operators],
    }


def _shown(result: RestoreCheck) -> Iterable[str]:
    for operator in result.operators:
        yield ""
        yield f"{operator.name} (uid {operator.uid}){_parallelism(operator)}"
        if operator.states:
            yield from table(
                [[state.name, state.kind, state.outcome.value, state.text] for state in operator.states]
            )
        for state in operator.states:
            if state.outcome is Outcome.INCOMPATIBLE:
                yield from _schemas(state)
        yield from (f"  note: {note}" for note in operator.notes)
        yield from (f"  problem: {problem}" for problem in operator.problems)
    yield ""
    count = len(result.problems)
    yield f"would not restore: {count} problem{'s' if count > 1 else ''}" if count else "would restore"


def _schemas(state: StateCheck) -> Iterable[str]:
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
