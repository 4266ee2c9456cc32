"""Messages between processes: large Arrow buffers are not copied, and nothing else is shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tidegate.protocol.channels.frames import MAX_BUFFERS, LargePayload, Payload
from tidegate.protocol.elements import Batch, StreamElement, Watermark
from tidegate.runtime.network.wire import (
    all_parts,
    decode_elements,
    decode_part,
    encode_elements,
    encode_message,
    stored_form,
)

ROWS = 20_000


def batch_of(rows: int = ROWS, columns: int = 2) -> pa.RecordBatch:
    whole = pa.record_batch({f"c{number}": np.arange(rows) + number for number in range(columns)})
    return whole.take(pa.array(np.arange(rows)))


def large(*elements: StreamElement) -> LargePayload:
    payload = encode_message(list(elements))
    assert isinstance(payload, LargePayload)
    return payload


def decoded(payload: Payload) -> list[StreamElement]:
    return all_parts(decode_part, payload)


def data_addresses(batch: pa.RecordBatch) -> set[int]:
    return {column.buffers()[1].address for column in batch.columns}


def addresses(payload: LargePayload) -> set[int]:
    return {np.frombuffer(buffer, np.uint8).ctypes.data for buffer in payload.buffers}


def test_large_arrow_buffers_are_copied_neither_by_the_sender_nor_by_the_receiver() -> None:
    batch = batch_of()
    payload = large(Batch(batch))
    assert addresses(payload) == data_addresses(batch)
    (received,) = decoded(payload)
    assert isinstance(received, Batch)
    assert received.values.equals(batch)
    assert data_addresses(received.values) == data_addresses(batch)


def test_functions_cannot_change_what_was_received() -> None:
    (received,) = decoded(large(Batch(batch_of())))
    assert isinstance(received, Batch)
    assert not any(column.buffers()[1].is_mutable for column in received.values.columns)


def test_numpy_arrays_are_copied_as_functions_may_change_them() -> None:
    array = np.arange(ROWS)
    keys = np.arange(ROWS)
    payload = encode_message([Batch([array], None, keys)])
    assert isinstance(payload, bytes)
    array[:] = keys[:] = -1
    (received,) = decoded(payload)
    assert isinstance(received, Batch)
    assert received.values[0].tolist() == received.keys.tolist() == list(range(ROWS))


@pytest.mark.parametrize("rows", [100, 5_000])
def test_a_slice_keeps_no_more_than_its_records_alive(rows: int) -> None:
    part = batch_of().slice(10_000, rows)
    payload = encode_message([Batch(part)])
    assert len(payload) < part.nbytes + 3_000
    kept = [whole_size(buffer) for buffer in getattr(payload, "buffers", ())]
    assert sum(kept) < 1.3 * part.nbytes
    (received,) = decoded(payload)
    assert isinstance(received, Batch)
    assert received.values.equals(part)


def test_one_column_of_many_that_share_memory_does_not_keep_the_others_alive() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch_of(columns=10).schema) as writer:
        writer.write_batch(batch_of(columns=10))
    whole = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    assert isinstance(encode_message([Batch(whole.select(["c3"]))]), bytes)
    assert len(large(Batch(whole)).buffers) == 10


def whole_size(buffer: memoryview) -> int:
    whole: Any = buffer.obj
    while whole.parent is not None:
        whole = whole.parent
    return int(whole.size)


def test_a_message_has_no_more_buffers_than_a_frame_may_have() -> None:
    batch = batch_of(2_100, MAX_BUFFERS + 10)
    payload = large(Batch(batch), Batch(batch_of()))
    assert len(payload.buffers) == MAX_BUFFERS
    assert [each.values for each in decoded(payload) if isinstance(each, Batch)] == [batch, batch_of()]


MESSAGES: list[list[StreamElement]] = [
    [Watermark(1)],
    [Batch([1, 2]), Watermark(2)],
    [Batch(list(range(50_000)))],
    [Watermark(1), Batch(batch_of()), Batch([1]), Batch(batch_of(3_000)), Watermark(2)],
]


@pytest.mark.parametrize("elements", MESSAGES, ids=["one", "two", "rows", "columns"])
def test_checkpoints_store_messages_as_pickles_one_after_the_other(elements: list[StreamElement]) -> None:
    payload = encode_message(elements)
    assert decoded(payload) == elements
    assert decode_elements(stored_form(payload)) == decode_elements(encode_elements(elements)) == elements
    received = LargePayload(memoryview(payload)) if isinstance(payload, bytes) else payload
    assert decoded(received) == elements
    assert stored_form(received) == stored_form(payload)


def test_columns_of_a_type_that_only_the_script_defines_travel_once() -> None:
    class Celsius(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int64(), "test.celsius")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
            return cls()

    column = pa.ExtensionArray.from_storage(Celsius(), pa.array(range(ROWS)))
    payload = large(Batch(pa.record_batch({"t": column})))
    assert len(payload.buffers) == 1
    (received,) = decoded(payload)
    assert isinstance(received, Batch)
    assert received.values.column(0).storage.equals(column.storage)


NUMBERS = list(range(ROWS))
COLUMNS = [
    pa.array(NUMBERS, pa.int32()),
    pa.array([None if number % 7 == 0 else number for number in NUMBERS], pa.float64()),
    pa.array([number % 3 == 0 for number in NUMBERS]),
    pa.array(["é" * (number % 5) for number in NUMBERS]),
    pa.array([b"ab" for _ in NUMBERS], pa.binary(2)),
    pa.array([None] * ROWS, pa.large_string()),
    pa.array([""] * ROWS),
    pa.array(NUMBERS, pa.timestamp("ns", "Europe/Berlin")),
    pa.array(NUMBERS, pa.decimal128(20, 2)),
    pa.array([None] * ROWS),
    pa.array([[number] for number in NUMBERS]),
    pa.array([{"a": number, "b": str(number)} for number in NUMBERS]),
    pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
    pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
@pytest.mark.parametrize("start", [0, 3])
def test_columns_of_every_type_arrive_with_their_schema(column: pa.Array, start: int) -> None:
    schema = pa.schema(
        [pa.field("n", pa.int64(), nullable=False), pa.field("c", column.type, metadata={"of": "field"})],
        metadata={"of": "schema"},
    )
    batch = pa.record_batch([pa.array(NUMBERS), column], schema=schema).slice(start)
    times = NUMBERS[start:]
    (received,) = decoded(large(Batch(batch, times, np.array(times))))
    assert isinstance(received, Batch)
    received.values.validate(full=True)
    assert received.values.equals(batch, check_metadata=True)
    assert received.values.schema.equals(schema, check_metadata=True)
    assert received.timestamps == times
    assert received.keys.tolist() == times


@pytest.mark.parametrize("rows", [10, 3_000, ROWS])
def test_stored_columns_do_not_depend_on_how_they_travelled(rows: int) -> None:
    payload = encode_message([Batch(batch_of(rows, 8))])
    assert b"flat_batches" not in stored_form(payload)
    (stored,) = decode_elements(stored_form(payload))
    assert isinstance(stored, Batch)
    assert stored.values.equals(batch_of(rows, 8))
