"""What a source function emits passes its task in order, with watermarks and idleness."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import UserCodeError
from tidegate.datastream import SourceContext, SourceFunction
from tidegate.operators.sources.source_function import SourceFunctionOperator
from tidegate.operators.sources.sources import EndOfSource

from .harness import OperatorUnderTest


class Marks(SourceFunction):
    def run(self, ctx: SourceContext) -> None:
        ctx.collect_with_timestamp("a", 5)
        ctx.emit_watermark(5)
        ctx.emit_watermark(3)
        ctx.collect_with_timestamp("b", 4)
        ctx.mark_as_temporarily_idle()
        ctx.collect_with_timestamp("c", 9)
        ctx.emit_watermark(9)
        ctx.mark_as_temporarily_idle()

    def cancel(self) -> None: ...


def run(function: SourceFunction) -> OperatorUnderTest[SourceFunctionOperator]:
    """Poll to the end."""
    test = OperatorUnderTest(SourceFunctionOperator(function)).open()
    try:
        while True:
            test.operator.poll(100)
    except EndOfSource:
        return test
    finally:
        test.operator.close()


def test_watermarks_and_idleness_of_a_function_reach_the_stream() -> None:
    test = run(Marks())
    assert test.records() == [("a", 5), ("b", 4), ("c", 9)]
    assert test.watermarks == [5, 9]
    assert test.statuses[-1] is True
    # It was idle for an instant before, which nobody need have seen.
    assert test.statuses in ([True], [True, False, True])


class BadWatermark(SourceFunction):
    def __init__(self, timestamp: Any) -> None:
        self.timestamp = timestamp

    def run(self, ctx: SourceContext) -> None:
        ctx.emit_watermark(self.timestamp)

    def cancel(self) -> None: ...


@pytest.mark.parametrize("timestamp", [None, 1.5, 1 << 63])
def test_an_impossible_watermark_is_refused(timestamp: Any) -> None:
    with pytest.raises(UserCodeError, match=rf"Totals \(1/2\): {timestamp} cannot be a watermark"):
        run(BadWatermark(timestamp))
