"""Older state under a newer declaration, on every backend."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pyarrow.parquet as pq
import pydantic
import pytest
from tidegate.common import Row, Types
from tidegate.common.errors import ConfigurationError, StateMigrationError
from tidegate.common.type_system.class_types import ClassField, ClassTypeInfo
from tidegate.common.typeinfo import TypeInformation
from tidegate.protocol.checkpoints.handles import KeyedStateHandle
from tidegate.protocol.key_groups import key_group_range_of_subtask
from tidegate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.serializers.key_hashing import key_group_of
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage


@dataclasses.dataclass
class Visit:
    """As the new program has it."""

    page: str
    seconds: int
    tags: list[str] = dataclasses.field(default_factory=lambda: ["none"])
    rating: float | None = None


class Order(pydantic.BaseModel):
    id: int
    note: str = "no note"


def older(python_class: type[Any], *fields: tuple[str, TypeInformation]) -> ClassTypeInfo:
    """The type that an older program derived from the class."""
    now = Types.of(python_class)
    assert isinstance(now, ClassTypeInfo)
    return dataclasses.replace(now, fields=tuple(ClassField(*field) for field in fields))


OLD_VISIT = older(Visit, ("page", Types.STRING()), ("gone", Types.LONG()), ("seconds", Types.INT()))
ROW_1 = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
ROW_2 = Types.ROW_NAMED(["c", "b", "a"], [Types.LONG(), Types.STRING(), Types.BIG_INT()])
ROW_3 = Types.ROW_NAMED(["c", "b"], [Types.LONG(), Types.STRING()])
NEW_ROW = Row("c", "b", "a")
OLD_ROW = Row("page", "gone", "seconds")
NARROW, WIDE = Types.TUPLE([Types.INT(), Types.FLOAT()]), Types.TUPLE([Types.LONG(), Types.DOUBLE()])
CASES: list[tuple[TypeInformation, Any, TypeInformation, Any]] = [
    (Types.INT(), 5, Types.LONG(), 5),
    (Types.INT(), 1 << 40, Types.LONG(), 1 << 40),
    (Types.LONG(), 1 << 70, Types.BIG_INT(), 1 << 70),
    (Types.BYTE(), 5, Types.BIG_INT(), 5),
    (Types.FLOAT(), 0.1, Types.DOUBLE(), 0.1),
    (Types.FLOAT(), 3, Types.DOUBLE(), 3),
    (NARROW, (1, 2.5), WIDE, (1, 2.5)),
    (Types.TUPLE([Types.INT()]), (None,), Types.TUPLE([Types.BIG_INT()]), (None,)),
    (Types.TUPLE([Types.INT()]), (1 << 40,), Types.TUPLE([Types.BIG_INT()]), (1 << 40,)),
    (Types.LIST(Types.INT()), [1, None], Types.LIST(Types.BIG_INT()), [1, None]),
    (Types.LIST(Types.LIST(Types.BYTE())), [[1], None], Types.LIST(Types.LIST(Types.INT())), [[1], None]),
    (Types.LIST(Types.INT()), (1,), Types.LIST(Types.LONG()), (1,)),
    (Types.BASIC_ARRAY(Types.INT()), [1, None], Types.BASIC_ARRAY(Types.LONG()), [1, None]),
    (Types.MAP(Types.INT(), NARROW), {1: (1, 2.5)}, Types.MAP(Types.LONG(), WIDE), {1: (1, 2.5)}),
    (ROW_1, Row("a", "b")(1, "x"), ROW_2, NEW_ROW(None, "x", 1)),
    (ROW_1, Row("b", "a")("x", 1), ROW_2, NEW_ROW(None, "x", 1)),
    (ROW_2, NEW_ROW(3, "x", 1), ROW_3, Row("c", "b")(3, "x")),
    (Types.LIST(ROW_2), [NEW_ROW(3, "x", 1)], Types.LIST(ROW_3), [Row("c", "b")(3, "x")]),
    (Types.ROW([Types.INT()]), Row(1 << 40), Types.ROW([Types.LONG()]), Row(1 << 40)),
    (OLD_VISIT, OLD_ROW("/", 1, 2), Types.DATACLASS(Visit), Visit("/", 2, ["none"], None)),
    (Types.LIST(OLD_VISIT), [OLD_ROW("/", 1, 2)], Types.LIST(Types.of(Visit)), [Visit("/", 2)]),
    (older(Order, ("id", Types.INT())), Row(id=1), Types.PYDANTIC(Order), Order(id=1)),
]


def without_class(type_info: TypeInformation) -> TypeInformation:
    """The old type with rows for instances: the old class is no longer there to be made."""
    if isinstance(type_info, ClassTypeInfo):
        return dataclasses.replace(type_info, python_class=None)
    return Types.LIST(without_class(type_info.elem_type)) if type_info == Types.LIST(OLD_VISIT) else type_info  # type: ignore[attr-defined]


class Last:
    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def last(_: Any, value: Any) -> Any:
    return value


class Kind:
    """One kind of state, by how it is declared, written and read."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def state(self, backend: Any, type_info: TypeInformation) -> Any:
        if self.kind == "value":
            return backend.get_value_state(ValueStateDescriptor("state", type_info))
        if self.kind == "list":
            return backend.get_list_state(ListStateDescriptor("state", type_info))
        if self.kind == "map":
            return backend.get_map_state(MapStateDescriptor("state", Types.STRING(), type_info))
        if self.kind == "reducing":
            return backend.get_reducing_state(ReducingStateDescriptor("state", last, type_info))
        return backend.get_aggregating_state(AggregatingStateDescriptor("state", Last(), type_info))

    def write(self, state: Any, value: Any) -> None:
        if self.kind == "value":
            state.update(value)
        elif self.kind == "map":
            state.put("k", value)
        else:
            state.add(value)

    def read(self, state: Any) -> Any:
        if self.kind == "value":
            return state.value()
        if self.kind == "map":
            return state.get("k")
        return state.get()[0] if self.kind == "list" else state.get()


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
@pytest.mark.parametrize(("before", "value", "after", "expected"), CASES, ids=[str(c[0])[:30] for c in CASES])
def test_older_values_are_converted(
    open_backend: Any, kind: str, before: TypeInformation, value: Any, after: TypeInformation, expected: Any
) -> None:
    access = Kind(kind)
    old = open_backend()
    state = access.state(old, without_class(before))
    for key in (1, 2):
        old.current_key = key
        access.write(state, value)
    handle = old.freeze().persist()
    new = open_backend(attempt=1)
    new.restore(handle, owned=False)
    state = access.state(new, after)
    for key in (1, 2):
        new.current_key = key
        assert access.read(state) == expected
        assert repr(access.read(state)) == repr(expected)
    assert (
        new.freeze().persist().descriptors["state"]["value_type"] != handle.descriptors["state"]["value_type"]
    )


