"""How values are stored: the interface, and the codecs of typed and of pickled values."""

from __future__ import annotations

import marshal
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...common.errors import StateError
from ...common.type_system.plain_conversion import value_text
from ...common.typeinfo import TypeInformation, type_text
from .encoded_values import VERSION as ENCODED_VERSION
from .encoded_values import decode_value, encode_value
from .pickling import dumps
from .value_layouts import ValueLayout, binary_values, nullable, same

# Values that the target column cannot hold, encoded by themselves, by their position in the chunk.
Opaque = dict[int, bytes]


class ValueCodec(ABC):
    """How values of one declared type are stored.

    Attributes:
        type_text: the declared type, as snapshots name it.
        immutable: whether no value of the type can change in place.
        arrow_type: type of the value column in snapshots.
        is_pickled: whether that column holds pickles.
    """

    type_text: str
    immutable: bool
    arrow_type: pa.DataType
    is_pickled: bool = False

    @abstractmethod
    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        """Encode values for LMDB; `StateError` when one does not fit the declared type."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """The value that `encode_many` wrote."""

    def decode_many(self, stored: list[bytes]) -> list[Any]:
        """The values of many entries of LMDB."""
        return list(map(self.decode, stored))

    @abstractmethod
    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        """A column of values; those it cannot hold are null in it and encoded by themselves."""

    @abstractmethod
    def from_arrow(self, column: pa.Array, opaque: Opaque) -> list[Any]:
        """The values that `to_arrow` wrote."""

    def stored_bytes(self, column: pa.Array, opaque: Opaque) -> list[bytes]:
        """What `encode_many` gives for the values of a column."""
        return self.encode_many(self.from_arrow(column, opaque))


class PickledCodec(ValueCodec):
    """Any Python object."""

    immutable = False
    is_pickled = True
    arrow_type = pa.large_binary()

    def __init__(self, text: str) -> None:
        self.type_text = text

    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        return [dumps(value) for value in values]

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)

    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        return pa.array(self.encode_many(values), type=self.arrow_type), {}

    def from_arrow(self, column: pa.Array, opaque: Opaque) -> list[Any]:
        return [pickle.loads(data) for data in binary_values(column)]

    def stored_bytes(self, column: pa.Array, opaque: Opaque) -> list[bytes]:
        return binary_values(column)


class TypedCodec(ValueCodec):
    """Values with a typed column in snapshots, and their plain form, marshalled, in LMDB.

    `marshal` rather than msgpack or pickle: see docs/adr/007-value-encoding.md. Its format may change
    with Python's version, but the files of LMDB never outlive the process that wrote them.
    """

    def __init__(self, type_info: TypeInformation, layout: ValueLayout) -> None:
        self.type_text = type_text(type_info)
        self.immutable = layout.immutable
        self.arrow_type = layout.arrow_type
        self._layout = layout
        self._back = layout.back

    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        layout, chunk = self._layout, list(values)
        if layout.are_exact(chunk):
            return self._marshalled(self._plains(chunk))
        return [
            self._marshalled(self._plains([value]))[0] if layout.are_exact([value]) else self._opaque(value)
            for value in chunk
        ]

    def decode(self, data: bytes) -> Any:
        # No marshalled value starts with the first byte of an encoded one.
        if data[0] == ENCODED_VERSION:
            return self._encoded(data)
        plain = marshal.loads(data)
        return None if plain is None else self._back(plain)

    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        column = self._exact_column(values)
        if column is not None:
            return column, {}
        opaque: Opaque = {}
        for position in self._misfits(values, 0):
            opaque[position] = self._opaque(values[position])
        rest = [None if position in opaque else value for position, value in enumerate(values)]
        return self._layout.column(self._plains(rest)), opaque

    def from_arrow(self, column: pa.Array, opaque: Opaque) -> list[Any]:
        back = nullable(self._back)
        plains = self._layout.plains(column)
        values = plains if back is same else list(map(back, plains))
        for position, data in opaque.items():
            values[position] = self._encoded(data)
        return values

    def stored_bytes(self, column: pa.Array, opaque: Opaque) -> list[bytes]:
        stored = self._marshalled(self._layout.plains(column))
        for position, data in opaque.items():
            # What is damaged fails here, and not when a record needs it.
            decode_value(data)
            stored[position] = data
        return stored

    def _exact_column(self, values: list[Any]) -> pa.Array | None:
        """A column of all values; None when it cannot hold one of them exactly."""
        if not self._layout.are_exact(values):
            return None
        try:
            return self._layout.column(self._plains(values))
        except (pa.ArrowException, UnicodeError, ArithmeticError, ValueError):
            # For example a lone surrogate, an integer out of range, or one too long for text.
            return None

    def _misfits(self, values: list[Any], start: int) -> Iterator[int]:
        """Positions of the values that the column cannot hold, found by halving."""
        if self._exact_column(values) is not None:
            return
        if len(values) == 1:
            yield start
            return
        middle = len(values) // 2
        yield from self._misfits(values[:middle], start)
        yield from self._misfits(values[middle:], start + middle)

    def _plains(self, values: list[Any]) -> list[Any]:
        plain = nullable(self._layout.plain)
        return values if plain is same else list(map(plain, values))

    def _marshalled(self, plains: list[Any]) -> list[bytes]:
        # Version 2 has no references, so equal values give equal bytes.
        return [marshal.dumps(plain, 2) for plain in plains]

    def _opaque(self, value: Any) -> bytes:
        reason = self._layout.refusal(value)
        if reason is not None:
            raise wrong_type(value, self.type_text, reason)
        return encode_value(self._layout.to_encoded(value))

    def _encoded(self, data: bytes) -> Any:
        value = decode_value(data)
        return None if value is None else self._layout.from_encoded(value)


def wrong_type(value: Any, text: str, reason: str) -> StateError:
    """The error for a value that does not fit the declared type `text`."""
    return StateError(
        f"the value {value_text(value)} does not fit the declared type {text} (it has {reason}); store "
        f"values of that type, or declare another one in the state descriptor"
    )
