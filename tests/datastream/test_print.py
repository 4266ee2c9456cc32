"""What `print()` writes to standard output."""

from __future__ import annotations

import pytest
from tidegate.common import Row

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
