"""What `tidegate` itself prints, before any command runs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tidegate import __version__
from tidegate.console.main import commands


def output_of(*arguments: str) -> str:
    return CliRunner().invoke(commands, list(arguments), prog_name="tidegate").output


def test_the_version_names_the_program() -> None:
    assert CliRunner().invoke(commands, ["--version"]).output == f"tidegate, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rn"], "tidegate has no command 'rn'; did you mean run?"),
        (["frobnicate"], "tidegate has no command 'frobnicate'\n"),
        (["savepoint", "inspct"], "tidegate savepoint has no command 'inspct'; did you mean inspect?"),
    ],
)
def test_an_unknown_command_gets_a_suggestion_if_there_is_a_near_one(
    arguments: list[str], message: str
) -> None:
    assert f"Error: {message}" in output_of(*arguments)
