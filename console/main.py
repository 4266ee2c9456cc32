"""The command `tidegate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ..common.errors import TidegateError
from .job_commands import cancel, checkpoint, list_jobs, stop
from .plan_command import plan
from .run_command import run
from .savepoint_commands import savepoint
from .snapshot_commands import snapshot


@click.group()
@click.version_option(package_name="tidegate")
def commands() -> None:
    """Stateful stream processing with exactly-once checkpoints."""


commands.add_command(run)
commands.add_command(plan)
commands.add_command(snapshot)
commands.add_command(savepoint)
commands.add_command(list_jobs)
commands.add_command(stop)
commands.add_command(cancel)
commands.add_command(checkpoint)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 when it succeeded, 1 when it did not, 2 when it was not understood."""
    try:
        commands.main(args=None if arguments is None else list(arguments), prog_name="tidegate")
    except TidegateError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(1)
