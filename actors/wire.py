"""How elements travel between processes: pickled here, by the C pickler, so that Ray only sees bytes.

Sending tuples as columns instead was measured and dropped: see `docs/adr/004-wire-format.md`.
"""

from __future__ import annotations

import pickle

import cloudpickle

from ..protocol.elements import StreamElement

_PICKLING_ERRORS = (pickle.PicklingError, AttributeError, TypeError)


def encode_elements(elements: list[StreamElement]) -> bytes:
    """Elements as bytes; classes that only the driver's script defines travel by value."""
    try:
        return pickle.dumps(elements, protocol=5)
    except _PICKLING_ERRORS:
        return cloudpickle.dumps(elements, protocol=5)  # type: ignore[no-any-return]


def decode_elements(data: bytes) -> list[StreamElement]:
    """The elements in `data`, which another task of the same job encoded."""
    return pickle.loads(data)  # type: ignore[no-any-return]