def restored(open_backend: Any, handle: KeyedStateHandle, attempt: int, owned: bool = True) -> Any:
    backend = open_backend(attempt=attempt)
    backend.restore(handle, owned=owned)
    return backend


def put(backend: Any, type_info: TypeInformation, **values: Any) -> KeyedStateHandle:
    state = backend.get_value_state(ValueStateDescriptor("state", type_info))
    for key, value in values.items():
        backend.current_key = key
        state.update(value)
    handle: KeyedStateHandle = backend.freeze().persist()
    return handle


def contents(backend: Any, type_info: TypeInformation, keys: str) -> list[Any]:
    state = backend.get_value_state(ValueStateDescriptor("state", type_info))
    result = []
    for key in keys:
        backend.current_key = key
        result.append(state.value())
    return result


@pytest.mark.parametrize("owned", [True, False])
def test_a_log_with_segments_of_three_schemas_reads_as_the_newest(open_backend: Any, owned: bool) -> None:
    types = [
        Types.ROW_NAMED(["a"], [Types.INT()]),
        Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]),
        Types.ROW_NAMED(["b", "a"], [Types.STRING(), Types.BIG_INT()]),
    ]
    handle = put(open_backend(), types[0], x=Row("a")(1), y=Row("a")(1), z=Row("a")(1))
    second = restored(open_backend, handle, 1, owned)
    handle = put(second, types[1], y=Row("a", "b")(2, "two"))
    assert contents(second, types[1], "xyz") == [
        Row("a", "b")(1, None),
        Row("a", "b")(2, "two"),
        Row("a", "b")(1, None),
    ]
    third = restored(open_backend, handle, 2, owned)
    handle = put(third, types[2], z=Row("b", "a")("three", 1 << 80))
    for attempt in (3, 4):
        again = restored(open_backend, handle, attempt, owned)
        assert contents(again, types[2], "xyz") == [
            Row("b", "a")(None, 1),
            Row("b", "a")("two", 2),
            Row("b", "a")("three", 1 << 80),
        ]
        handle = again.freeze().persist()


