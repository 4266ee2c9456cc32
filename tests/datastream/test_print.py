"""What `print()` writes to standard output."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from tidegate.common import Instant, Row, RowKind, Types
from tidegate.common.typeinfo import TypeInformation

from .jobs import environment


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [
        (None, 1, {"1", "2"}),
        ("numbers", 1, {"numbers> 1", "numbers> 2"}),
        (None, 2, {"1> 1", "2> 2"}),
        ("numbers", 2, {"numbers:1> 1", "numbers:2> 2"}),
    ],
)
def test_lines_have_the_prefixes_of_flink(
    identifier: str | None, parallelism: int, expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment()
    stream = env.from_collection([1, 2]).rebalance()
    sink = stream.print(identifier) if identifier else stream.print()
    sink.set_parallelism(parallelism)
    assert sink.get_name() == "Print to Std. Out"
    env.execute()
    assert set(capsys.readouterr().out.splitlines()) == expected


def test_rows_are_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_collection([Row("a", 2)]).key_by(lambda row: row[0]).print()
    env.execute()
    assert capsys.readouterr().out == "<Row('a', 2)>\n"


DAY = datetime(2026, 5, 4, 3, 2, 1)


@pytest.mark.parametrize(
    ("type_info", "record", "expected"),
    [
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1), "(a,1)"),
        (Types.ROW([Types.STRING(), Types.INT()]), ("a", 1), "+I[a,1]"),
        (Types.ROW_NAMED(["x", "y"], [Types.STRING(), Types.BOOLEAN()]), Row("a", None), "+I[a,None]"),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), "-D[1]"),
        (Types.STRING(), "a", "a"),
        (Types.BOOLEAN(), True, "true"),
        (Types.DOUBLE(), 1e10, "1.0E10"),
        (Types.DOUBLE(), 0.0001, "1.0E-4"),
        (Types.DOUBLE(), 1234567.0, "1234567.0"),
        (Types.DOUBLE(), -0.25, "-0.25"),
        (Types.DOUBLE(), 0.0, "0.0"),
        (Types.DOUBLE(), float("-inf"), "-Infinity"),
        (Types.DOUBLE(), float("nan"), "NaN"),
        (Types.FLOAT(), 0.1, "0.1"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), DAY.date(), "2026-05-04"),
        (Types.SQL_TIME(), DAY.time(), "03:02:01"),
        (Types.SQL_TIMESTAMP(), DAY, "2026-05-04 03:02:01.0"),
        (Types.SQL_TIMESTAMP(), DAY.replace(microsecond=120_000), "2026-05-04 03:02:01.12"),
        (Types.INSTANT(), Instant.of_epoch_milli(1_500), "1970-01-01T00:00:01.500Z"),
        (Types.SQL_TIMESTAMP_LTZ(), DAY.replace(tzinfo=timezone.utc), "2026-05-04T03:02:01Z"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": 2}, "{a=1, b=2}"),
        (
            Types.TUPLE(
                [
                    Types.LIST(Types.STRING()),
                    Types.ROW([Types.STRING(), Types.BOOLEAN()]),
                    Types.TUPLE([Types.DOUBLE()]),
                    Types.PICKLED_BYTE_ARRAY(),
                ]
            ),
            (["a", None], Row("b", False), (1.0,), {"c": 1}),
            "([a, null],+I[b, false],(1.0),{'c': 1})",
        ),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x01\xff", "[1, -1]"),
        (Types.PICKLED_BYTE_ARRAY(), ("a", 1), "('a', 1)"),
    ],
    ids=str,
)
def test_records_of_a_declared_type_are_printed_as_flink_does(
    type_info: TypeInformation, record: Any, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment()
    env.from_collection([record], type_info=type_info).print()
    env.execute()
    assert capsys.readouterr().out == f"{expected}\n"
