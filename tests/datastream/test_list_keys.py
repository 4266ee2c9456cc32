"""Keys that are lists, which PyFlink accepts: they work as the tuples of their elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream import KeyedProcessFunction, RuntimeExecutionMode

from .jobs import RunningSum, environment, expected_sums
from .test_checkpoints import COUNT, KEYS, FailOnce, held

RECORDS = [("a", 3), ("b", 5), ("a", 1), ("b", 2)]


class KeyOf(KeyedProcessFunction):
    """Emits the current key with each record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield ctx.get_current_key(), value[1]


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_records_with_equal_lists_as_keys_meet(mode: RuntimeExecutionMode, parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    env.set_runtime_mode(mode)
    stream = env.from_collection(RECORDS).key_by(lambda value: [value[0], [1]]).min_by(1)
    with stream.execute_and_collect() as results:
        assert {("a", 1), ("b", 2)} <= set(results)


@pytest.mark.parametrize("key_type", [None, Types.LIST(Types.STRING())])
def test_the_current_key_is_a_tuple(key_type: TypeInformation | None) -> None:
    env = environment()
    stream = env.from_collection(RECORDS).key_by(lambda value: [value[0]], key_type).process(KeyOf())
    with stream.execute_and_collect() as results:
        assert set(results) == {(("a",), 3), (("a",), 1), (("b",), 5), (("b",), 2)}


def test_lists_inside_tuples_are_keys_too() -> None:
    env = environment()
    stream = env.from_collection(RECORDS).key_by(lambda value: (1, [value[0]])).process(KeyOf())
    with stream.execute_and_collect() as results:
        assert {key for key, _ in results} == {(1, ("a",)), (1, ("b",))}


@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
@pytest.mark.parametrize("key_type", [None, Types.LIST(Types.LONG())])
def test_state_of_list_keys_survives_a_failure(
    backend: str, key_type: TypeInformation | None, tmp_path: Path
) -> None:
    env = environment(tmp_path, 2, {"state.backend.type": backend})
    numbers = held(env).map(FailOnce(tmp_path / "diary", COUNT - 1))
    stream = numbers.key_by(lambda value: [value % KEYS], key_type).process(RunningSum())
    with stream.execute_and_collect() as results:
        found = set(results)
    assert len(found) == COUNT
    assert {((key,), count, total) for key, count, total in expected_sums(COUNT, KEYS)} <= found
