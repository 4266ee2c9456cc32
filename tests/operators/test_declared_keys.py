"""Keys of another type than `key_by()` declares are refused by name, whatever way they come."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tidegate.common import Row
from tidegate.common.errors import KeyTypeError
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.functions import KeyedProcessFunction
from tidegate.operators.keyed.declared_keys import DeclaredKeys
from tidegate.operators.keyed.keyed import KeyedProcessOperator, KeyedReduceOperator
from tidegate.operators.keyed.rolling_aggregates import SumOf

from .harness import OperatorUnderTest

DAY = datetime.date(2024, 5, 6)
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
ROW = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.LONG()])

RIGHT: list[tuple[TypeInformation, Any]] = [
    (Types.STRING(), "a"),
    (Types.LONG(), 5),
    (Types.LONG(), True),
    (Types.LONG(), np.int64(5)),
    (Types.BIG_INT(), 1 << 70),
    (Types.BOOLEAN(), False),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a"),
    (Types.SQL_DATE(), DAY),
    (PAIR, ("a", 1)),
    (ROW, Row(name="a", number=1)),
    (ROW, ("a", 1)),
    (Types.PICKLED_BYTE_ARRAY(), 5),
]
WRONG: list[tuple[TypeInformation, Any]] = [
    (Types.STRING(), 5),
    (Types.STRING(), b"a"),
    (Types.LONG(), "5"),
    (Types.LONG(), 1 << 70),
    (Types.INT(), 1 << 40),
    (Types.BYTE(), 128),
    (Types.BOOLEAN(), 1),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "a"),
    (Types.SQL_DATE(), "2024-05-06"),
    (PAIR, ("a", "1")),
    (PAIR, ("a",)),
    (PAIR, "ab"),
    (ROW, Row(name=1, number=1)),
]


class Echo(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [ctx.get_current_key()]


def keyed(key_type: TypeInformation, selector: Any = None) -> OperatorUnderTest[Any]:
    operator = KeyedProcessOperator(Echo(), selector or (lambda value: value), key_type)
    return OperatorUnderTest(operator, parallelism=1).open()


@pytest.mark.parametrize(("declared", "key"), RIGHT, ids=str)
def test_a_key_of_the_declared_type_stays_as_it_is(declared: TypeInformation, key: Any) -> None:
    assert keyed(declared).process(["x"], keys=[key]) == [key]


@pytest.mark.parametrize("travels", [True, False])
@pytest.mark.parametrize(("declared", "key"), WRONG, ids=str)
def test_a_key_of_another_type_names_operator_type_and_value(
    declared: TypeInformation, key: Any, travels: bool
) -> None:
    operator = keyed(declared, lambda _: key)
    with pytest.raises(KeyTypeError, match=r"operator Totals \(1/1\): .*declared|does not fit") as raised:
        operator.process(["x"], keys=[key] if travels else None)
    assert "key_type of key_by()" in str(raised.value)


def test_an_int_for_a_string_is_reported_with_both_types() -> None:
    with pytest.raises(KeyTypeError, match=r"the key is 5 of type int where STRING is declared"):
        keyed(Types.STRING()).process(["x"], keys=np.array([5], np.int64))


def test_a_huge_key_is_shown_shortened() -> None:
    with pytest.raises(KeyTypeError) as raised:
        keyed(Types.LONG()).process(["x"], keys=["x" * 100_000])
    assert len(str(raised.value)) < 1_000


def test_an_array_of_integers_is_checked_against_narrower_types() -> None:
    with pytest.raises(KeyTypeError, match="1099511627776 does not fit INT"):
        keyed(Types.INT()).process(["x"], keys=np.array([1 << 40], np.int64))


@pytest.mark.parametrize("declared", [Types.STRING(), Types.BOOLEAN()])
def test_a_key_column_of_another_type_is_refused(declared: TypeInformation) -> None:
    batch = pa.record_batch({"k": pa.array([1, 2]), "n": pa.array([3, 4])})
    rows = keyed(declared, ColumnKey("k", None))
    with pytest.raises(KeyTypeError, match=r"operator Totals \(1/1\)"):
        rows.process(batch)
    columns = OperatorUnderTest(
        KeyedReduceOperator(SumOf(1), ColumnKey("k", None, declared), declared)
    ).open()
    with pytest.raises(KeyTypeError, match=r"operator Totals .*declared"):
        columns.process(batch)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        (Types.STRING(), pa.large_string()),
        (Types.STRING(), pa.dictionary(pa.int32(), pa.string())),
        (Types.LONG(), pa.int8()),
        (Types.SQL_DATE(), pa.date32()),
        (Types.BOOLEAN(), pa.bool_()),
    ],
    ids=str,
)
def test_a_key_column_of_the_declared_type_passes(declared: TypeInformation, kind: pa.DataType) -> None:
    DeclaredKeys(declared).check_column(kind, "operator")
