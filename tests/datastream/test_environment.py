"""Settings of the environment that have no page of their own."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.state.lmdb_backend import LmdbStateBackend

from .jobs import environment


def test_local_jobs_share_a_default_parallelism() -> None:
    env = environment()
    other = StreamExecutionEnvironment(Configuration())
    other.configuration.set_string("execution.target", "local")
    assert (other.get_parallelism(), other.get_default_local_parallelism()) == (1, 1)
    try:
        env.set_default_local_parallelism(3)
        assert (other.get_parallelism(), other.get_default_local_parallelism()) == (3, 3)
        assert env.get_parallelism() == 1
    finally:
        env.set_default_local_parallelism(1)
    with pytest.raises(ConfigurationError, match="at least 1, got 0"):
        env.set_default_local_parallelism(0)


def test_switches_without_effect_can_be_read_back() -> None:
    env = environment()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled() is True
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled() is False
    assert list(env.from_collection([1]).execute_and_collect()) == [1]


@pytest.mark.parametrize("backend", ["lmdb", LmdbStateBackend])
def test_a_state_backend_is_an_instance(backend: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ConfigurationError, match=r"LmdbStateBackend\(\), but got .*state.backend.type"):
        env.set_state_backend(backend)
