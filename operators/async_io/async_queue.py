"""The records an async operator has in flight, in the order in which their results may leave.

Both queues are those of Flink's `AsyncWaitOperator`. They know no threads and no event loop: records and
fences go in, records are told to be complete, and what may be emitted comes out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

Fence = object
"""A control element (watermark, idle status) that no result may pass."""

Ready = list["InFlight"] | Fence
"""Complete records to be emitted in this order, or a fence to be passed on."""


@dataclass(slots=True, eq=False)
class InFlight:
    """A record between its arrival and the emission of its results; `results` is `None` until it has some."""

    value: Any
    timestamp: int | None = None
    results: list[Any] | None = None
    segment: _Segment | None = None


class ElementQueue(ABC):
    """Records in flight and the fences between them."""

    @abstractmethod
    def put(self, records: Iterable[InFlight]) -> None:
        """Add records behind everything that is there."""

    @abstractmethod
    def put_fence(self, fence: Fence) -> None:
        """Add a control element: it leaves after everything before it, and before everything behind it."""

    @abstractmethod
    def complete(self, records: Iterable[InFlight]) -> None:
        """These records have their results now."""

    @abstractmethod
    def take(self) -> list[Ready]:
        """Remove and return what may be emitted now, in order."""

    @abstractmethod
    def records(self) -> list[InFlight]:
        """Every record that was not taken yet, in the order of arrival."""

    @abstractmethod
    def __len__(self) -> int:
        """How many records were not taken yet."""


class OrderedQueue(ElementQueue):
    """Results leave in the order of the records."""

    def __init__(self) -> None:
        self._elements: deque[InFlight | _Fenced] = deque()
        self._count = 0

    def put(self, records: Iterable[InFlight]) -> None:
        before = len(self._elements)
        self._elements.extend(records)
        self._count += len(self._elements) - before

    def put_fence(self, fence: Fence) -> None:
        self._elements.append(_Fenced(fence))

    def complete(self, records: Iterable[InFlight]) -> None:
        """Nothing to do: the first one tells by its results."""

    def take(self) -> list[Ready]:
        elements = self._elements
        ready: list[Ready] = []
        while elements and elements[0].results is not None:
            run = list(takewhile(_is_complete_record, elements))
            for _ in run:
                elements.popleft()
            self._count -= len(run)
            if run:
                ready.append(run)
            else:
                fenced = elements.popleft()
                assert isinstance(fenced, _Fenced)
                ready.append(fenced.fence)
        return ready

    def records(self) -> list[InFlight]:
        return [element for element in self._elements if isinstance(element, InFlight)]

    def __len__(self) -> int:
        return self._count


@dataclass(slots=True, eq=False)
class _Fenced:
    fence: Fence
    results: tuple[()] = ()
    """A fence is always complete."""


def _is_complete_record(element: InFlight | _Fenced) -> bool:
    return element.results is not None and type(element) is InFlight


@dataclass(slots=True, eq=False)
class _Segment:
    """The records between two fences."""

    pending: int = 0
    complete: list[InFlight] = field(default_factory=list)
    fence: Fence | None = None
    """What closes the segment; `None` for the last one, which is open."""


class UnorderedQueue(ElementQueue):
    """Results leave as they come, but none passes a fence."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque([_Segment()])
        self._records: dict[InFlight, None] = {}

    def put(self, records: Iterable[InFlight]) -> None:
        segment = self._segments[-1]
        before = len(self._records)
        for record in records:
            record.segment = segment
            self._records[record] = None
        segment.pending += len(self._records) - before

    def put_fence(self, fence: Fence) -> None:
        self._segments[-1].fence = fence
        self._segments.append(_Segment())

    def complete(self, records: Iterable[InFlight]) -> None:
        for record in records:
            segment = record.segment
            assert segment is not None, "only a record that was put can become complete"
            segment.pending -= 1
            segment.complete.append(record)

    def take(self) -> list[Ready]:
        segments = self._segments
        ready: list[Ready] = []
        while True:
            segment = segments[0]
            if segment.complete:
                ready.append(segment.complete)
                for record in segment.complete:
                    del self._records[record]
                segment.complete = []
            if segment.pending or segment.fence is None:
                return ready
            ready.append(segment.fence)
            segments.popleft()

    def records(self) -> list[InFlight]:
        return list(self._records)

    def __len__(self) -> int:
        return len(self._records)
