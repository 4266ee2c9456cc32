"""A job started from a savepoint whose states its program has renamed or does not declare any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import KeyedProcessFunction, LmdbStateBackend, RuntimeContext, StateBackend
from tidegate.datastream.state import ValueStateDescriptor

from .jobs import environment

BACKENDS: dict[str, StateBackend | None] = {"memory": None, "lmdb": LmdbStateBackend()}


class Count(KeyedProcessFunction):
    """Counts in one state by key, which it declares in `open` or with the first record."""

    def __init__(self, name: str, is_late: bool = False, previous: str | None = None) -> None:
        self.descriptor = ValueStateDescriptor(name, Types.LONG())
        if previous is not None:
            self.descriptor.renamed_from(previous)
        self.is_late = is_late
        self.state: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self.runtime_context = runtime_context
        if not self.is_late:
            self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if self.state is None:
            self.state = self.runtime_context.get_state(self.descriptor)
        self.state.update((self.state.value() or 0) + 1)
        yield value, self.state.value()


def run(
    directory: Path, function: Count, backend: str = "memory", count: int = 10, **options: str
) -> list[Any]:
    """Count the numbers from 0 by their remainder of 3; the final checkpoint stays."""
    settings = {
        "execution.checkpointing.interval": "1 h",
        "tidegate.checkpointing.retain-on-finish": "true",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        **options,
    }
    env = environment(directory, 1, settings)
    chosen = BACKENDS[backend]
    if chosen is not None:
        env.set_state_backend(chosen)
    stream = env.from_collection(list(range(count)), Types.LONG()).uid("numbers")
    counted = stream.key_by(lambda value: value % 3, Types.LONG()).process(function).uid("counts")
    return sorted(counted.execute_and_collect())


def checkpoint_of(directory: Path, function: Count, backend: str = "memory", **options: str) -> str:
    run(directory, function, backend, **options)
    (manifest,) = (directory / "checkpoints").glob("*/chk-*/MANIFEST")
    return str(manifest.parent)


def start(directory: Path, path: str, function: Count, backend: str = "memory", **options: str) -> list[Any]:
    """The same from a checkpoint, with ten more numbers."""
    return run(directory, function, backend, 20, **{"execution.state-recovery.path": path, **options})


ALLOWED = {"execution.state-recovery.ignore-unclaimed-state": "true"}


@pytest.fixture
def stored(tmp_path: Path) -> str:
    return checkpoint_of(tmp_path / "one", Count("total"))


def restored_counts(results: list[Any]) -> list[int]:
    """How far the counts of the new numbers are."""
    return [count for value, count in results if value >= 10]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_was_renamed_fails_the_restore(tmp_path: Path, backend: str) -> None:
    path = checkpoint_of(tmp_path / "one", Count("total"), backend)
    with pytest.raises(JobExecutionError) as caught:
        start(tmp_path / "two", path, Count("totals"), backend)
    text = str(caught.value)
    for part in ("(uid counts)", "'total' (new in the program: 'totals')", "renamed_from(", *ALLOWED):
        assert part in text
    # The same error comes again with each restart, so there is none.
    assert not list((tmp_path / "two" / "checkpoints").glob("*/chk-*"))


def test_a_state_that_was_renamed_and_says_so_is_restored(tmp_path: Path, stored: str) -> None:
    results = start(tmp_path / "two", stored, Count("totals", previous="total"))
    assert min(restored_counts(results)) == 4


def test_a_renamed_state_may_be_ignored_with_a_warning(
    tmp_path: Path, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        results = start(tmp_path / "two", stored, Count("totals"), **ALLOWED)
    assert min(restored_counts(results)) == 1
    warnings = [record.getMessage() for record in caplog.records if "'total'" in record.getMessage()]
    assert len(warnings) == 1
    assert "'totals'" in warnings[0]


def test_what_is_ignored_once_does_not_fail_the_next_restore(tmp_path: Path, stored: str) -> None:
    path = checkpoint_of(
        tmp_path / "two", Count("totals"), **{"execution.state-recovery.path": stored, **ALLOWED}
    )
    start(tmp_path / "three", path, Count("totals"))


def test_a_state_that_is_declared_late_may_be_so_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = checkpoint_of(tmp_path / "one", Count("total", is_late=True))
    with caplog.at_level(logging.WARNING):
        results = start(tmp_path / "two", path, Count("total", is_late=True))
    assert min(restored_counts(results)) == 4
    assert "'total'" not in caplog.text


def test_a_state_that_was_declared_late_and_renamed_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = checkpoint_of(tmp_path / "one", Count("total", is_late=True))
    with caplog.at_level(logging.WARNING):
        start(tmp_path / "two", path, Count("totals", is_late=True))
    late = [
        record.getMessage() for record in caplog.records if "has not declared so far" in record.getMessage()
    ]
    assert len(late) == 1
    assert "state 'totals' is new, and the snapshot has 'total'" in late[0]
