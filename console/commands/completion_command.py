"""`tidegate completion`: what a shell needs to complete commands, options and jobs."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from ..output import say
from .command import Command

_PROGRAM = "tidegate"
_VARIABLE = "_TIDEGATE_COMPLETE"
_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    cls=Command,
    examples=[
        "tidegate completion bash >> ~/.bashrc",
        "tidegate completion zsh >> ~/.zshrc",
        "tidegate completion fish > ~/.config/fish/completions/tidegate.fish",
    ],
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the completion script for SHELL.

    Let the shell read it when it starts. Jobs are completed too, where RAY_ADDRESS is set or a Ray runs on
    this machine.
    """
    script = _SHELLS[shell](context.command, {}, _PROGRAM, _VARIABLE).source()
    say({"shell": shell, "script": script}, lambda: [script])
