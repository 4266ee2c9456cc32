"""Functions that cannot travel and keys that have no stable bytes are refused by name."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import JobExecutionError, SerializationError
from tidegate.datastream import KeySelector
from tidegate.protocol.elements import Batch
from tidegate.runtime.network.wire import encode_elements

from . import programs

KEYS: dict[str, Any] = {
    "float": 1.5,
    "nan": float("nan"),
    "list of float": [1.5],
    "dict": {"a": 1},
    "None": None,
    "tuple of list of float": (1, [2.5]),
    "object": object,
}


class KeyOf(KeySelector):
    """One bad key among good ones."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def get_key(self, value: int) -> Any:
        if value != 7:
            return value
        return object() if self._key is object else self._key


def test_a_function_that_cannot_be_pickled_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    lock = threading.Lock()
    env = programs.environment(tmp_path)
    env.from_collection([1]).map(lambda value: (lock, value)).name("locked")
    with pytest.raises(SerializationError) as failure:
        env.execute()
    text = str(failure.value)
    for words in ("operator 'locked'", "test_functions_and_keys.py:", "cannot pickle", "in open()"):
        assert words in text


def test_a_record_that_cannot_be_pickled_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        SerializationError, match=r"a record cannot be sent.*cannot pickle.*inside the function"
    ):
        encode_elements([Batch([threading.Lock()])])


def test_a_key_selector_that_cannot_be_pickled_is_refused_by_name(tmp_path: Path) -> None:
    lock = threading.Lock()
    env = programs.environment(tmp_path)
    keyed = env.from_collection([1]).key_by(lambda value: lock and value)
    keyed.process(programs.CountPerKey()).name("counter")
    with pytest.raises(SerializationError, match="operator 'counter'"):
        env.execute()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", KEYS)
def test_a_key_without_stable_bytes_ends_the_job_with_its_operator_and_the_key(
    name: str, parallelism: int, tmp_path: Path
) -> None:
    env = programs.environment(tmp_path, **programs.CHECKPOINTING)
    env.set_parallelism(parallelism)
    numbers = env.from_collection(range(20)).map(lambda n: n).name("culprit")
    counted = numbers.key_by(KeyOf(KEYS[name])).process(programs.CountPerKey())
    with (
        programs.leaving_no_thread(),
        pytest.raises(JobExecutionError) as failure,
        counted.execute_and_collect() as results,
    ):
        list(results)
    cause = str(failure.value).partition("\n\n")[0]
    for words in ("after operator culprit", "no deterministic encoding (", "use int, str, bytes"):
        assert words in cause
    # A restart would meet the same key again.
    assert "restarts" not in cause


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_key_of_another_type_than_declared_ends_the_job_with_its_operator(
    parallelism: int, tmp_path: Path
) -> None:
    env = programs.environment(tmp_path, **programs.CHECKPOINTING).set_parallelism(parallelism)
    numbers = env.from_collection(range(20))
    counted = numbers.key_by(lambda n: n if n == 7 else str(n), key_type=Types.STRING())
    with (
        pytest.raises(JobExecutionError) as failure,
        counted.process(programs.CountPerKey()).name("counter").execute_and_collect() as results,
    ):
        list(results)
    cause = str(failure.value).partition("\n\n")[0]
    for words in ("operator counter (", "the key is 7 of type int where STRING is declared"):
        assert words in cause
    assert "restarts" not in cause
