"""The generator makes every record once, also after a restore, and no faster than asked."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.connectors.data_generator import DataGeneratorSource
from tidegate.operators.sources.sources import EndOfSource, SourceOperator

from .harness import OperatorUnderTest

Test = OperatorUnderTest[SourceOperator]


def square(number: int) -> int:
    return number * number


def generator(count: int, records_per_second: float | None = None, **more: object) -> Test:
    source = DataGeneratorSource(square, count, records_per_second)
    return OperatorUnderTest(SourceOperator(source), **more).open()  # type: ignore[arg-type]


def read(test: Test) -> list[int]:
    try:
        while True:
            test.operator.poll(3)
    except EndOfSource:
        return [record for record, _ in test.records()]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_record_is_made_once(parallelism: int) -> None:
    parts = [
        read(generator(10, subtask_index=index, parallelism=parallelism)) for index in range(parallelism)
    ]
    assert [record for part in parts for record in part] == [square(number) for number in range(10)]


def test_it_goes_on_where_the_snapshot_was_taken() -> None:
    test = generator(10, parallelism=1)
    test.operator.poll(4)
    before = [record for record, _ in test.records()]
    assert before + read(generator(10, parallelism=1, restored=test.checkpoint(1))) == [
        square(number) for number in range(10)
    ]


def test_the_rate_is_shared_among_subtasks() -> None:
    test = generator(1_000, records_per_second=200, parallelism=2)
    made = []
    for now_ms in (0, 5, 10, 1_000):
        test.now_ms = now_ms
        while test.operator.poll(100):
            pass
        made.append(len(test.records()))
    assert made == [1, 1, 2, 101]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((square, 0), "at least 1"),
        ((square, 1, 0.0), "must be positive"),
        ((square, 1, float("nan")), "must be positive"),
        ((5, 1), "takes a function"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        DataGeneratorSource(*arguments)  # type: ignore[arg-type]
