"""The program of the guide's page on types."""

from __future__ import annotations

from .programs import output_of


def test_the_program_makes_rows_and_names_the_wrong_record() -> None:
    printed_lines = output_of("guide", "declared_types.py").splitlines()
    declared, people, hinted, printed, error = printed_lines
    assert declared == "RowTypeInfo(name: String, age: Integer)"
    assert people == "Row(name='Alice', age=12) Row(name='Bob', age=13)"
    assert (hinted, printed) == ("String", "forgot to return")
    assert "(declared_types.py:" in error
    assert "emitted None where INT is declared" in error
