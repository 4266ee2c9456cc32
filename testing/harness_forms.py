"""Short forms of `Harness` for one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import TypeInformation
from ..operators.functions import Function
from .harness import Harness

_ONE_INPUT = {
    "process_element": "process",
    "map": "map",
    "flat_map": "flat_map",
    "filter": "filter",
    "reduce": "reduce",
}
_TWO_INPUTS = {
    "process_broadcast_element": "process",
    "process_element1": "process",
    "map1": "map",
    "flat_map1": "flat_map",
}


class OneInputHarness(Harness):
    """Runs a function on a stream without keys.

    Args:
        function: A `Function` with one input, or a callable that takes the stream and returns one: any
            part of a job.
        options: Of `Harness`.
    """

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__(lambda stream: _applied(function, stream, _ONE_INPUT), 1, **options)


class KeyedOneInputHarness(Harness):
    """Runs a function on a keyed stream.

    Args:
        function: A `Function` with one input, or a callable that takes the keyed stream and returns a
            stream, as `lambda keyed: keyed.window(…).reduce(…)`.
        key_selector: As in `key_by`.
        key_type: As in `key_by`.
        options: Of `Harness`.
    """

    def __init__(
        self, function: Any, key_selector: Any, key_type: TypeInformation | None = None, **options: Any
    ) -> None:
        def build(stream: Any) -> Any:
            return _applied(function, stream.key_by(key_selector, key_type), _ONE_INPUT)

        super().__init__(build, 1, **options)


class _TwoInputs(Harness):
    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Send one record into the first input."""
        self.process_element(value, timestamp, 0)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Send one record into the second input."""
        self.process_element(value, timestamp, 1)

    def process_watermark1(self, timestamp_ms: int) -> None:
        """Send a watermark into the first input."""
        self.process_watermark(timestamp_ms, 0)

    def process_watermark2(self, timestamp_ms: int) -> None:
        """Send a watermark into the second input."""
        self.process_watermark(timestamp_ms, 1)


class TwoInputHarness(_TwoInputs):
    """Runs a function on two connected streams without keys.

    Args:
        function: A `Function` with two inputs, or a callable that takes the connected streams.
        options: Of `Harness`.
    """

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__(
            lambda first, second: _applied(function, first.connect(second), _TWO_INPUTS), 2, **options
        )


class KeyedTwoInputHarness(_TwoInputs):
    """Runs a function on two connected keyed streams.

    Args:
        function: A `Function` with two inputs, or a callable that takes the connected streams.
        key_selector1, key_selector2: As in `key_by`, one for each input.
        key_type: As in `key_by`.
        options: Of `Harness`.
    """

    def __init__(
        self,
        function: Any,
        key_selector1: Any,
        key_selector2: Any,
        key_type: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        def build(first: Any, second: Any) -> Any:
            keyed1, keyed2 = first.key_by(key_selector1, key_type), second.key_by(key_selector2, key_type)
            return _applied(function, keyed1.connect(keyed2), _TWO_INPUTS)

        super().__init__(build, 2, **options)


class _Broadcast(_TwoInputs):
    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> None:
        """Send one record into the broadcast input: every subtask gets it."""
        self.process_element2(value, timestamp)


class BroadcastHarness(_Broadcast):
    """Runs a `BroadcastProcessFunction`; the second input is the broadcast one.

    Args:
        function: The function, or a callable that takes the connected streams.
        descriptors: Of the broadcast states.
        options: Of `Harness`.
    """

    def __init__(self, function: Any, *descriptors: Any, **options: Any) -> None:
        def build(stream: Any, control: Any) -> Any:
            return _applied(function, stream.connect(control.broadcast(*descriptors)), _TWO_INPUTS)

        super().__init__(build, 2, **options)


class KeyedBroadcastHarness(_Broadcast):
    """Runs a `KeyedBroadcastProcessFunction`; the second input is the broadcast one.

    Args:
        function: The function, or a callable that takes the connected streams.
        key_selector: Of the first input, as in `key_by`.
        descriptors: Of the broadcast states.
        key_type: As in `key_by`.
        options: Of `Harness`.
    """

    def __init__(
        self,
        function: Any,
        key_selector: Any,
        *descriptors: Any,
        key_type: TypeInformation | None = None,
        **options: Any,
    ) -> None:
        def build(stream: Any, control: Any) -> Any:
            keyed = stream.key_by(key_selector, key_type)
            return _applied(function, keyed.connect(control.broadcast(*descriptors)), _TWO_INPUTS)

        super().__init__(build, 2, **options)


def _applied(function: Any, stream: Any, methods: dict[str, str]) -> Any:
    """What comes of a stream when a function is applied to it."""
    if isinstance(function, Function):
        for own, of_stream in methods.items():
            if hasattr(function, own):
                apply: Callable[[Any], Any] = getattr(stream, of_stream)
                return apply(function)
    elif callable(function):
        return function(stream)
    raise ConfigurationError(
        f"{type(function).__name__} has none of {', '.join(methods)}; give a callable that takes the stream "
        f"and returns one, as: lambda stream: stream.process(function)"
    )
