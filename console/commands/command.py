"""What all commands have in common: `--json`, examples in the help, a quiet end on a broken pipe."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ..exit_codes import ExitCode

_JSON = "tidegate.json"
_FLAG = "--json"


class Command(click.Command):
    """A command with `--json` and with examples in its help.

    Args:
        examples: Command lines, without the prompt.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)
        self.params.append(
            click.Option(
                [_FLAG],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_remember,
                help="Print one JSON document on standard output, and all else on standard error.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Also an error in the arguments is told as JSON if that was asked for."""
        ctx.meta[_JSON] = _FLAG in args
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they would be typed."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}$ {line}\n")


class Group(click.Group):
    """A group whose commands are `Command`s."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; an unknown one is an error that suggests the nearest."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            nearest = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            suggestion = f"; did you mean {nearest[0]}?" if nearest else ""
            raise click.UsageError(f"{ctx.command_path} has no command {name!r}{suggestion}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that has gone ends it without a word, as it does in `cat x | head`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Python flushes standard output once more when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(ExitCode.BROKEN_PIPE)


def _remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    ctx.meta[_JSON] = value


def is_json(ctx: click.Context | None = None) -> bool:
    """Whether the running command, or that of `ctx`, was called with `--json`."""
    context = ctx or click.get_current_context(silent=True)
    return bool(context and context.meta.get(_JSON))
