"""Events beside their outcomes, as texts one can read. See `machines.py` for the words.

A line at the margin is an event (or, after `#`, a comment); the indented lines below it are what the
machine answered. A line such as `aligner 2` starts a new machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .machines import Machine, machine_of

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def performed(script: str) -> str:
    """The script with the outcomes of today."""
    machine: Machine | None = None
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("    "):
            continue
        lines.append(line)
        if not line or line.startswith("#"):
            continue
        started = machine_of(line)
        if started is not None:
            machine = started
            continue
        assert machine is not None, "a script begins with a machine"
        lines += [f"    {outcome}" for outcome in machine.perform(line)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_outcomes_are_as_written(path: Path, rewrite_golden: bool) -> None:
    script = path.read_text("utf-8")
    today = performed(script)
    if rewrite_golden:
        path.write_text(today, "utf-8")
    else:
        assert today == script


def test_every_machine_has_scripts() -> None:
    names = {path.stem.split("_")[0] for path in SCRIPTS}
    assert names == {"aligner", "tracker", "coordinator"}
