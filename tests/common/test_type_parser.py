from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError
from tidegate.common.type_system.class_types import (
    ClassField,
    ClassKind,
    ClassTypeInfo,
    CustomTypeInfo,
    EnumTypeInfo,
)
from tidegate.common.type_system.type_parser import type_from_text
from tidegate.common.typeinfo import TypeInformation, Types, type_text

SCALARS = [
    *(Types.STRING(), Types.BYTE(), Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT()),
    *(Types.DOUBLE(), Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE()),
    *(Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.SQL_TIMESTAMP_LTZ(), Types.PICKLED_BYTE_ARRAY()),
    *(Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BASIC_ARRAY(Types.STRING())),
]
NAMES = st.text(min_size=1)


def composites(inner: st.SearchStrategy[TypeInformation]) -> st.SearchStrategy[TypeInformation]:
    named = st.lists(st.tuples(NAMES, inner, st.booleans()), unique_by=lambda field: field[0], max_size=3)
    return st.one_of(
        st.builds(Types.LIST, inner),
        st.builds(Types.OBJECT_ARRAY, inner),
        st.builds(Types.MAP, inner, inner),
        st.builds(Types.TUPLE, st.lists(inner, max_size=3)),
        st.builds(Types.ROW, st.lists(inner, max_size=3)),
        named.map(lambda fields: Types.ROW_NAMED([f[0] for f in fields], [f[1] for f in fields])),
        st.builds(
            lambda kind, name, fields: ClassTypeInfo(kind, name, tuple(ClassField(*f) for f in fields)),
            st.sampled_from(ClassKind),
            NAMES,
            named,
        ),
        st.builds(EnumTypeInfo, NAMES, st.lists(NAMES, max_size=3)),
        st.builds(CustomTypeInfo, NAMES),
    )


@given(st.recursive(st.sampled_from(SCALARS), composites, max_leaves=8))
def test_a_type_is_read_back_from_its_text(type_info: TypeInformation) -> None:
    read = type_from_text(type_text(type_info))
    assert type_text(read) == type_text(type_info)
    assert read == type_info


NO_TYPES = [
    *("", "LIST", "LIST(", "LIST(LONG", "LIST(LONG) x", "LIST(LONG, LONG)", "NO_SUCH", 'ROW("a: LONG)'),
    *("MAP(INT)", "ROW(a LONG)", "DATACLASS(m.C, a: LONG)", "ROW(: LONG)", "ENUM(x)", "(LONG)"),
    "PRIMITIVE_ARRAY(STRING)",
]


@pytest.mark.parametrize("text", NO_TYPES)
def test_what_is_no_type_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        type_from_text(text)