def test_merged_segments_are_in_the_new_schema(open_backend: Any) -> None:
    handle = put(open_backend(), Types.INT(), **{f"k{i}": i for i in range(5)})
    backend = restored(open_backend, handle, 1)
    for number in range(20):
        handle = put(backend, Types.LONG(), **{f"n{number}": 1 << 40})
    assert len(handle.segments) < 20
    again = restored(open_backend, handle, 2)
    assert contents(again, Types.LONG(), []) == []
    state = again.get_value_state(ValueStateDescriptor("state", Types.LONG()))
    again.current_key = "k3"
    assert state.value() == 3
    again.current_key = "n7"
    assert state.value() == 1 << 40


def test_a_state_that_is_not_declared_keeps_its_schemas_for_later(open_backend: Any) -> None:
    handle = put(open_backend(), Types.INT(), x=1)
    handle = put(restored(open_backend, handle, 1), Types.LONG(), y=2)
    carrying = restored(open_backend, handle, 2, owned=False)
    handle = carrying.freeze().persist()
    assert len(handle.segments) == 2
    assert contents(restored(open_backend, handle, 3), Types.BIG_INT(), "xy") == [1, 2]


def test_subtasks_with_different_schemas_are_joined(open_backend: Any) -> None:
    keys = [f"key {number}" for number in range(20)]
    handles = []
    for index, type_info in enumerate((Types.INT(), Types.LONG())):
        backend = open_backend(subtask_index=index, parallelism=2)
        own = key_group_range_of_subtask(index, 128, 2)
        inside = {key for key in keys if own.start <= key_group_of(key, 128) <= own.end}
        mine = {key: number for number, key in enumerate(keys) if key in inside}
        handles.append(put(backend, type_info, **mine))
    joined = KeyedStateHandle.concatenated(handles)
    backend = restored(open_backend, joined, 1)
    state = backend.get_value_state(ValueStateDescriptor("state", Types.BIG_INT()))
    for number, key in enumerate(keys):
        backend.current_key = key
        assert state.value() == number


@pytest.mark.parametrize(
    ("descriptor", "what"),
    [
        (ValueStateDescriptor("state", Types.INT()), "cannot change from LONG to INT"),
        (ValueStateDescriptor("state", Types.STRING()), "from LONG to STRING"),
        (ListStateDescriptor("state", Types.LONG()), "kind was value and is now list"),
    ],
)
def test_any_other_change_is_refused_and_names_both_schemas(
    open_backend: Any, descriptor: StateDescriptor, what: str
) -> None:
    handle = put(open_backend(), Types.LONG(), x=1)
    backend = restored(open_backend, handle, 1)
    with pytest.raises(StateMigrationError) as raised:
        backend.get_value_state(descriptor) if descriptor.kind == "value" else backend.get_list_state(
            descriptor
        )
    for part in ("'running total'", "'state'", "value_type: LONG", what, "Allowed are wider integers"):
        assert part in str(raised.value)


def test_a_renamed_state_is_found_and_stored_under_its_new_name(open_backend: Any) -> None:
    handle = put(open_backend(), Types.INT(), x=1)
    new = ValueStateDescriptor("total", Types.LONG()).renamed_from("sum").renamed_from("state")
    for attempt in (1, 2):
        backend = restored(open_backend, handle, attempt)
        state = backend.get_value_state(new)
        backend.current_key = "x"
        assert state.value() == 1
        handle = backend.freeze().persist()
        assert set(handle.descriptors) == {"total"}
        assert {segment.state_name for segment in handle.segments} == {"total"}


