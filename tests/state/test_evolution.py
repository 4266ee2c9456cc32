from __future__ import annotations

import re

import pytest
from tidegate.common.errors import StateMigrationError
from tidegate.state.evolution import SchemaChangeKind, check_restored_schema, compare_schemas

SAME, EVOLVED, INCOMPATIBLE = SchemaChangeKind
CASES = [
    ("LONG", "LONG", SAME, ""),
    ("BYTE", "SHORT", EVOLVED, "the value is widened from BYTE to SHORT"),
    ("INT", "BIG_INT", EVOLVED, "widened from INT to BIG_INT"),
    ("FLOAT", "DOUBLE", EVOLVED, "widened from FLOAT to DOUBLE"),
    ("LONG", "INT", INCOMPATIBLE, "the value cannot change from LONG to INT"),
    ("LONG", "DOUBLE", INCOMPATIBLE, "from LONG to DOUBLE"),
    ("DOUBLE", "FLOAT", INCOMPATIBLE, "from DOUBLE to FLOAT"),
    ("STRING", "LONG", INCOMPATIBLE, "from STRING to LONG"),
    ("STRING", "PICKLED_BYTE_ARRAY", INCOMPATIBLE, "from STRING to PICKLED"),
    ("PICKLED_BYTE_ARRAY", "STRING", INCOMPATIBLE, "from PICKLED"),
    ("LIST(INT)", "LIST(LONG)", EVOLVED, "an element of the value is widened"),
    ("LIST(INT)", "BASIC_ARRAY(INT)", INCOMPATIBLE, "cannot change"),
    ("BASIC_ARRAY(INT)", "BASIC_ARRAY(LONG)", EVOLVED, "an element of the value"),
    ("PRIMITIVE_ARRAY(BYTE)", "PRIMITIVE_ARRAY(INT)", INCOMPATIBLE, "cannot change"),
    ("MAP(INT, FLOAT)", "MAP(LONG, DOUBLE)", EVOLVED, "a key of the value .* an entry of the value"),
    ("TUPLE(INT, STRING)", "TUPLE(LONG, STRING)", EVOLVED, "field 0 of the value is widened"),
    ("TUPLE(INT)", "TUPLE(INT, INT)", INCOMPATIBLE, "had 1 fields without names and now has 2"),
    ("ROW(f0: INT)", "ROW(f0: INT, f1: INT)", INCOMPATIBLE, "without names"),
    ("ROW(a: INT)", "ROW(a: LONG, b: STRING)", EVOLVED, "field a .* widened .* field b is added"),
    ("ROW(a: INT, b: INT)", "ROW(b: INT)", EVOLVED, "field a of the value is removed"),
    ("ROW(a: INT, b: INT)", "ROW(b: INT, a: INT)", EVOLVED, "another order"),
    ("ROW(a: INT)", "ROW(b: INT)", INCOMPATIBLE, "none is left"),
    ("DATACLASS(m.C; a: INT)", "DATACLASS(m.C; a?: INT)", SAME, ""),
    ("DATACLASS(m.C; a: INT)", "DATACLASS(n.C; a: INT)", EVOLVED, "moved from m.C to n.C"),
    ("DATACLASS(m.C; a: INT)", "DATACLASS(m.D; a: INT)", INCOMPATIBLE, "class m.C and is now of class m.D"),
    ("DATACLASS(m.C; a: INT)", "PYDANTIC(m.C; a: INT)", INCOMPATIBLE, "cannot change"),
    ("DATACLASS(m.C; a: INT)", "DATACLASS(m.C; a: INT, b?: INT)", EVOLVED, "field b is added"),
    ("DATACLASS(m.C; a: INT)", "DATACLASS(m.C; a: INT, b: INT)", INCOMPATIBLE, "b is new .* neither"),
    ("PYDANTIC(m.C; a: LIST(INT))", "PYDANTIC(m.C; a: LIST(LONG))", EVOLVED, "an element of field a of"),
    ("ENUM(m.E; A)", "ENUM(m.E; A, B)", SAME, ""),
    ("ENUM(m.E; A, B)", "ENUM(m.E; A)", INCOMPATIBLE, "may be B, which m.E no longer has"),
    ("CUSTOM(x)", "CUSTOM(y)", INCOMPATIBLE, "cannot change"),
]


@pytest.mark.parametrize(("before", "after", "kind", "text"), CASES)
def test_a_change_of_the_value_type_is_judged(
    before: str, after: str, kind: SchemaChangeKind, text: str
) -> None:
    change = compare_schemas({"kind": "value", "value_type": before}, {"kind": "value", "value_type": after})
    assert change.kind is kind, change.text
    assert re.search(text, change.text)


@pytest.mark.parametrize("name", ["key_type", "map_key_type"])
def test_keys_never_change_but_may_be_declared_later(name: str) -> None:
    schema = {"kind": "map", "value_type": "LONG"}
    declared = {**schema, name: "INT"}
    assert compare_schemas(declared, declared).kind is SAME
    assert compare_schemas(schema, declared).kind is SAME
    assert compare_schemas(declared, schema).kind is SAME
    assert compare_schemas({**schema, name: "PICKLED_BYTE_ARRAY"}, declared).kind is SAME
    change = compare_schemas(declared, {**schema, name: "LONG"})
    assert change.kind is INCOMPATIBLE
    assert "was INT and is now LONG" in change.text


def test_another_kind_or_ttl_does_not_fit() -> None:
    schema = {"kind": "value", "value_type": "LONG"}
    assert compare_schemas(schema, {**schema, "kind": "list"}).text == "kind was value and is now list"
    change = compare_schemas(schema, {**schema, "ttl": "event-time"})
    assert change.kind is INCOMPATIBLE
    assert (
        "stored without a time to live and is now declared with a time to live in event-time" in change.text
    )


def test_a_refused_restore_names_everything() -> None:
    with pytest.raises(StateMigrationError) as raised:
        check_restored_schema(
            "sum", "total", {"kind": "value", "value_type": "LONG"}, {"kind": "value", "value_type": "INT"}
        )
    message = str(raised.value)
    for part in ("'sum'", "'total'", "value_type: LONG", "value_type: INT", "Allowed are", "new name"):
        assert part in message
