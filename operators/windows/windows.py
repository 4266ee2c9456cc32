"""Windows, and how they stand in state: as namespaces and as bytes."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...common.errors import ConfigurationError
from ...common.serializer import TypeSerializer
from ...protocol.elements import MAX_WATERMARK_MS

if TYPE_CHECKING:
    from .assigners import MergingWindowAssigner

W = TypeVar("W", bound="Window")

_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class Window(ABC):
    """A finite bucket of records. Windows are values: equal ones are the same window."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The last event time, in milliseconds, that still belongs to the window."""


class TimeWindow(Window):
    """The records from `start` on and before `end`, in milliseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap, or one starts where the other ends."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window of `window_size` that a time falls into; all in milliseconds.

        Args:
            offset: Where windows start, counted from the epoch.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(
        windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Tell `callback` of every group of windows that overlap or touch, earliest first."""
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(windows):
            if cover is not None and cover.intersects(window):
                cover = cover.cover(window)
                group.append(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            group, cover = [window], window
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) <= (other.start, other.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """The records of one key that a counting assigner gave the same number; it never ends by itself."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_WATERMARK_MS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of everything; it never ends by itself."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The global window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_WATERMARK_MS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """A time window as two big-endian 64-bit integers."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(_TWO_LONGS.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """A count window as one big-endian 64-bit integer."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_LONG.unpack(stream.read(_LONG.size))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """The global window as one byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\x00")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()


class WindowNamespaces(ABC, Generic[W]):
    """Turns windows of one kind into the namespaces of their state, and back.

    Equal windows have equal namespaces. A namespace is something that could be a key.
    """

    @abstractmethod
    def encode(self, window: W) -> Any:
        """The namespace of a window."""

    @abstractmethod
    def decode(self, namespace: Any) -> W:
        """The window of a namespace."""


class _TimeWindowNamespaces(WindowNamespaces[TimeWindow]):
    """The pair of start and end: snapshots can be read without this library."""

    def encode(self, window: TimeWindow) -> Any:
        return window.start, window.end

    def decode(self, namespace: Any) -> TimeWindow:
        start, end = namespace
        return TimeWindow(start, end)


class _CountWindowNamespaces(WindowNamespaces[CountWindow]):
    def encode(self, window: CountWindow) -> Any:
        return window.id

    def decode(self, namespace: Any) -> CountWindow:
        return CountWindow(namespace)


class _GlobalWindowNamespaces(WindowNamespaces[GlobalWindow]):
    def encode(self, window: GlobalWindow) -> Any:
        return 0

    def decode(self, namespace: Any) -> GlobalWindow:
        return GlobalWindow.get()


class _SerializedNamespaces(WindowNamespaces[Window]):
    """The bytes that a serializer of the user's writes."""

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        self._serializer = serializer

    def encode(self, window: Window) -> Any:
        stream = BytesIO()
        self._serializer.serialize(window, stream)
        return stream.getvalue()

    def decode(self, namespace: Any) -> Window:
        window: Window = self._serializer.deserialize(BytesIO(namespace))
        return window


def window_namespaces(serializer: object) -> WindowNamespaces[Any]:
    """How windows stand in state, from the serializer of their assigner.

    Raises:
        ConfigurationError: It is no `TypeSerializer`.
    """
    if type(serializer) is TimeWindowSerializer:
        return _TimeWindowNamespaces()
    if type(serializer) is CountWindowSerializer:
        return _CountWindowNamespaces()
    if type(serializer) is GlobalWindowSerializer:
        return _GlobalWindowNamespaces()
    if isinstance(serializer, TypeSerializer):
        return _SerializedNamespaces(serializer)
    raise ConfigurationError(
        f"get_window_serializer() of a window assigner must return a TypeSerializer, such as "
        f"TimeWindowSerializer(), not {type(serializer).__name__}"
    )
