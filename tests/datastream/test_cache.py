"""Cached streams: the first job makes the records, later ones read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import CachedDataStream, RuntimeExecutionMode, StreamExecutionEnvironment

from .jobs import environment

calls: list[int] = []


def counted(value: int) -> int:
    """Jobs run in this process, so a list of it knows how often they called."""
    calls.append(value)
    return value * 10


@pytest.fixture(autouse=True)
def nothing_called() -> Iterator[None]:
    calls.clear()
    yield
    calls.clear()


def batch(directory: Path, parallelism: int = 1, checkpoints: bool = False) -> StreamExecutionEnvironment:
    env = environment(
        directory if checkpoints else None, parallelism, {"tidegate.cache.dir": str(directory / "caches")}
    )
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def cached(env: StreamExecutionEnvironment) -> CachedDataStream:
    return env.from_collection(range(20)).rebalance().map(counted).cache()


EXPECTED = [value * 10 for value in range(20)]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_records_are_made_once(parallelism: int, checkpoints: bool, tmp_path: Path) -> None:
    stream = cached(batch(tmp_path, parallelism, checkpoints))
    assert sorted(stream.execute_and_collect()) == EXPECTED
    assert len(calls) == 20
    assert sorted(stream.map(abs).execute_and_collect()) == EXPECTED
    assert sorted(stream.key_by(lambda value: 0).sum().execute_and_collect()) == [sum(EXPECTED)]
    assert len(calls) == 20


def test_nothing_is_kept_before_somebody_asks(tmp_path: Path) -> None:
    cached(batch(tmp_path))
    assert not (tmp_path / "caches").exists()


def test_invalidated_records_are_made_again(tmp_path: Path) -> None:
    stream = cached(batch(tmp_path))
    list(stream.execute_and_collect())
    stream.invalidate()
    assert list((tmp_path / "caches").iterdir()) == []
    assert sorted(stream.execute_and_collect()) == EXPECTED
    assert sorted(stream.execute_and_collect()) == EXPECTED
    assert len(calls) == 40


def test_closing_the_environment_removes_what_is_kept(tmp_path: Path) -> None:
    env = batch(tmp_path)
    list(cached(env).execute_and_collect())
    assert len(list((tmp_path / "caches").iterdir())) == 1
    env.close()
    assert list((tmp_path / "caches").iterdir()) == []


def test_what_a_failed_job_wrote_is_not_used(tmp_path: Path) -> None:
    stream = cached(batch(tmp_path))
    with pytest.raises(JobExecutionError):
        list(stream.map(lambda value: 1 // (value - 50)).execute_and_collect())
    assert sorted(stream.execute_and_collect()) == EXPECTED


def test_a_cached_stream_may_be_cached_again(tmp_path: Path) -> None:
    stream = cached(batch(tmp_path))
    second = stream.map(counted).cache()
    assert len(list(second.execute_and_collect())) == 20
    assert sorted(second.execute_and_collect()) == [value * 100 for value in range(20)]
    assert sorted(stream.execute_and_collect()) == EXPECTED
    assert len(calls) == 40


def test_caching_needs_batch_mode(tmp_path: Path) -> None:
    env = batch(tmp_path).set_runtime_mode(RuntimeExecutionMode.STREAMING)
    with pytest.raises(ConfigurationError, match=r"'Cache' \(test_cache.py:\d+\) caches a stream.*BATCH"):
        list(cached(env).execute_and_collect())


@pytest.mark.parametrize(
    "write", [lambda s: s.name("x"), lambda s: s.uid("x"), lambda s: s.set_parallelism(1)]
)
def test_a_cached_stream_has_nothing_to_set(write: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a cached stream has no operator of its own"):
        write(cached(batch(tmp_path)))


def test_a_cache_that_cannot_be_written_says_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "caches").write_text("in the way")
    with pytest.raises(JobExecutionError, match=r"set tidegate\.cache\.dir"):
        list(cached(batch(tmp_path)).execute_and_collect())


def test_records_that_somebody_removed_are_missed_before_the_job_starts(tmp_path: Path) -> None:
    stream = cached(batch(tmp_path))
    list(stream.execute_and_collect())
    for directory in (tmp_path / "caches").iterdir():
        directory.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"are gone; call invalidate\(\)"):
        stream.execute_and_collect()
