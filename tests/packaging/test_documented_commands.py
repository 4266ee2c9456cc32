"""Every command and file of the benchmarks that the project's texts name exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tidegate.benchmarks import suites

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"-m (benchmarks(?:\.\w+)+)|(benchmarks/[\w/]+\.\w+)")
SUITE = re.compile(r"(?:SUITE=|--suite )(\w[\w-]*)")
OUTPUT = "benchmarks/results/"


def texts() -> list[Path]:
    """Documentation, the Makefile, and the benchmarks themselves, which name commands in their docstrings."""
    folders = ("docs", "benchmarks", "tests/benchmarks", "k8s")
    found = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".md", ".py")
    ]
    return [*found, *ROOT.glob("*.md"), ROOT / "Makefile"]


def exists(module: str, file: str) -> bool:
    """Whether a named module can be imported, or a named file is there."""
    if module:
        try:
            return importlib.util.find_spec(f"tidegate.{module}") is not None
        except ModuleNotFoundError:
            return False
    return file.startswith(OUTPUT) or (ROOT / file).exists()


def test_every_named_program_of_the_benchmarks_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {module or file}"
        for path in texts()
        for module, file in NAMED.findall(path.read_text())
        if not exists(module, file)
    ]
    assert not missing, "\n".join(missing)


def test_every_named_suite_of_the_benchmarks_exists() -> None:
    files = [path for path in texts() if path.suffix == ".md"]
    named = {(path.name, suite) for path in files for suite in SUITE.findall(path.read_text())}
    assert named
    assert not {(file, suite) for file, suite in named if suite not in suites.names()}
