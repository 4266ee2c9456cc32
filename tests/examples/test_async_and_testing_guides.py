"""The programs of docs/guide/async-io.md and docs/guide/testing.md run, and are printed there as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "guide"


def run(*arguments: object) -> str:
    finished = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_every_order_gets_its_name_though_the_service_is_busy_now_and_then() -> None:
    names = ["Ada", "Grace", "Edsger", "Ada"]
    expected = [f"order {number} is of {name}" for number, name in enumerate(names)]
    assert run("async_io.py").splitlines() == expected


def test_the_tests_of_the_testing_guide_pass(tmp_path: Path) -> None:
    plugins = ["no:tidegate", "tidegate.testing.pytest_plugin", "no:cacheprovider"]
    options = [option for plugin in plugins for option in ("-p", plugin)]
    output = run(
        "-m", "pytest", "-q", *options, "-c", "/dev/null", "--basetemp", tmp_path, "testing_functions.py"
    )
    assert "7 passed" in output


@pytest.mark.parametrize(
    ("page", "program"), [("async-io.md", "async_io.py"), ("testing.md", "testing_functions.py")]
)
def test_the_page_shows_what_runs(page: str, program: str) -> None:
    source = (EXAMPLES / program).read_text("utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/guide" / page).read_text("utf-8"), re.M | re.S
    )
    assert len(blocks) >= 2
    # One block shows how to call with paths that no example has.
    missing = [
        block for block in blocks if block not in source and not block.startswith("verify_exactly_once(")
    ]
    assert missing == []
