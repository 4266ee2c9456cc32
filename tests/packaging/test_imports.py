"""What may be imported where, as far as import-linter cannot say it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def external_imports(file: Path) -> Iterator[str]:
    """Top-level names of the absolute imports anywhere in a file."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


def package_files() -> list[Path]:
    rooms = [path.parent for path in ROOT.glob("[a-z]*/__init__.py")]
    files = [file for room in rooms for file in room.rglob("*.py")]
    outside = {ROOT / name for name in ("tests", "benchmarks", "examples", "docs", "build")}
    return [ROOT / "__init__.py", *(file for file in files if not outside & set(file.parents))]


@pytest.mark.parametrize("room", ["protocol", "common"])
def test_the_pure_rooms_use_the_standard_library_only(room: str) -> None:
    found = {
        (file.name, name)
        for file in (ROOT / room).rglob("*.py")
        for name in external_imports(file)
        if name not in sys.stdlib_module_names
    }
    assert found == set()


def test_lmdb_is_imported_in_its_own_package_of_state_only() -> None:
    users = {file for file in package_files() if "lmdb" in external_imports(file)}
    assert {file for file in users if file.parent != ROOT / "state" / "lmdb"} == set()


def test_inside_the_package_every_import_of_it_is_relative() -> None:
    assert [file for file in package_files() if "tidegate" in external_imports(file)] == []


def test_importing_tidegate_loads_nothing_heavy() -> None:
    program = (
        "import sys, tidegate\n"
        "heavy = 'ray pyspark raydp pandas pyarrow numpy lmdb opentelemetry'.split()\n"
        "print(*(name for name in heavy if name in sys.modules))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tidegate.')))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "\ntidegate.common tidegate.common.lazy_imports\n"


@pytest.mark.parametrize(
    ("statement", "not_yet"),
    [
        (
            "from tidegate.datastream import StreamExecutionEnvironment",
            "ray asyncio packaging pyarrow.compute pyarrow.parquet lmdb tidegate.coordinator.job_coordinator "
            "tidegate.coordinator.monitoring.statistics tidegate.protocol.checkpoints.checkpoint_events "
            "tidegate.protocol.task_events tidegate.protocol.scheduling.autoscaler "
            "tidegate.state.storage.stored_checkpoint",
        ),
        (
            "import tidegate.actors.job_host",
            "pandas pyarrow.compute pyarrow.parquet lmdb tidegate.runtime.tasks.task "
            "tidegate.coordinator.local_executor",
        ),
        # Whoever holds the handle of an actor imports the module of its class.
        (
            "import tidegate.actors.coordinator_actor",
            "numpy tidegate.common.errors tidegate.coordinator.job_coordinator tidegate.runtime.tasks.task",
        ),
    ],
)
def test_a_start_imports_only_what_it_needs_at_once(statement: str, not_yet: str) -> None:
    program = (
        f"import sys\n{statement}\nprint(*(name for name in {not_yet.split()} if name in sys.modules))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


def test_every_public_name_of_the_package_can_be_loaded() -> None:
    import tidegate

    for name in tidegate.__all__:
        assert getattr(tidegate, name) is not None
    assert dir(tidegate) == sorted(tidegate.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    import tidegate

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tidegate.no_such_name
