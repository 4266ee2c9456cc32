"""Jobs that misuse state end with an error that names operator and state and says what to do.

Each job restores a checkpoint of an earlier one, which is untouched afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Time, TypeInformation, Types
from tidegate.common.errors import TidegateError
from tidegate.datastream import KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

from . import programs

OPERATOR, STATE = "Visitors", "visits"
Open = Callable[[RuntimeContext], Callable[[Any], None]]


class Function(KeyedProcessFunction):
    """Does with state what it is told to: `declare` gives what to call with each record."""

    def __init__(self, declare: Open) -> None:
        self._declare = declare

    def open(self, runtime_context: RuntimeContext) -> None:
        self._step = self._declare(runtime_context)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self._step(value)
        return ()


def run(
    directory: Path,
    declare: Open,
    key_type: TypeInformation | None = None,
    parallelism: int = 1,
    **settings: str,
) -> None:
    options = {**programs.CHECKPOINTING, "restart-strategy.type": "none", **settings}
    env = programs.environment(directory, **options).set_parallelism(parallelism)
    is_first = "execution.state-recovery.path" not in settings
    # Another source: that of the first job has come to its end.
    records = env.from_collection(range(20)).uid("records" if is_first else "more records")
    keyed = records.key_by(lambda n: n % 3, key_type or Types.LONG())
    function = keyed.process(Function(declare)).name(OPERATOR).uid("visitors").set_max_parallelism(16)
    function.add_sink(lambda _: None).uid("nowhere")
    env.execute()


def visits(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    state = runtime_context.get_state(ValueStateDescriptor(STATE, Types.LONG()))
    return state.update


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    run(tmp_path, visits)
    return Path(programs.checkpoints_in(tmp_path)[-1])


FENCE_DIRECTORIES = {"epochs", "ids", "accepted", "continued"}


def content(directory: Path) -> dict[Path, str]:
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.rglob("*") if path.is_file()
    }


def other(descriptor: Any) -> Callable[[RuntimeContext], Any]:
    """Another state beside the restored one."""

    def declare(runtime_context: RuntimeContext) -> Any:
        visits(runtime_context)
        return getattr(runtime_context, f"get_{descriptor.kind}_state")(descriptor)

    return declare


def a_value_of_a_wrong_type(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    state = runtime_context.get_state(ValueStateDescriptor(STATE, Types.LONG()))
    return lambda record: state.update(f"visit {record}")


def an_element_of_a_wrong_type(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    state = other(ListStateDescriptor("pages", Types.TUPLE([Types.LONG(), Types.STRING()])))(runtime_context)
    return lambda record: state.add((record, record))


def one_name_for_two_states(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    visits(runtime_context)
    runtime_context.get_list_state(ListStateDescriptor(STATE, Types.LONG()))
    return print


def another_type_than_before(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    state = runtime_context.get_state(ValueStateDescriptor(STATE, Types.STRING()))
    return lambda record: state.update("x")


def a_life_of_no_length(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    descriptor = ValueStateDescriptor(STATE, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(0)).build())
    return print


def a_life_that_was_not_there_before(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    descriptor = ValueStateDescriptor(STATE, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    state = runtime_context.get_state(descriptor)
    return state.update


def a_map_key_without_encoding(runtime_context: RuntimeContext) -> Callable[[Any], None]:
    state = other(MapStateDescriptor("pages"))(runtime_context)
    return lambda record: state.put({record}, 1)


REFUSED: list[tuple[Open, dict[str, Any], str, str]] = [
    (a_value_of_a_wrong_type, {}, STATE, r"'visit \d+'.*LONG"),
    (an_element_of_a_wrong_type, {}, "pages", r"STRING"),
    (one_name_for_two_states, {}, STATE, "one descriptor per name"),
    (another_type_than_before, {}, STATE, r"LONG.*STRING.*(new name|uid|declare)"),
    (visits, {"key_type": Types.STRING()}, STATE, r"LONG.*STRING"),
    (a_life_of_no_length, {}, STATE, "at least one millisecond"),
    (a_life_that_was_not_there_before, {}, STATE, "time to live"),
    (a_map_key_without_encoding, {}, "pages", r"deterministic encoding.*use int, str"),
    (visits, {"parallelism": 17}, "", r"17 is not between 1 and .* 16.*"),
]


@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
@pytest.mark.parametrize(
    ("declare", "settings", "state", "remedy"), REFUSED, ids=[declare.__name__ for declare, *_ in REFUSED]
)
def test_misused_state_is_an_error_that_names_it_and_leaves_checkpoints_alone(
    declare: Open,
    settings: dict[str, Any],
    state: str,
    remedy: str,
    backend: str,
    checkpoint: Path,
    tmp_path: Path,
) -> None:
    before = content(checkpoint.parent)
    options = {
        "execution.state-recovery.path": str(checkpoint),
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "state.backend.type": backend,
    }
    with programs.leaving_no_thread(), pytest.raises(TidegateError, match=f"(?s){remedy}") as failure:
        run(tmp_path, declare, **settings, **options)
    cause = str(failure.value).partition("\n\n")[0]
    assert OPERATOR in cause
    assert f"{state!r}" in cause or not state
    after = content(checkpoint.parent)
    assert {path: after.get(path) for path in before} == before
    # The job that wrote the checkpoint is fenced before it is read, so the fence is what is new.
    assert {path.parent.name for path in after.keys() - before.keys()} <= FENCE_DIRECTORIES
    programs.assert_readable(str(checkpoint))
