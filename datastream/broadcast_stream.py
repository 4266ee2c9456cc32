"""The broadcast state pattern: a stream that every subtask sees, beside one that is spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import TypeInformation
from ..operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from ..operators.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from ..state.descriptors import MapStateDescriptor
from .connected_streams import two_inputs
from .keyed_stream import KeyedStream

if TYPE_CHECKING:
    from .data_stream import DataStream


class BroadcastStream:
    """A stream whose every record goes to every subtask, and the maps that its records may change.

    Made by `DataStream.broadcast(descriptor, …)`; to be connected with another stream.
    """

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ConfigurationError(
                    f"broadcast() takes MapStateDescriptors, not {type(descriptor).__name__}: broadcast "
                    f"state is a map"
                )
        names = [descriptor.get_name() for descriptor in broadcast_state_descriptors]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"broadcast(): two of the states {names} have one name")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream, keyed or not, connected with a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a function on the records of both streams.

        Args:
            func: A `KeyedBroadcastProcessFunction` where the stream is keyed, else a
                `BroadcastProcessFunction`.
            output_type: Type of the results.
        """
        stream, descriptors = self.non_broadcast_stream, self.broadcast_state_descriptors
        broadcast = self.broadcast_stream.input_stream
        if isinstance(stream, KeyedStream):
            self._check(func, KeyedBroadcastProcessFunction, "keyed")
            keyed = KeyedBroadcastProcessOperator(func, descriptors, stream.key_selector, stream.key_type)
            return two_inputs("Co-Process-Broadcast-Keyed", keyed, stream, broadcast, output_type, True)
        self._check(func, BroadcastProcessFunction, "not keyed")
        operator = BroadcastProcessOperator(func, descriptors)
        return two_inputs("Co-Process-Broadcast", operator, stream, broadcast, output_type, True)

    @staticmethod
    def _check(func: Any, wanted: type, how: str) -> None:
        if not isinstance(func, wanted):
            raise ConfigurationError(
                f"the stream that is connected with the broadcast stream is {how}, so process() takes a "
                f"{wanted.__name__}, not {type(func).__name__}"
            )
