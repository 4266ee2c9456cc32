"""`tidegate run`: runs a driver program with settings from outside."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Any

import click

from ...common.configuration import Configuration
from ...common.errors import TidegateError
from ...common.options.options import DeploymentOptions, StateRecoveryOptions
from ...coordinator.control.job_client import JobClient
from ...datastream.settings.default_settings import default_settings
from ...datastream.submission import watched_submissions
from ..driver import as_main_program, print_error
from ..exit_codes import ExitCode, exit_code_of
from ..output import error_document, note, say
from ..settings import configuration_of, settings_options
from .command import Command, is_json
from .job_commands import job_document


@click.command(
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    examples=[
        "tidegate run driver.py --airport JFK",
        "tidegate run --local -D parallelism.default=1 driver.py",
        "tidegate run --address 10.0.0.1:6379 --detached --conf-file config.yaml driver.py",
        "tidegate run --from-savepoint /savepoints/savepoint-3f2a1c-7 driver.py",
        "tidegate run --from-savepoint latest:/checkpoints driver.py",
    ],
)
@click.option("--local", is_flag=True, help="In this process, without Ray (execution.target: local).")
@click.option(
    "--address", metavar="HOST:PORT", help="On this Ray cluster; else RAY_ADDRESS, else an embedded Ray."
)
@click.option("--detached", "-d", is_flag=True, help="Do not wait for the job (execution.attached: false).")
@click.option(
    "--on-stop-signal",
    type=click.Choice(["cancel", "stop-with-savepoint", "detach"]),
    help="What SIGINT and SIGTERM do with the job (tidegate.on-stop-signal).",
)
@settings_options
@click.option(
    "--from-savepoint",
    "--savepoint",
    "-s",
    "savepoint",
    metavar="PATH",
    help="Start from this savepoint or checkpoint, or from the latest checkpoint (latest:DIR, or "
    "latest-if-any:DIR if there may be none yet).",
)
@click.option(
    "--allow-non-restored-state",
    "-n",
    is_flag=True,
    help="State that the job does not declare may be ignored.",
)
@click.option(
    "--restore-mode",
    type=click.Choice(["NO_CLAIM", "CLAIM"], case_sensitive=False),
    help="Whether the job owns what it is started from, and removes it in the end.",
)
@click.argument("driver", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    /,
    driver: str,
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
    conf_file: str | None,
    **options: Any,
) -> None:
    """Run the program DRIVER with settings from outside.

    DRIVER gets ARGUMENTS as in `python DRIVER ARGUMENTS`. The settings hold for every environment that DRIVER
    creates. What DRIVER itself sets overrides --conf, which overrides --conf-file. At the end, standard error
    gets one line about each job. With --json, what DRIVER prints goes to standard error, too.
    """
    configuration = configuration_of(settings, conf_file)
    _set_options(configuration, **options)
    jobs: list[JobClient] = []
    error, code = _run(driver, arguments, configuration, jobs.append)
    described = [_described(client) for client in jobs]
    if is_json():
        document: dict[str, Any] = {"jobs": described}
        if error is not None:
            document["error"] = error_document(str(error), code, type(error).__name__)
        say(document, lambda: ())
    elif options["detached"]:
        running = [job for job in described if job.get("status") != "FAILED"]
        say({}, lambda: [f"submitted {job['id']} ({job['name']})" for job in running])
    elif error is None:
        for client, job in zip(jobs, described):
            note(_summary(client, job))
    context.exit(code)


def _set_options(
    configuration: Configuration,
    local: bool,
    address: str | None,
    detached: bool,
    on_stop_signal: str | None,
    savepoint: str | None,
    allow_non_restored_state: bool,
    restore_mode: str | None,
) -> None:
    if local and (address or detached):
        raise click.UsageError(
            "--local runs the job in this process; it goes with neither --address nor --detached"
        )
    if local:
        configuration.set(DeploymentOptions.TARGET, "local")
    if address:
        # Where Ray itself looks, so that everything in the program goes to one cluster.
        os.environ["RAY_ADDRESS"] = address
    if detached:
        configuration.set(DeploymentOptions.ATTACHED, False)
    if on_stop_signal is not None:
        configuration.set(DeploymentOptions.ON_STOP_SIGNAL, on_stop_signal)
    if savepoint is not None:
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint)
    if allow_non_restored_state:
        configuration.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, True)
    if restore_mode is not None:
        configuration.set(StateRecoveryOptions.RESTORE_MODE, restore_mode)


def _run(
    driver: str, arguments: Sequence[str], configuration: Configuration, watch: Callable[[JobClient], None]
) -> tuple[BaseException | None, ExitCode | int]:
    """Run the program; the error that ended it, and the exit code."""
    output = redirect_stdout(sys.stderr) if is_json() else nullcontext()
    try:
        with (
            as_main_program(driver, arguments),
            default_settings(configuration),
            watched_submissions(watch),
            output,
        ):
            runpy.run_path(driver, run_name="__main__")
    except TidegateError as error:
        note(f"tidegate: {error}")
        return error, exit_code_of(error)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error, error.code) if error.code else (None, ExitCode.DONE)
        note(str(error.code))
        return error, ExitCode.FAILED
    except KeyboardInterrupt as error:
        return error, ExitCode.INTERRUPTED
    except Exception as error:
        print_error(driver, error)
        return error, ExitCode.FAILED
    return None, ExitCode.DONE


def _summary(client: JobClient, job: dict[str, Any]) -> str:
    """One line about a job whose driver has ended."""
    if "status" not in job:
        return f"job {job['id']} ended with its cluster"
    counts = {"checkpoint": job["checkpoints"]["completed"], "restart": job["restarts"]}
    listed = ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
    return f"job {job['name']!r} ({job['id']}) is {job['status']} after {client.runtime_s:.1f} s: {listed}"


def _described(client: JobClient) -> dict[str, Any]:
    described: dict[str, Any] = {"id": str(client.get_job_id())}
    try:
        return {**described, **job_document(client.report())}
    except TidegateError:
        # It ended with its cluster, or its coordinator with it.
        return described
