"""How elements travel between processes: pickled here, by the C pickler, so that Ray only sees bytes.

Each element is a pickle of its own, one behind the other. So a message may hold several batches, and the
receiver makes the objects of one when the one before it is done: those of a whole message would not fit into
a processor's cache. Sending tuples as columns instead was measured and dropped: see
`docs/adr/004-wire-format.md`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from ..common.errors import SerializationError
from ..protocol.elements import Batch, StreamElement

Decode = Callable[[Any, int], tuple[list[StreamElement], int | None]]
"""The next elements of a payload, from a position, and the position after them, `None` at its end."""

_PICKLING_ERRORS = (pickle.PicklingError, AttributeError, TypeError, RecursionError)
# What an Arrow batch may take beside its records before it is worth a copy.
_SLACK = 1.25


def encode_elements(elements: list[StreamElement]) -> bytes:
    """Elements as bytes; classes that only the driver's script defines travel by value.

    Raises:
        SerializationError: Something in a record cannot be pickled.
    """
    return b"".join([_pickled([_compacted(element)]) for element in elements])


def _pickled(part: list[StreamElement]) -> bytes:
    try:
        return pickle.dumps(part, protocol=5)
    except _PICKLING_ERRORS:
        try:
            return cloudpickle.dumps(part, protocol=5)  # type: ignore[no-any-return]
        except Exception as error:
            raise SerializationError(
                f"a record cannot be sent to another process: {error}. Emit data only, and keep locks, "
                f"connections and open files inside the function"
            ) from error


def _compacted(element: StreamElement) -> StreamElement:
    """An Arrow batch that is part of a larger one is pickled with all the memory of the larger one."""
    if not isinstance(element, Batch) or isinstance(element.values, list):
        return element
    values = element.values
    if values.get_total_buffer_size() <= _SLACK * values.nbytes:
        return element
    return Batch(values.take(pa.array(np.arange(len(values)))), element.timestamps, element.keys)


def decode_elements(data: bytes) -> list[StreamElement]:
    """The elements in `data`, which another task of the same job encoded."""
    return all_parts(decode_part, data)


def all_parts(decode: Decode, payload: Any) -> list[StreamElement]:
    """Every element of a payload, by what decodes the next ones from a position on."""
    elements: list[StreamElement] = []
    position: int | None = 0
    while position is not None:
        part, position = decode(payload, position)
        elements += part
    return elements


def decode_part(data: bytes, position: int) -> tuple[list[StreamElement], int | None]:
    """Some of the elements in `data`.

    Args:
        data: What another task of the same job encoded, with at least one element.
        position: Where to begin, in bytes: 0, or what the call before returned.

    Returns:
        The elements, and where the next begin, `None` if these were the last.
    """
    stream = io.BytesIO(data)
    stream.seek(position)
    part = pickle.load(stream)
    end = stream.tell()
    return part, end if end < len(data) else None
