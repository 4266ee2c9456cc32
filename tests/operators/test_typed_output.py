"""What operators emit is held to the declared types of their outputs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Row, Types
from tidegate.common.errors import OutputTypeError
from tidegate.operators.elementwise import FilterOperator, MapOperator
from tidegate.operators.typed_output import OutputTypes, declared_records
from tidegate.protocol.elements import Batch

from .harness import OperatorUnderTest

PAIR = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def same(value: Any) -> Any:
    return value


def mapped(types: OutputTypes) -> OperatorUnderTest[MapOperator]:
    operator = MapOperator(same)
    operator.output_types = types
    return OperatorUnderTest(operator).open()


def test_tuples_given_where_a_row_is_declared_arrive_as_rows_with_their_timestamps() -> None:
    test = mapped(OutputTypes(PAIR))
    assert test.process([("a", 1), Row("b", 2)], [7, 8]) == [Row(name="a", age=1), Row(name="b", age=2)]
    assert test.emitted[0].timestamps == [7, 8]


def test_a_wrong_value_is_an_error_with_operator_line_type_and_record() -> None:
    test = mapped(OutputTypes(PAIR, declared_at="job.py:12"))
    with pytest.raises(OutputTypeError) as caught:
        test.process([("a", 1), ("b", "two"), ("c", "three")])
    assert str(caught.value).startswith(
        "operator Totals (1/2) (job.py:12) emitted 'two' of type str where INT is declared in field 'age'. "
        "The record is ('b', 'two')"
    )


def test_a_function_that_returns_nothing_is_told_so() -> None:
    test = mapped(OutputTypes(Types.INT()))
    with pytest.raises(OutputTypeError, match="emitted None where INT is declared"):
        test.process([1, None])


def test_records_of_a_side_output_are_held_to_the_type_of_its_tag() -> None:
    operator = MapOperator(same)
    operator.output_types = OutputTypes(sides={"late": PAIR, "nobody reads": PAIR})
    test = OperatorUnderTest(operator, side_outputs=("late",)).open()
    test.operator.output.emit_side("late", Batch([("a", 1)]))
    assert test.sides["late"][0].values == [Row(name="a", age=1)]
    with pytest.raises(OutputTypeError, match=r"side output 'late', emitted 1\.5 of type float"):
        test.operator.output.emit_side("late", Batch([1.5]))


def test_arrow_batches_and_outputs_without_a_type_are_left_alone() -> None:
    batch = pa.RecordBatch.from_pylist([{"a": 1}])
    test = mapped(OutputTypes(PAIR))
    test.operator.emit(Batch(batch))
    assert test.emitted[0].values is batch
    assert mapped(OutputTypes()).process([("a", "two")]) == [("a", "two")]


def test_a_filter_does_not_look_at_its_records_again() -> None:
    operator = FilterOperator(bool)
    operator.output_types = OutputTypes(Types.INT())
    assert OperatorUnderTest(operator).open().process(["not checked"]) == ["not checked"]


def test_the_records_of_a_collection_are_converted_where_it_is_given() -> None:
    assert declared_records([("a", 1)], PAIR, "from_collection") == [Row(name="a", age=1)]
    assert declared_records([object], Types.PICKLED_BYTE_ARRAY(), "from_collection") == [object]
    with pytest.raises(OutputTypeError, match="from_collection emitted 'a' of type str"):
        declared_records(["a"], Types.INT(), "from_collection")
