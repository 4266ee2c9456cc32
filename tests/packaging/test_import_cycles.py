"""No modules import each other in a circle, not even in functions. Imports for type checkers do not count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = (ROOT / "pyproject.toml").read_text("utf-8").partition("packages = [")[2].partition("]")[0]
FOLDERS = [name.strip(' ",').removeprefix("tidegate.") for name in ROOMS.split() if "." in name]
# A stream's methods give streams of the other kinds, and those give this kind again.
FLUENT = {
    ("connectors.files.sink", "connectors.files.compacting_sink"),
    ("datastream.data_stream", "datastream.broadcast_stream"),
    ("datastream.data_stream", "datastream.cached_data_stream"),
    ("datastream.data_stream", "datastream.connected_streams"),
    ("datastream.data_stream", "datastream.joined_streams"),
    ("datastream.data_stream", "datastream.keyed_stream"),
    ("datastream.keyed_stream", "datastream.joined_streams"),
}


def modules() -> dict[str, Path]:
    files = [file for folder in FOLDERS for file in (ROOT / folder.replace(".", "/")).glob("*.py")]
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in names.items()}


def relative_imports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.ImportFrom) and node.level:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from relative_imports(child)


def imported(name: str, file: Path, known: dict[str, Path]) -> Iterator[str]:
    parents = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in relative_imports(ast.parse(file.read_text("utf-8"))):
        base = parents[: len(parents) + 1 - node.level] + (node.module.split(".") if node.module else [])
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            yield whole if whole in known else ".".join(base)


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    assert len(known) > 400, "the test finds no modules"
    graph = {
        name: {
            other
            for other in imported(name, file, known)
            if other in known and other != name and (name, other) not in FLUENT
        }
        for name, file in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"these modules import each other: {' <- '.join(error.args[1])}") from None
