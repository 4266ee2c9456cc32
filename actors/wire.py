"""How elements travel between processes: pickled here, by the C pickler, so that Ray only sees bytes.

Sending tuples as columns instead was measured and dropped: see `docs/adr/004-wire-format.md`.
"""

from __future__ import annotations

import pickle

import cloudpickle
import pyarrow as pa

from ..common.errors import SerializationError
from ..protocol.elements import Batch, StreamElement

_PICKLING_ERRORS = (pickle.PicklingError, AttributeError, TypeError)
# What an Arrow batch may take beside its records before it is worth a copy.
_SLACK = 1.25


def encode_elements(elements: list[StreamElement]) -> bytes:
    """Elements as bytes; classes that only the driver's script defines travel by value.

    Raises:
        SerializationError: Something in a record cannot be pickled.
    """
    elements = [_compacted(element) for element in elements]
    try:
        return pickle.dumps(elements, protocol=5)
    except _PICKLING_ERRORS:
        try:
            return cloudpickle.dumps(elements, protocol=5)  # type: ignore[no-any-return]
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
    return Batch(values.take(pa.array(range(len(values)), pa.int64())), element.timestamps, element.keys)


def decode_elements(data: bytes) -> list[StreamElement]:
    """The elements in `data`, which another task of the same job encoded."""
    return pickle.loads(data)  # type: ignore[no-any-return]
