"""Two streams that one operator reads, so that they see each other's state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import TypeInformation
from ..operators.base import StreamOperator
from ..operators.connected import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from .data_stream import DataStream
from .function_checks import checked
from .keyed_stream import KeyedStream
from .transformation import Input, Transformation


class ConnectedStreams:
    """Two streams of perhaps different types; their records come in no order between them.

    Made by `DataStream.connect`. Where both streams are keyed, the functions may use keyed state, and
    records of both with equal keys see the same.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Partition both streams by key.

        Args:
            key_selector1: Gives the key of a record of the first stream.
            key_selector2: Gives the key of a record of the second stream, of the same type.
            key_type: Type of the keys of both; without it keys are encoded by their Python type.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, one out, by a `CoMapFunction`."""
        return self._then("Co-Map", func, "map", CoMapOperator, output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, any number out, by a `CoFlatMapFunction`."""
        return self._then("Co-Flat Map", func, "flat_map", CoFlatMapOperator, output_type)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `CoProcessFunction`, or a `KeyedCoProcessFunction` where both streams are keyed."""
        name = "Keyed-Co-Process" if isinstance(self.stream1, KeyedStream) else "Co-Process"
        return self._then(name, func, "process_element", CoProcessOperator, output_type)

    def _then(
        self, name: str, func: Any, method: str, without_keys: Any, output_type: TypeInformation | None
    ) -> DataStream:
        for number in "12":
            checked(func, method + number)
        if not (hasattr(func, f"{method}1") and hasattr(func, f"{method}2")):
            raise ConfigurationError(
                f"{type(func).__name__} cannot tell the two streams apart: it needs {method}1() and "
                f"{method}2()"
            )
        first, second = self.stream1, self.stream2
        if isinstance(first, KeyedStream) != isinstance(second, KeyedStream):
            keyed, other = ("first", "second") if isinstance(first, KeyedStream) else ("second", "first")
            raise ConfigurationError(
                f"the {keyed} stream is keyed and the {other} is not: connect() needs key_by() on both, or "
                f"on neither; for rules that all subtasks should see connect a broadcast stream"
            )
        if not isinstance(first, KeyedStream) or not isinstance(second, KeyedStream):
            return two_inputs(name, without_keys(func), first, second, output_type, stateful=False)
        selectors = (first.key_selector, second.key_selector)
        operator = KeyedCoProcessOperator(func, selectors, _key_type(first, second), method)
        return two_inputs(name, operator, first, second, output_type, stateful=True)


def two_inputs(
    name: str,
    operator: StreamOperator,
    first: DataStream,
    second: DataStream,
    output_type: TypeInformation | None,
    stateful: bool,
) -> DataStream:
    """The stream of an operator that reads two streams, as its inputs 0 and 1."""
    env = first.get_execution_environment()
    if second.get_execution_environment() is not env:
        raise ConfigurationError("the two streams belong to different environments; make both with one")
    inputs = [replace(entry, input_index=0) for entry in first.inputs]
    inputs += [replace(entry, input_index=1) for entry in second.inputs]
    transformation = Transformation(name, operator, inputs, output_type=output_type, is_stateful=stateful)
    env.register(transformation)
    return DataStream(env, [Input(transformation)])


def _key_type(first: KeyedStream, second: KeyedStream) -> TypeInformation | None:
    if first.key_type is not None and second.key_type is not None and first.key_type != second.key_type:
        raise ConfigurationError(
            f"the keys of the two streams have different types, {first.key_type!r} and {second.key_type!r}; "
            f"equal keys must be of one type to meet"
        )
    return first.key_type or second.key_type
