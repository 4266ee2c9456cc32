"""The event time of each input of a task: the lowest among the channels that feed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..protocol.elements import Watermark, WatermarkStatus
from ..protocol.scheduling.execution_graph import InputChannel
from ..protocol.watermarks import MIN_WATERMARK_MS, WatermarkValve


class InputWatermarks:
    """One valve per operator input; several edges on one input, as after a union, share it.

    Args:
        channels: The input channels; their positions here are the channel indexes.
    """

    def __init__(self, channels: Sequence[InputChannel]) -> None:
        counts = Counter(entry.input_index for entry in channels)
        valves = {input_index: WatermarkValve(count) for input_index, count in counts.items()}
        positions: Counter[int] = Counter()
        self._valves = list(valves.values())
        self._places: list[tuple[WatermarkValve, int]] = []
        for entry in channels:
            self._places.append((valves[entry.input_index], positions[entry.input_index]))
            positions[entry.input_index] += 1

    @property
    def lowest_ms(self) -> int:
        """The lowest event time among the inputs; `MIN_WATERMARK_MS` before the first watermark."""
        return min((valve.current_ms for valve in self._valves), default=MIN_WATERMARK_MS)

    def on_element(
        self, channel: int, element: Watermark | WatermarkStatus
    ) -> list[Watermark | WatermarkStatus]:
        """Take what came on a channel; what changes for the input that it feeds, in order."""
        valve, position = self._places[channel]
        if isinstance(element, Watermark):
            return valve.on_watermark(position, element.timestamp_ms)
        return valve.on_status(position, element.is_idle)
