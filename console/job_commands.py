"""`tidegate list`, `stop`, `cancel` and `checkpoint`: running jobs."""

from __future__ import annotations

import click

from ..protocol.elements import CheckpointingMode, SavepointFormatType
from .jobs import find_job, reports
from .text import table

address_option = click.option("--address", metavar="HOST:PORT", help="The Ray cluster; else RAY_ADDRESS.")
format_option = click.option(
    "--type",
    "format_name",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    default="canonical",
    show_default=True,
    help="How keyed state is stored.",
)
timeout_option = click.option(
    "--timeout", "timeout_s", type=float, default=600.0, show_default=True, help="Seconds to wait."
)

_MODES = {
    "exactly-once": (CheckpointingMode.EXACTLY_ONCE, False),
    "at-least-once": (CheckpointingMode.AT_LEAST_ONCE, False),
    "unaligned": (CheckpointingMode.EXACTLY_ONCE, True),
}


def format_of(name: str) -> SavepointFormatType:
    """The format with this name."""
    return SavepointFormatType(name.lower())


@click.command("list")
@address_option
def list_jobs(address: str | None) -> None:
    """List the jobs of a Ray cluster: id, name, status, restarts, newest checkpoint."""
    rows = [
        [
            job_id,
            report.job_name,
            report.status.name,
            str(report.restarts),
            report.checkpointing_mode,
            report.newest_checkpoint or "",
        ]
        for job_id, (_, report) in reports(address).items()
    ]
    if not rows:
        click.echo("no jobs")
        return
    heading = ["id", "name", "status", "restarts", "mode", "newest checkpoint"]
    click.echo("\n".join(table([heading, *rows])))


@click.command()
@click.option("--savepoint-path", "-p", metavar="DIR", help="Where the savepoint makes its directory.")
@click.option("--drain", "-d", is_flag=True, help="End all sources first, so that all windows fire.")
@format_option
@timeout_option
@address_option
@click.argument("job")
def stop(
    job: str,
    savepoint_path: str | None,
    drain: bool,
    format_name: str,
    timeout_s: float,
    address: str | None,
) -> None:
    """Stop JOB (an id, the start of one, or a name) with a savepoint, and print its path."""
    client = find_job(job, address)
    path = client.stop_with_savepoint(drain, savepoint_path, format_of(format_name), timeout_s).result()
    client.wait(timeout_s)
    click.echo(path)


@click.command()
@address_option
@click.argument("job")
def cancel(job: str, address: str | None) -> None:
    """Stop JOB (an id, the start of one, or a name) without a savepoint."""
    client = find_job(job, address)
    client.cancel().result()
    click.echo(f"{client.wait().name} {client.get_job_id()}")


@click.group()
def checkpoint() -> None:
    """Checkpoints of running jobs."""


@checkpoint.command()
@address_option
@click.argument("job")
@click.argument("mode", type=click.Choice(list(_MODES), case_sensitive=False))
def mode(job: str, mode: str, address: str | None) -> None:
    """Change how JOB takes its checkpoints, from the next one on."""
    client = find_job(job, address)
    client.set_checkpointing_mode(*_MODES[mode.lower()])
    click.echo(f"{client.get_job_id()} takes {mode.lower()} checkpoints from the next one on")


@checkpoint.command()
@address_option
@timeout_option
@click.argument("job")
def trigger(job: str, timeout_s: float, address: str | None) -> None:
    """Take a checkpoint of JOB now, and print its number."""
    click.echo(find_job(job, address).trigger_checkpoint(timeout_s))
