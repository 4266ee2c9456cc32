"""Arrow batches on a hash exchange: whole records, in order, at the subtask that owns their key."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columns import as_timestamps, timestamps_of
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import ChannelId
from tidegate.protocol.key_groups import subtask_of_key_group
from tidegate.protocol.scheduling.execution_graph import OutputEdge
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge
from tidegate.runtime.network.wire import decode_elements, encode_elements
from tidegate.runtime.output import OutputChannel
from tidegate.runtime.partitioners import partitioner
from tidegate.state.serializers.key_hashing import key_group_of


class Channel(OutputChannel):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def add_batch(self, batch: Batch) -> None:
        self.batches.append(batch)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_each_record_reaches_its_subtask_in_order_with_its_timestamp(parallelism: int) -> None:
    numbers = np.random.default_rng(3).integers(-50, 50, 1_000)
    batch = Batch(
        pa.record_batch({"at": np.arange(1_000), "k": numbers}), as_timestamps(np.arange(1_000) * 10)
    )
    channels = [Channel() for _ in range(parallelism)]
    edge = StreamEdge(0, 1, 2, Partitioning.HASH, 0, pickle.dumps(ColumnKey("k", None)))
    ids = tuple(ChannelId(0, 0, index) for index in range(parallelism))
    emit = partitioner(OutputEdge(edge, ids, 128, parallelism), channels, "Numbers")
    emit(batch)
    for index, channel in enumerate(channels):
        (part,) = channel.batches
        times = timestamps_of(part)
        assert times is not None
        expected = [
            at
            for at, key in enumerate(numbers.tolist())
            if subtask_of_key_group(key_group_of(key, 128), 128, parallelism) == index
        ]
        assert part.values["at"].to_pylist() == expected
        assert times.tolist() == [10 * at for at in expected]


def test_a_slice_travels_without_the_batch_it_was_cut_from() -> None:
    whole = pa.record_batch({"v": np.arange(100_000), "t": ["text"] * 100_000})
    data = encode_elements([Batch(whole.slice(500, 10), [1] * 10)])
    (received,) = decode_elements(data)
    assert isinstance(received, Batch)
    assert received.values.equals(whole.slice(500, 10))
    assert len(data) < 2_000
