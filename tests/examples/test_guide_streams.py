"""The programs of the guide's pages on streams print what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "guide"
PAGES = ROOT / "docs" / "guide"


def run(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, program],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (PAGES / page).read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize(
    ("program", "output"),
    [
        (
            "streams.py",
            "tea> ('Ada', 3)\ntea> ('Bob', 5)\ntea> ('Ada', 4)\norder of Ada\norder of Bob\nprice of ink\n",
        ),
        (
            "partitioning.py",
            "rebalance (1, 0) (2, 1) (300, 2)\n"
            "broadcast (1, 0) (1, 1) (1, 2) (2, 0) (2, 1) (2, 2) (300, 0) (300, 1) (300, 2)\n"
            "global_ (1, 0) (2, 0) (300, 0)\n"
            "custom (1, 1) (2, 0) (300, 2)\n",
        ),
        ("broadcast_state.py", "Ada ordered 15, the limit is 10\n"),
        ("side_outputs.py", "reading> 20.5\nreading> 21.0\nbroken> 'cold' is no number\n"),
    ],
)
def test_a_program_of_the_guide_prints_what_it_should(program: str, output: str) -> None:
    assert sorted(run(program).splitlines()) == sorted(output.splitlines())


def test_the_page_on_batch_mode_shows_what_comes_out() -> None:
    (shown,) = blocks("batch-mode.md", "")
    assert run("batch_mode.py") == shown + "longest 3 total 13\n"


def test_the_page_on_plans_shows_what_comes_out() -> None:
    nodes = [line for line in run("plan.py").splitlines() if "task" in line]
    assert len(nodes) == 4
    assert "\n```\n" + "\n".join(nodes) + "\n```\n" in (PAGES / "plan.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "program", "count"),
    [
        ("streams.md", "streams.py", 2),
        ("partitioning.md", "partitioning.py", 1),
        ("broadcast-state.md", "broadcast_state.py", 2),
        ("side-outputs.md", "side_outputs.py", 2),
        ("batch-mode.md", "batch_mode.py", 1),
        ("plan.md", "plan.py", 1),
    ],
)
def test_the_page_shows_parts_of_the_program(page: str, program: str, count: int) -> None:
    source = (EXAMPLES / program).read_text("utf-8")
    assert sum(block in source for block in blocks(page, "python")) == count
