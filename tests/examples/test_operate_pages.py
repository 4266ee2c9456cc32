"""The pages for those who run jobs name settings, metrics, commands and extras that there are."""

from __future__ import annotations

import re
import sys

import click
import pytest
from tidegate.common.options.known_options import known_options
from tidegate.console.main import commands

from .programs import ROOT, code_blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = (
    "deploy-kubernetes",
    "first-job",
    "install",
    "operate",
    "security",
    "troubleshooting",
    "tune",
    "upgrade",
)
ROOTS = "alignment|execution|historyserver|jobmanager|metrics|parallelism|pipeline|rest|scheduler-mode"
ROOTS += "|slot|slotmanager|state|task|tidegate"


def text_of(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_settings_are_known(page: str) -> None:
    spans = re.findall(rf"`((?:{ROOTS})\.[a-z0-9_.-]+[a-z0-9_])(?::[^`]*)?`", text_of(page))
    lines = [line.split(":")[0] for block in code_blocks(f"{page}.md", "yaml") for line in block.splitlines()]
    known = known_options()
    assert {name for name in [*spans, *lines] if not name.endswith((".conf", ".py"))} <= set(known)


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_known(page: str) -> None:
    lines = "\n".join([*code_blocks(f"{page}.md", "console"), *re.findall(r"`([^`\n]+)`", text_of(page))])
    for name, below in re.findall(r"^(?:\$ )?tidegate ([a-z]+)(?: ([a-z]+))?", lines, re.MULTILINE):
        context = click.Context(commands)
        command = commands.get_command(context, name)
        assert command is not None, name
        if below and isinstance(command, click.Group):
            assert command.get_command(context, below) is not None, (name, below)


def test_the_alarms_are_about_metrics_that_there_are() -> None:
    known = set(re.findall(r"^\| `(\w+)` \|", text_of("metrics"), re.MULTILINE))
    named = set(re.findall(r"[JT]…(\w+)", text_of("operate")))
    assert len(named) > 5
    assert named <= known


def test_the_page_about_installing_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"^\| `(\w+)` \|", text_of("install").split("## Extras")[1], re.MULTILINE)
    assert sorted(named) == sorted(extras)
