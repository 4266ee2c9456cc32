"""The command `tidegate`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from ..common.errors import TidegateError
from .commands.command import Group, is_json
from .exit_codes import ExitCode, exit_code_of
from .output import error_document, note
from .text import printable_json

_COMMANDS = {
    "run": ("run_command", "run"),
    "plan": ("plan_command", "plan"),
    "list": ("job_commands", "list_jobs"),
    "status": ("job_commands", "status"),
    "logs": ("logs_command", "logs"),
    "cancel": ("job_commands", "cancel"),
    "stop": ("job_commands", "stop"),
    "rescale": ("job_commands", "rescale"),
    "savepoint": ("savepoint_commands", "savepoint"),
    "checkpoint": ("checkpoint_commands", "checkpoint"),
    "console": ("console_command", "console"),
    "doctor": ("doctor_command", "doctor"),
    "sim": ("sim_command", "sim"),
    "completion": ("completion_command", "completion"),
}


class _Commands(Group):
    """Imports a command when it is asked for: one about files need not wait for those about jobs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f".commands.{module}", __package__), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tidegate", prog_name="tidegate")
def commands() -> None:
    """Stateful stream processing with exactly-once checkpoints."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with one of `ExitCode`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.exit(_run(given, click.Context(click.Command(None))))


def _run(arguments: list[str], outer: click.Context) -> int:
    try:
        # `meta` is shared with the contexts inside: so it is known here whether --json was given.
        code = commands.main(arguments, "tidegate", standalone_mode=False, parent=outer)
    except click.Abort:
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        _show(error)
        return _failed(error.format_message(), ExitCode(error.exit_code), type(error).__name__, outer)
    except TidegateError as error:
        note(f"tidegate: {error}")
        return _failed(str(error), exit_code_of(error), type(error).__name__, outer)
    return code if isinstance(code, int) else ExitCode.DONE


def _show(error: click.ClickException) -> None:
    """As click would, but with the prefix of all errors."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        note(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n")
    note(f"tidegate: {error.format_message()}")


def _failed(message: str, code: ExitCode, kind: str, outer: click.Context) -> ExitCode:
    """Tell a program that reads JSON, too."""
    if is_json(outer):
        error = error_document(message, code, kind)
        click.echo(printable_json(json.dumps({"error": error}, indent=2, ensure_ascii=False)))
    return code
