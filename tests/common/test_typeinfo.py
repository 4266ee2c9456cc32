from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.common.typeinfo import (
    RowTypeInfo,
    SqlTimeTypeInfo,
    TypeInformation,
    Types,
    type_text,
)

# (type, str as PyFlink prints it, stable text)
CASES: list[tuple[TypeInformation, str, str]] = [
    (Types.STRING(), "String", "STRING"),
    (Types.BYTE(), "Byte", "BYTE"),
    (Types.BOOLEAN(), "Boolean", "BOOLEAN"),
    (Types.SHORT(), "Short", "SHORT"),
    (Types.INT(), "Integer", "INT"),
    (Types.LONG(), "Long", "LONG"),
    (Types.FLOAT(), "Float", "FLOAT"),
    (Types.DOUBLE(), "Double", "DOUBLE"),
    (Types.CHAR(), "Char", "CHAR"),
    (Types.BIG_INT(), "BigInteger", "BIG_INT"),
    (Types.BIG_DEC(), "BigDecimal", "BIG_DEC"),
    (Types.INSTANT(), "Instant", "INSTANT"),
    (Types.SQL_DATE(), "DateTypeInfo", "SQL_DATE"),
    (Types.SQL_TIME(), "TimeTypeInfo", "SQL_TIME"),
    (Types.SQL_TIMESTAMP(), "TimestampTypeInfo", "SQL_TIMESTAMP"),
    (Types.SQL_TIMESTAMP_LTZ(), "LocalZonedTimestampTypeInfo", "SQL_TIMESTAMP_LTZ"),
    (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo", "PICKLED_BYTE_ARRAY"),
    (
        Types.ROW([Types.STRING(), Types.INT()]),
        "RowTypeInfo(String, Integer)",
        "ROW(f0: STRING, f1: INT)",
    ),
    (
        Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()]),
        "RowTypeInfo(a: String, b: Long)",
        "ROW(a: STRING, b: LONG)",
    ),
    (
        Types.TUPLE([Types.STRING(), Types.INT()]),
        "TupleTypeInfo(String, Integer)",
        "TUPLE(STRING, INT)",
    ),
    (
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        "PrimitiveArrayTypeInfo<Byte>",
        "PRIMITIVE_ARRAY(BYTE)",
    ),
    (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>", "BASIC_ARRAY(STRING)"),
    (
        Types.OBJECT_ARRAY(Types.SQL_DATE()),
        "ObjectArrayTypeInfo<DateTypeInfo>",
        "OBJECT_ARRAY(SQL_DATE)",
    ),
    (Types.LIST(Types.INT()), "ListTypeInfo<Integer>", "LIST(INT)"),
    (
        Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())),
        "MapTypeInfo<String, ListTypeInfo<Double>>",
        "MAP(STRING, LIST(DOUBLE))",
    ),
]


@pytest.mark.parametrize(("type_info", "printed", "text"), CASES, ids=[case[2] for case in CASES])
def test_a_type_prints_as_in_pyflink_has_a_stable_text_and_survives_pickling(
    type_info: TypeInformation, printed: str, text: str
) -> None:
    assert str(type_info) == repr(type_info) == printed
    assert type_text(type_info) == text
    restored = pickle.loads(pickle.dumps(type_info))
    assert restored == type_info
    assert hash(restored) == hash(type_info)
    assert type_text(restored) == text


def test_every_factory_is_covered_and_all_types_differ() -> None:
    made_from_classes = {"DATACLASS", "PYDANTIC", "CUSTOM"}
    factories = {name for name in vars(Types) if name.isupper()} - made_from_classes
    assert factories == {text.split("(")[0] for _, _, text in CASES} | {"ROW_NAMED"}
    distinct = [case[0] for case in CASES if case[1] != "RowTypeInfo(a: String, b: Long)"]
    assert len(set(distinct)) == len(distinct) == len({type_text(each) for each in distinct})


def test_row_types_are_equal_by_field_types_but_their_texts_tell_names_apart() -> None:
    types = [Types.STRING(), Types.INT()]
    unnamed, named = Types.ROW(types), Types.ROW_NAMED(["a", "b"], types)
    assert unnamed == named
    assert hash(unnamed) == hash(named)
    assert type_text(unnamed) != type_text(named)
    assert named != Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()])
    a_tuple: TypeInformation = Types.TUPLE(types)
    assert unnamed != a_tuple


def test_a_row_type_answers_for_its_fields() -> None:
    unnamed = RowTypeInfo([Types.STRING(), Types.INT()])
    assert unnamed.get_field_names() == ["f0", "f1"]
    assert unnamed.get_field_types() == [Types.STRING(), Types.INT()]
    assert unnamed.get_field_index("f1") == 1
    named = RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"])
    assert named.get_field_names() == ["a", "b"]
    assert [named.get_field_index(name) for name in ("a", "b", "c")] == [0, 1, -1]


def test_a_field_name_cannot_forge_another_text() -> None:
    forged = Types.ROW_NAMED(["a: INT, b"], [Types.INT()])
    honest = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    assert type_text(forged) == 'ROW("a: INT, b": INT)'
    assert type_text(forged) != type_text(honest)


def test_dates_and_times_share_a_parent() -> None:
    times = (Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP())
    assert all(isinstance(each, SqlTimeTypeInfo) for each in times)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Types.LIST(Types.STRING), r"Types\.LIST .* write Types\.STRING\(\)"),  # type: ignore[arg-type]
        (lambda: Types.MAP(Types.STRING(), int), r"Types\.MAP needs type informations"),  # type: ignore[arg-type]
        (lambda: Types.ROW(Types.INT()), r"Types\.ROW needs a list"),  # type: ignore[arg-type]
        (lambda: Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()]), "one name per field"),
        (lambda: Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]), "must differ"),
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), "not String; use"),
        (lambda: Types.BASIC_ARRAY(Types.BIG_DEC()), "STRING.* not BigDecimal"),
        (lambda: type_text("STRING"), "type_text needs"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_declaration_is_refused_where_it_is_written(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build()
