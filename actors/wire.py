"""How elements travel between processes: pickled here, by the C pickler, so that Ray only sees bytes.

Sending tuples as columns instead was measured and dropped: see `docs/adr/004-wire-format.md`.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import cloudpickle

from ..common.errors import SerializationError
from ..protocol.elements import StreamElement

_PICKLING_ERRORS = (pickle.PicklingError, AttributeError, TypeError)


def encode_elements(elements: list[StreamElement]) -> bytes:
    """Elements as bytes; classes that only the driver's script defines travel by value.

    Raises:
        SerializationError: Something in a record cannot be pickled.
    """
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


def stored_elements(payload: bytes | Sequence[StreamElement], taken: int) -> tuple[bytes, int]:
    """A payload as bytes that stay as they are, and how many elements at their start do not count.

    Args:
        payload: What travelled: bytes between processes, elements in a shell of one process. Elements are
            encoded at once, since user code may change the objects that it is given.
        taken: How many elements at the start were processed already.
    """
    if isinstance(payload, bytes):
        return payload, taken
    return encode_elements(list(payload[taken:])), 0


def decode_elements(data: bytes) -> list[StreamElement]:
    """The elements in `data`, which another task of the same job encoded."""
    return pickle.loads(data)  # type: ignore[no-any-return]
