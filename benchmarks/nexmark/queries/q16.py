"""Channel statistics: those of q15 for each channel, and the latest minute of the day."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from tidegate.datastream.state import ValueStateDescriptor

from .events import Event, bids, day_of
from .q15 import DistinctCounts


def minute_of(time_ms: int) -> str:
    """The minute of the day in UTC, as 09:05."""
    hours, minutes = divmod(time_ms // 60_000 % 1_440, 60)
    return f"{hours:02}:{minutes:02}"


class ChannelStatistics(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.distinct = DistinctCounts(runtime_context)
        self.minute = runtime_context.get_state(ValueStateDescriptor("minute", Types.STRING()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        minute, latest = minute_of(value[6]), self.minute.value()
        if latest is None or minute > latest:
            self.minute.update(minute)
        else:
            minute = latest
        yield (value[4], day_of(value[6]), minute, *self.distinct.add(value))


def q16(events: DataStream) -> DataStream:
    """(channel, day, minute, counts as in q15); the latest row of a channel and day counts."""
    by_channel = bids(events).key_by(lambda event: f"{event[4]} {day_of(event[6])}", Types.STRING())
    return by_channel.process(ChannelStatistics())
