"""The repository root is the package `tidegate`; these tests guard the traps of that layout."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "k8s", "build", "dist", "out"}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def top_level_directories() -> set[str]:
    return {
        entry.name
        for entry in ROOT.iterdir()
        if entry.is_dir() and not entry.name.startswith((".", "__")) and not entry.name.endswith(".egg-info")
    }


def rooms() -> set[str]:
    return top_level_directories() - NOT_SHIPPED


def packages_on_disk() -> set[str]:
    """Every directory below a room that holds Python files, and the root, as package names."""
    found = {"tidegate"}
    for room in rooms():
        for file in (ROOT / room).rglob("*.py"):
            found.add(".".join(("tidegate", *file.parent.relative_to(ROOT).parts)))
    return found


def test_every_package_on_disk_is_listed_for_the_wheel(pyproject: dict[str, Any]) -> None:
    listed = pyproject["tool"]["setuptools"]["packages"]
    assert set(listed) == packages_on_disk()
    assert listed == sorted(listed)


def test_every_package_has_an_init_file() -> None:
    # Without it setuptools would ship the directory, but import-linter would not look into it.
    for package in packages_on_disk():
        assert ROOT.joinpath(*package.split(".")[1:], "__init__.py").is_file(), package


def test_the_root_holds_no_python_file_but_its_init() -> None:
    assert [file.name for file in ROOT.glob("*.py")] == ["__init__.py"]


def test_type_checkers_find_the_marker_of_typed_packages(pyproject: dict[str, Any]) -> None:
    (marker,) = pyproject["tool"]["setuptools"]["package-data"]["tidegate"]
    assert (ROOT / marker).is_file()


def test_every_file_of_the_console_s_page_is_in_the_wheel(pyproject: dict[str, Any]) -> None:
    console = ROOT / "console"
    on_disk = {path for path in (console / "web").rglob("*") if path.is_file()}
    patterns = pyproject["tool"]["setuptools"]["package-data"]["tidegate.console"]
    assert {path for pattern in patterns for path in console.glob(pattern) if path.is_file()} == on_disk
    assert console / "web" / "index.html" in on_disk


def test_every_room_has_its_layer(pyproject: dict[str, Any]) -> None:
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = [room.strip() for layer in layers for room in layer.split("|")]
    assert sorted(named) == sorted(rooms())


def test_a_working_directory_uploaded_to_ray_carries_drivers_and_examples_only(
    tmp_path: Path,
) -> None:
    from ray._private.runtime_env.packaging import create_package

    source = tmp_path / "source"
    for name in (*top_level_directories(), "examples", ".git", ".venv"):
        (source / name).mkdir(parents=True, exist_ok=True)
        (source / name / "file.py").touch()
    for name in ("__init__.py", "driver.py"):
        (source / name).touch()
    shutil.copy(ROOT / ".rayignore", source)

    create_package(str(source), tmp_path / "uploaded.zip", include_gitignore=True)

    uploaded = zipfile.ZipFile(tmp_path / "uploaded.zip").namelist()
    assert sorted(uploaded) == ["driver.py", "examples/file.py"]
