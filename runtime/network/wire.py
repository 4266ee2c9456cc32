"""How elements travel between processes: pickled here, by the C pickler, so that Ray only sees bytes.

Each element is a pickle of its own. So a message may hold several batches, and the receiver makes the objects
of one when the one before it is done: those of a whole message would not fit into a processor's cache. A
message of one element is its pickle. In any other, the length of each pickle (8 bytes, big endian) and the
number of the first buffer that it refers to (4 bytes) come before it.

Large Arrow buffers are not copied into the pickles: they travel next to them, and the receiver's arrays refer
to the memory into which they were read. Sending tuples as columns instead was measured and dropped: see
`docs/adr/004-wire-format.md`.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any

import cloudpickle
import pyarrow as pa

from ...common.errors import SerializationError
from ...protocol.channels.frames import MAX_BUFFERS, Bytes, LargePayload, Payload
from ...protocol.elements import ColumnBatch, StreamElement
from ..flat_batches import FlatBatch, flat

Decode = Callable[[Any, int], tuple[list[StreamElement], int | None]]
"""The next elements of a payload, from a position, and the position after them, `None` at its end."""

_PICKLING_ERRORS = (pickle.PicklingError, AttributeError, TypeError, RecursionError, BufferError)
# How much memory an Arrow batch may keep alive, relative to its records, before it is worth a copy.
_SLACK = 1.25
# A smaller buffer costs less as part of the pickle.
_OWN_BUFFER_BYTES = 16 << 10
_PART = struct.Struct(">QI")
_PICKLE = pickle.PROTO[0]


def encode_message(elements: list[StreamElement]) -> Payload:
    """Elements as the payload of a message; classes that only the driver's script defines travel by value.

    The payload refers to the memory of large Arrow buffers, which must not change until it is received.

    Raises:
        SerializationError: Something in a record cannot be pickled.
    """
    buffers: list[memoryview] = []
    pickles: list[tuple[int, bytes]] = []
    for element in elements:
        first = len(buffers)
        pickles.append((first, _pickled(compacted(element), buffers)))
    if len(pickles) == 1 and not buffers:
        return pickles[0][1]
    data = b"".join([piece for first, part in pickles for piece in (_PART.pack(len(part), first), part)])
    return LargePayload(data, tuple(buffers)) if buffers else data


def encode_elements(elements: list[StreamElement]) -> bytes:
    """Elements as bytes that refer to no other memory: their pickles, one after the other.

    Raises:
        SerializationError: Something in a record cannot be pickled.
    """
    return b"".join([_dumped(compacted(element), [], 0) for element in elements])


def _pickled(element: StreamElement, buffers: list[memoryview]) -> bytes:
    """A pickle; large Arrow buffers are added to `buffers` instead."""
    own: list[memoryview] = []
    # Checkpoints store what has no buffers as it is: that must not be flat.
    form = flat(element, _OWN_BUFFER_BYTES) if isinstance(element, ColumnBatch) else None
    data = _dumped(form or element, own, MAX_BUFFERS - len(buffers))
    if own and _kept_bytes(own) <= _SLACK * sum(map(len, own)):
        buffers += own
        return data
    return _dumped(element, [], 0) if own or form else data


def _dumped(element: StreamElement | FlatBatch, own: list[memoryview], most: int) -> bytes:
    """A pickle; at most `most` large Arrow buffers are added to `own` instead."""

    def callback(buffer: pickle.PickleBuffer) -> bool:
        return len(own) >= most or not _takes(own, buffer)

    part = [element]
    try:
        return pickle.dumps(part, protocol=5, buffer_callback=callback)
    except _PICKLING_ERRORS:
        own.clear()
    try:
        return cloudpickle.dumps(part, protocol=5, buffer_callback=callback)  # type: ignore[no-any-return]
    except Exception as error:
        raise SerializationError(
            f"a record cannot be sent to another process: {error}. Emit data only, and keep locks, "
            f"connections and open files inside the function"
        ) from error


def _takes(own: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    """Whether a buffer travels by itself; a NumPy array does not, as a function may still change it."""
    raw = buffer.raw()
    if len(raw) < _OWN_BUFFER_BYTES or not isinstance(raw.obj, pa.Buffer):
        return False
    own.append(raw.toreadonly())
    return True


def _kept_bytes(buffers: list[memoryview]) -> int:
    """How much memory stays allocated because of some buffers: all of what they are slices of."""
    sizes: dict[int, int] = {}
    for each in buffers:
        whole: Any = each.obj
        while whole.parent is not None:
            whole = whole.parent
        sizes[whole.address] = whole.size
    return sum(sizes.values())


def compacted(element: StreamElement) -> StreamElement:
    """An element that keeps no more memory than it needs: part of a larger Arrow batch keeps all of that."""
    if not isinstance(element, ColumnBatch):
        return element
    values = element.values
    kept_bytes = values.get_total_buffer_size()
    # The first is as good as exact and ten times faster, but does not count dictionaries.
    if kept_bytes <= _SLACK * pa.ipc.get_record_batch_size(values) or kept_bytes <= _SLACK * values.nbytes:
        return element
    # It copies an array even if there is nothing to join it with.
    copied = [pa.concat_arrays([column]) for column in values.columns]
    values = pa.RecordBatch.from_arrays(copied, schema=values.schema)
    return ColumnBatch(values, element.timestamps, element.keys)


def decode_elements(data: bytes) -> list[StreamElement]:
    """The elements in `data`, for which another task of the same job called `encode_elements`."""
    elements: list[StreamElement] = []
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        elements += pickle.load(stream)
    return elements


def all_parts(decode: Decode, payload: Any) -> list[StreamElement]:
    """Every element of a payload, by what decodes the next ones from a position on."""
    elements: list[StreamElement] = []
    position: int | None = 0
    while position is not None:
        part, position = decode(payload, position)
        elements += part
    return elements


def decode_part(payload: Payload, position: int) -> tuple[list[StreamElement], int | None]:
    """Some of the elements in a payload.

    Args:
        payload: For which another task of the same job called `encode_message`, with at least one element.
        position: Where to begin, in bytes: 0, or what the call before returned.

    Returns:
        The elements, and where the next begin, `None` if these were the last.
    """
    data, buffers = _opened(payload)
    if data[0] == _PICKLE:
        return pickle.loads(data), None
    length, first = _PART.unpack_from(data, position)
    start = position + _PART.size
    end = start + length
    part = pickle.loads(memoryview(data)[start:end], buffers=buffers[first:])
    return part, end if end < len(data) else None


def _opened(payload: Payload) -> tuple[Bytes, tuple[memoryview, ...]]:
    return (payload.data, payload.buffers) if isinstance(payload, LargePayload) else (payload, ())


def stored_form(payload: Payload) -> bytes:
    """The elements of a payload as `encode_elements` encodes them, which is how checkpoints store them."""
    view, buffers = _opened(payload)
    if buffers:
        return encode_elements(all_parts(decode_part, payload))
    data = memoryview(view)
    if data[0] == _PICKLE:
        return bytes(data)
    pickles = []
    while data:
        end = _PART.size + _PART.unpack_from(data)[0]
        pickles.append(data[_PART.size : end])
        data = data[end:]
    return b"".join(pickles)


def received_memory(size_bytes: int) -> memoryview:
    """Memory for what is received: aligned for Arrow, and not filled with zeros first."""
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")
