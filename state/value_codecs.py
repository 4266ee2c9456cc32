"""How values are stored: the interface, and the codecs of typed and of pickled values."""

from __future__ import annotations

import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from ..common.errors import StateError
from ..common.typeinfo import TypeInformation, type_text
from .arrow_forms import ArrowForm

# Values that the target column cannot hold, pickled, by their position in the chunk.
Opaque = dict[int, bytes]


def dumps(value: Any) -> bytes:
    """Pickle a value, with cloudpickle where plain pickle cannot.

    Raises:
        StateError: when neither can.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    buffer = io.BytesIO()
    try:
        cloudpickle.CloudPickler(buffer, 5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StateError(
            f"a value of type {type(value).__name__} cannot be pickled ({error}); keep only data in "
            f"state, and open connections, locks and files in open()"
        ) from error
    return buffer.getvalue()


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

    @abstractmethod
    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        """A column of values; those it cannot hold are null in it and pickled beside it."""

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
    """Values with a typed column in snapshots, pickled in LMDB."""

    def __init__(self, type_info: TypeInformation, form: ArrowForm) -> None:
        self.type_text = type_text(type_info)
        self.immutable = form.immutable
        self.arrow_type = form.arrow_type
        self._form = form

    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        for value in values:
            self._check(value)
        return [dumps(value) for value in values]

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)

    def to_arrow(self, values: list[Any]) -> tuple[pa.Array, Opaque]:
        form = self._form
        plain: list[Any] = []
        opaque: Opaque = {}
        for position, value in enumerate(values):
            if value is not None and form.fits(value):
                plain.append(form.plain(value))
            else:
                self._check(value)
                plain.append(None)
                opaque[position] = dumps(value)
        try:
            return pa.array(plain, type=self.arrow_type), opaque
        except (pa.ArrowException, UnicodeError, OverflowError):
            # For example text with a lone surrogate: rare, so the whole chunk is pickled.
            everything = dict(enumerate(map(dumps, values)))
            return pa.nulls(len(values), self.arrow_type), everything

    def from_arrow(self, column: pa.Array, opaque: Opaque) -> list[Any]:
        back = self._form.back
        values = [None if value is None else back(value) for value in column.to_pylist()]
        for position, data in opaque.items():
            values[position] = pickle.loads(data)
        return values

    def _check(self, value: Any) -> None:
        if value is not None and not isinstance(value, self._form.accepts):
            raise wrong_type(value, self.type_text)


def binary_values(column: pa.Array) -> list[bytes]:
    """The elements of a binary column without nulls, several times faster than `to_pylist`."""
    wide = column.cast(pa.large_binary())
    if len(wide) == 0:
        return []
    _, offset_buffer, data = wide.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    raw = data.slice(start, end - start).to_pybytes() if data is not None else b""
    bounds = (offsets - start).tolist()
    return [raw[low:high] for low, high in pairwise(bounds)]


def wrong_type(value: Any, text: str) -> StateError:
    """The error for a value that does not fit the declared type `text`."""
    return StateError(
        f"the value {value!r:.200} of type {type(value).__name__} does not fit the declared type "
        f"{text}; store values of that type, or declare another one in the state descriptor"
    )
