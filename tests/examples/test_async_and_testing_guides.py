"""The programs of docs/guide/async-io.md and docs/guide/testing.md run, and are printed there as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import ROOT, code_blocks, finished, output_of


def test_every_order_gets_its_name_though_the_service_is_busy_now_and_then() -> None:
    names = ["Ada", "Grace", "Edsger", "Ada"]
    expected = [f"order {number} is of {name}" for number, name in enumerate(names)]
    assert output_of("guide", "async_io.py").splitlines() == expected


@pytest.mark.parametrize(
    ("program", "passed"), [("testing_functions.py", "7 passed"), ("testing_postgres.py", "1 passed")]
)
def test_the_tests_of_the_testing_guide_pass(tmp_path: Path, program: str, passed: str) -> None:
    plugins = ["no:tidegate", "tidegate.testing.pytest_plugin", "no:cacheprovider"]
    options = [option for plugin in plugins for option in ("-p", plugin)]
    options += ["-c", "/dev/null", "--basetemp", str(tmp_path)]
    done = finished("guide", "-m", "pytest", "-q", *options, program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed in done.stdout


@pytest.mark.parametrize(
    ("page", "programs"),
    [("async-io.md", ["async_io.py"]), ("testing.md", ["testing_functions.py", "testing_postgres.py"])],
)
def test_the_page_shows_what_runs(page: str, programs: list[str]) -> None:
    source = "".join((ROOT / "examples/guide" / program).read_text("utf-8") for program in programs)
    blocks = code_blocks(f"guide/{page}")
    assert len(blocks) >= 2
    # One block shows how to call with paths that no example has.
    missing = [
        block for block in blocks if block not in source and not block.startswith("verify_exactly_once(")
    ]
    assert missing == []
