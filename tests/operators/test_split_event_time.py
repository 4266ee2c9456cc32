"""Sources that tell their splits apart: each has its own watermark, and the lowest is that of the subtask."""

from __future__ import annotations

from typing import Any, ClassVar

from tidegate.common import Duration
from tidegate.common.output_tag import OutputTag
from tidegate.common.watermark_strategy import WatermarkStrategy
from tidegate.operators.sources.sources import Source, SourceOperator, SourceReader
from tidegate.protocol.elements import Batch

from .harness import OperatorUnderTest

TAG = OutputTag("side")
STRATEGY = WatermarkStrategy.for_monotonous_timestamps()


class Reader(SourceReader):
    """Gives out what a test says: a split and its times, or a set of splits that it has from now on."""

    def __init__(self) -> None:
        self.ids: frozenset[str] = frozenset("ab")
        self.steps: list[tuple[str, list[int]]] = []
        self.polled = ""

    def split_ids(self) -> frozenset[str]:
        return self.ids

    def polled_split(self) -> str:
        return self.polled

    def poll(self, max_records: int) -> Batch | None:
        if not self.steps:
            return Batch([])
        self.polled, times = self.steps.pop(0)
        return Batch(list(times), times)

    def take_side_outputs(self) -> list[tuple[OutputTag, Batch]]:
        return [(TAG, Batch([self.polled]))]

    def snapshot_state(self) -> list[Any]:
        return []


class Splits(Source):
    made: ClassVar[Reader]

    def __init__(self, ids: str) -> None:
        self.ids = ids

    def create_splits(self, parallelism: int) -> list[Any]:
        return []

    def create_reader(self, splits: list[Any]) -> SourceReader:
        Splits.made = Reader()
        Splits.made.ids = frozenset(self.ids)
        return Splits.made


class Case:
    def __init__(self, strategy: WatermarkStrategy = STRATEGY, ids: str = "ab") -> None:
        operator = SourceOperator(Splits(ids), strategy)
        self.test = OperatorUnderTest(operator, side_outputs=(TAG.tag_id,)).open()
        self.reader = Splits.made

    def read(self, split: str, *times: int) -> None:
        self.reader.steps.append((split, list(times)))
        self.test.operator.poll(100)

    def become(self, ids: str) -> None:
        self.reader.ids = frozenset(ids)
        self.test.operator.poll(100)

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 200):
            self.test.now_ms += 200
            self.test.processing_time.run_due()


def test_the_lowest_watermark_of_all_splits_counts() -> None:
    case = Case()
    case.read("a", 1_000, 2_000)
    case.pass_ms(200)
    assert case.test.watermarks == []
    case.read("b", 500)
    case.pass_ms(200)
    assert case.test.watermarks == [499]
    case.read("b", 3_000)
    case.pass_ms(200)
    assert case.test.watermarks == [499, 1_999]


def test_a_split_that_ends_is_no_longer_awaited() -> None:
    case = Case()
    case.read("a", 1_000)
    case.pass_ms(200)
    case.become("a")
    assert case.test.watermarks == [999]


def test_a_split_that_appears_later_holds_the_watermark_where_it_is() -> None:
    case = Case(ids="a")
    case.read("a", 1_000)
    case.pass_ms(200)
    case.become("ab")
    case.read("a", 5_000)
    case.read("b", 200)
    case.pass_ms(200)
    assert case.test.watermarks == [999]
    case.read("b", 4_000)
    case.pass_ms(200)
    assert case.test.watermarks == [999, 3_999]


def test_an_idle_split_holds_nobody_back_until_it_wakes_up() -> None:
    case = Case(STRATEGY.with_idleness(Duration.of_millis(400)))
    for time_ms in range(1_000, 5_000, 1_000):
        case.read("a", time_ms)
        case.pass_ms(200)
    assert case.test.watermarks[-1] == 3_999
    case.read("b", 100)
    case.read("a", 9_000)
    case.pass_ms(200)
    assert case.test.watermarks[-1] == 3_999
    assert case.test.statuses == []


def test_a_subtask_without_splits_is_idle_until_it_gets_one() -> None:
    case = Case(ids="")
    assert case.test.statuses == [True]
    case.become("a")
    assert case.test.statuses == [True, False]
    case.read("a", 10)
    case.become("")
    assert case.test.statuses == [True, False, True]


def test_what_a_reader_finds_for_side_outputs_goes_there() -> None:
    case = Case()
    case.read("a", 10)
    assert [batch.values for batch in case.test.sides[TAG.tag_id]] == [["a"]]
