"""Exactly-once sinks in a process that is killed at each phase of their protocol, and resumed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .killing import EXPECTED, PHASES, Runner, read


@pytest.fixture(scope="module")
def run() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize("point", PHASES)
def test_postgres_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, database: Any, tmp_path: Path, point: str
) -> None:
    database.query("CREATE TABLE numbers (number bigint PRIMARY KEY, text text)")
    assert run("postgres", database.conninfo, tmp_path, point) == -signal.SIGKILL
    assert run("postgres", database.conninfo, tmp_path, "") == 0
    assert database.query("SELECT number, text FROM numbers ORDER BY 1") == EXPECTED
    assert database.prepared() == []


@pytest.mark.parametrize("point", PHASES)
def test_a_directory_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, tmp_path: Path, point: str
) -> None:
    out = tmp_path / "out"
    assert run("files", str(out), tmp_path, point) == -signal.SIGKILL
    assert {number for number, _ in read(out.as_uri())} <= set(range(240))
    assert run("files", str(out), tmp_path, "") == 0
    assert read(out.as_uri()) == EXPECTED


@pytest.mark.parametrize("point", ["commit_mid@sink/1:2:kill", "commit_after@sink/0:2:kill"])
def test_an_object_store_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, object_store: Any, tmp_path: Path, point: str
) -> None:
    assert run("files", object_store.uri("out"), tmp_path, point) == -signal.SIGKILL
    assert run("files", object_store.uri("out"), tmp_path, "") == 0
    assert read(object_store.uri("out")) == EXPECTED
