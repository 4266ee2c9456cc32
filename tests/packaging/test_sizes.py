"""Files and classes stay small enough to be read as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .test_layout import ROOT, rooms

MOST_LINES = 500
MOST_FIELDS = 20
LARGER = {
    # One field for each setting; groups would only add a level to each name.
    "JobSettings": 54,
    "TaskSettings": 23,
    # What a user function or a fluent call may set or ask for, each independent of the others.
    "OperatorContext": 28,
    "Transformation": 22,
    # The simulator holds one part for each kind of fault and each checker; none of them runs in a job.
    "SimulatedShell": 33,
    "SimulatedCoordinator": 23,
    # On the path of each record: a further object would be a further look-up for each of them.
    "TaskLoop": 25,
    "TableKeyedStateBackend": 24,
    "StateTable": 21,
    # Still to be divided.
    "CheckpointStore": 22,
    "FlinkKafkaConsumer": 21,
}
"""Classes with more fields, why, and how many at most."""


def product_files() -> Iterator[Path]:
    for room in sorted(rooms()):
        yield from sorted((ROOT / room).rglob("*.py"))


def python_files() -> Iterator[Path]:
    yield from product_files()
    for directory in ("tests", "benchmarks", "examples", "docs"):
        yield from sorted((ROOT / directory).rglob("*.py"))


def assigned(method: ast.AST) -> Iterator[str]:
    """The attributes of `self` that a method assigns."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
            if isinstance(owner, ast.Name) and owner.id == "self":
                yield node.attr


def is_class_variable(node: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(node.annotation)


def fields_of(definition: ast.ClassDef) -> set[str]:
    fields: set[str] = set()
    is_dataclass = any("dataclass" in ast.unparse(each) for each in definition.decorator_list)
    for node in definition.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            fields.update(assigned(node))
        elif is_dataclass and isinstance(node, ast.AnnAssign) and not is_class_variable(node):
            fields.add(ast.unparse(node.target))
    return fields


def field_counts() -> Iterator[tuple[str, int]]:
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, len(fields_of(node))


def test_no_file_has_more_than_500_lines() -> None:
    lines = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in python_files()}
    assert len(lines) > 1_000, "files are missing"
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_class_has_more_than_20_fields() -> None:
    larger = {name: count for name, count in field_counts() if count > LARGER.get(name, MOST_FIELDS)}
    assert larger == {}


def test_fields_of_dataclasses_and_of_methods_are_counted() -> None:
    source = """
@dataclass
class A:
    a: int
    b: ClassVar[int]

    def f(self):
        self.c = self.d.e = 1
"""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    assert fields_of(definition) == {"a", "c"}