def test_files_of_a_renamed_state_are_rewritten_under_its_new_name(open_backend: Any, storage: Any) -> None:
    handle = put(open_backend(), Types.LONG(), x=1)
    backend = restored(open_backend, handle, 1)
    backend.get_value_state(ValueStateDescriptor("total", Types.LONG()).renamed_from("state"))
    (segment,) = backend.freeze().persist().segments
    table = pq.read_table(io.BytesIO(storage.read_file(segment.file)))
    assert table["state_name"].to_pylist() == ["total"]


def test_a_rename_between_freeze_and_persist_is_consistent(open_backend: Any) -> None:
    handle = put(open_backend(), Types.LONG(), x=1)
    backend = restored(open_backend, handle, 1)
    frozen = backend.freeze()
    backend.get_value_state(ValueStateDescriptor("total", Types.LONG()).renamed_from("state"))
    handle = frozen.persist()
    assert {segment.state_name for segment in handle.segments} <= set(handle.descriptors)
    again = restored(open_backend, handle, 2)
    again.current_key = "x"
    assert again.get_value_state(ValueStateDescriptor("total", Types.LONG())).value() == 1


def test_the_present_name_wins_over_a_previous_one(open_backend: Any) -> None:
    old = open_backend()
    for name, value in (("old", 1), ("new", 2)):
        state = old.get_value_state(ValueStateDescriptor(name, Types.LONG()))
        old.current_key = "x"
        state.update(value)
    backend = restored(open_backend, old.freeze().persist(), 1)
    backend.current_key = "x"
    assert backend.get_value_state(ValueStateDescriptor("new", Types.LONG()).renamed_from("old")).value() == 2


@pytest.mark.parametrize("name", ["", "state", 5])
def test_a_previous_name_is_another_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="renamed_from needs the name"):
        ValueStateDescriptor("state", Types.LONG()).renamed_from(name)


def test_operator_lists_evolve_and_are_renamed() -> None:
    params = OperatorStateBackendParameters("uid", "buffer", 0, storage=MemoryCheckpointStorage())
    old = OperatorStateBackend(params)
    old.get_list_state(ListStateDescriptor("items", ROW_1)).update(
        [Row("a", "b")(1, "x"), Row("a", "b")(1 << 40, "y")]
    )
    handles = old.snapshot().persist()
    new = OperatorStateBackend(params)
    new.restore(handles, owned=True)
    items = new.get_list_state(ListStateDescriptor("buffered", ROW_2).renamed_from("items"))
    assert list(items.get()) == [Row("c", "b", "a")(None, "x", 1), Row("c", "b", "a")(None, "y", 1 << 40)]
    assert [handle.state_name for handle in new.snapshot().persist()] == ["buffered"]
    third = OperatorStateBackend(params)
    third.restore(handles, owned=True)
    with pytest.raises(StateMigrationError, match="cannot change"):
        third.get_list_state(ListStateDescriptor("items", Types.STRING()))


class Dependent(pydantic.BaseModel):
    id: int
    double: int = pydantic.Field(default_factory=lambda: 1 // 0)


def test_a_default_that_cannot_be_made_is_named(open_backend: Any) -> None:
    handle = put(open_backend(), without_class(older(Dependent, ("id", Types.LONG()))), x=Row(id=1))
    with pytest.raises(StateMigrationError, match=r"'double' of .*Dependent.*plain default"):
        contents(restored(open_backend, handle, 1), Types.PYDANTIC(Dependent), "x")


def test_an_instance_that_was_encoded_gets_new_fields_and_loses_old_ones(open_backend: Any) -> None:
    stored = Visit("/", 1)
    stored.__dict__["gone"] = 5
    del stored.tags
    handle = put(open_backend(), OLD_VISIT, x=stored)
    (back,) = contents(restored(open_backend, handle, 1), Types.DATACLASS(Visit), "x")
    assert vars(back) == {"page": "/", "seconds": 1, "tags": ["none"], "rating": None}
