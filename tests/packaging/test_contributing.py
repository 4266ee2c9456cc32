"""CONTRIBUTING says where things are: each file exists, and has the class or function that is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
LINES = (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()
LINKS = [(number, *found) for number, line in enumerate(LINES, 1) for found in LINK.findall(line)]
QUESTIONS = [
    "alignment times out",
    "TTL filters",
    "manifest is written",
    "connector",
    "REST field",
    "option",
    "window trigger",
    "backpressure",
    "LMDB is full",
    "Spark stage meets the barrier",
]


def has_symbol(source: str, dotted: str) -> bool:
    """Whether a module defines a name at its top, or a class in it that one."""
    body: list[ast.stmt] = ast.parse(source).body
    for name in dotted.split("."):
        found = next((each for each in body if name in _names(each)), None)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


def _names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [statement.name]
        case ast.Assign():
            return [target.id for target in statement.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


@pytest.mark.parametrize(("line", "text", "target"), LINKS)
def test_what_a_link_names_exists(line: int, text: str, target: str) -> None:
    if target.startswith("https:"):
        return
    path = ROOT / target.partition("#")[0]
    assert path.exists(), f"CONTRIBUTING.md:{line}: there is no {target}"
    if path.suffix == ".py" and text.startswith("`"):
        symbol = text.strip("`")
        assert has_symbol(path.read_text("utf-8"), symbol), (
            f"CONTRIBUTING.md:{line}: {target} has no {symbol}; name the one that answers the question now"
        )


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_of_a_newcomer_has_an_answer(question: str) -> None:
    rows = [line for line in LINES if line.startswith("|") and question in line.split("|")[1]]
    assert len(rows) == 1
    assert any(target.endswith(".py") for _, target in LINK.findall(rows[0]))


def test_a_symbol_that_is_gone_is_found() -> None:
    source = "LIMIT: int = 1\nclass Gate:\n    def take(self): ...\n"
    assert all(has_symbol(source, each) for each in ("LIMIT", "Gate", "Gate.take"))
    assert not any(has_symbol(source, each) for each in ("Take", "Gate.put", "LIMIT.x", "Gate.take.x"))
