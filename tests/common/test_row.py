from __future__ import annotations

import copy
import pickle

import pytest
from tidegate.common import Row, RowKind


def test_rows_print_as_in_pyflink() -> None:
    person = Row("name", "age")
    assert str(Row("a", 2)) == repr(Row("a", 2)) == "<Row('a', 2)>"
    assert repr(Row(name="Alice", age=11)) == "Row(name='Alice', age=11)"
    assert repr(person("Alice", 11)) == "Row(name='Alice', age=11)"
    assert repr(Row()) == "<Row()>"


def test_fields_are_read_by_position_name_and_attribute() -> None:
    row = Row(name="Alice", age=11)
    assert (row[0], row[-1], row[0:2]) == ("Alice", 11, ["Alice", 11])
    assert (row["name"], row.age) == ("Alice", 11)
    assert list(row) == ["Alice", 11]
    assert len(row) == 2
    assert "name" in row
    assert "Alice" not in row
    assert "Alice" in Row("Alice", 11)


def test_fields_are_written_by_position_and_name_only() -> None:
    row = Row("name", "age")("Alice", 11)
    row["age"] = 12
    row[0] = "Bob"
    assert row == Row("name", "age")("Bob", 12)
    with pytest.raises(AttributeError):
        row.age = 13  # type: ignore[attr-defined]


def test_a_field_called_like_a_method_is_reached_with_brackets() -> None:
    row = Row(as_dict=1)
    assert row["as_dict"] == 1
    assert row.as_dict() == {"as_dict": 1}


def test_an_unknown_field_is_an_error_that_lists_the_fields() -> None:
    row = Row(name="Alice", age=11)
    with pytest.raises(ValueError, match=r"no field 'size': it has \['name', 'age'\]"):
        row["size"]
    with pytest.raises(ValueError, match="no field 'size'"):
        row["size"] = 1
    with pytest.raises(AttributeError, match="size"):
        _ = row.size
    with pytest.raises(ValueError, match="it has no field names"):
        Row(1)["f0"]
    with pytest.raises(IndexError):
        Row(1)[1]


def test_equality_looks_at_values_names_and_kind() -> None:
    named = Row("a", "b")(1, 2)
    assert named == Row(a=1, b=2)
    assert named != Row(1, 2)
    assert named != Row("b", "a")(1, 2)
    assert named == Row(b=2, a=1)
    assert hash(named) == hash(Row(b=2, a=1))
    assert named != Row(a=1)
    assert Row(1, 2) != (1, 2)
    assert hash(named) == hash(Row(1, 2)) == hash((1, 2))
    deleted = Row("a", "b")(1, 2)
    deleted.set_row_kind(RowKind.DELETE)
    assert deleted.get_row_kind() is RowKind.DELETE
    assert named.get_row_kind() is RowKind.INSERT
    assert deleted != named


def test_a_row_of_names_hands_its_kind_on_and_takes_no_more_values_than_names() -> None:
    names = Row("a", "b")
    names.set_row_kind(RowKind.UPDATE_AFTER)
    assert names(1, 2).get_row_kind() is RowKind.UPDATE_AFTER
    assert names(1).as_dict() == {"a": 1}
    with pytest.raises(ValueError, match="names 2 fields, got 3 values"):
        names(1, 2, 3)


def test_a_row_is_made_of_any_kind_which_prints_as_in_flink() -> None:
    row = Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1)
    assert row.get_row_kind() is RowKind.UPDATE_BEFORE
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_fields_are_picked_by_name() -> None:
    assert Row(name="Alice", age=11).get_fields_by_names(["age", "name"]) == [11, "Alice"]
    assert Row(1, 2).get_fields_by_names(["f1"]) == [1, 2]
    with pytest.raises(ValueError, match="no field 'size'"):
        Row(name="Alice").get_fields_by_names(["size"])


def test_names_can_be_set_later() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)


def test_as_dict_goes_into_lists_and_dicts_when_asked() -> None:
    inner = Row(x=1)
    row = Row(one=inner, many=[inner, 2], by_name={"k": inner})
    assert row.as_dict() == {"one": inner, "many": [inner, 2], "by_name": {"k": inner}}
    assert row.as_dict(recursive=True) == {
        "one": {"x": 1},
        "many": [{"x": 1}, 2],
        "by_name": {"k": {"x": 1}},
    }
    with pytest.raises(TypeError, match="no field names"):
        Row(1, 2).as_dict()


def test_positions_and_names_do_not_mix() -> None:
    with pytest.raises(ValueError, match="not from both"):
        Row(1, a=2)


@pytest.mark.parametrize("row", [Row(), Row(1, "a"), Row(a=1, b=Row(2))], ids=repr)
def test_rows_survive_pickling_and_copying(row: Row) -> None:
    row.set_row_kind(RowKind.UPDATE_BEFORE)
    for restored in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert restored == row
        assert restored.get_row_kind() is RowKind.UPDATE_BEFORE
        assert repr(restored) == repr(row)
