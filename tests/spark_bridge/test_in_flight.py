"""What Spark's tasks read of records that barriers overtook."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.handles import ChannelRange, ChannelStateHandle
from tidegate.protocol.checkpoints.manifest import encode_manifest
from tidegate.protocol.elements import Batch, StreamElement, Watermark
from tidegate.protocol.ids import CheckpointId
from tidegate.runtime.network.wire import encode_elements
from tidegate.spark_bridge.in_flight import InFlightReading
from tidegate.state.storage.checkpoint_storage import open_storage
from tidegate.state.storage.stored_checkpoint import MANIFEST_NAME, read_checkpoint

from ..state.checkpoints import UID, Job

MESSAGES: list[tuple[int, list[StreamElement]]] = [
    (0, [Batch([("a", 1), ("b", 2)], [10, 20]), Watermark(20)]),
    # The first batch had been taken up already when the barrier came.
    (1, [Batch(["gone"]), Batch([7])]),
]


def stored(root: Path, cut: int = 0) -> str:
    """A checkpoint whose second subtask had two messages under way; `cut` bytes of them are missing."""
    job = Job(root)
    path = job.checkpoint()
    payloads = [(taken, bytes(encode_elements(elements))) for taken, elements in MESSAGES]
    data = b"".join(struct.pack(">QQ", len(payload), taken) + payload for taken, payload in payloads)
    data = data[: len(data) - cut]
    file = job.storage.write_file("shared/channels", data)
    channel = ChannelRange("upstream", 0, 3, 4, "hash", 0, len(data))
    manifest = read_checkpoint(path)
    operator = manifest.operators[UID]
    second = replace(operator.subtasks[1], channels=ChannelStateHandle(file, (channel,)))
    changed = replace(operator, subtasks=(operator.subtasks[0], second))
    storage = open_storage(str(root / "chk-9"))
    moved = replace(manifest, checkpoint_id=CheckpointId(9), operators={UID: changed})
    storage.write_file(MANIFEST_NAME, encode_manifest(moved))
    return str(root / "chk-9")


def read(path: str, is_trusted: bool) -> pa.Table:
    reading = InFlightReading(path, ((UID, 1),), is_trusted)
    numbers = pa.record_batch([pa.array([0])], names=["id"])
    return pa.Table.from_batches(reading.read(reading.columns, iter([numbers])), schema=reading.columns)


def test_messages_stay_closed_unless_they_are_trusted(tmp_path: Path) -> None:
    path = stored(tmp_path)
    closed = read(path, is_trusted=False)
    assert closed["skipped"].to_pylist() == [0, 1]
    assert "value" not in closed.column_names
    assert closed.slice(0, 1).drop_columns(["skipped", "payload"]).to_pylist() == [
        {
            "operator_uid": UID,
            "subtask": 1,
            "upstream_uid": "upstream",
            "ordinal": 0,
            "upstream_index": 3,
            "upstream_parallelism": 4,
            "partitioning": "hash",
            "message": 0,
        }
    ]
    opened = read(path, is_trusted=True).select(["message", "element", "timestamp_ms", "value"]).to_pylist()
    assert [tuple(row.values()) for row in opened] == [
        (0, "record", 10, "('a', 1)"),
        (0, "record", 20, "('b', 2)"),
        (0, "watermark", 20, None),
        (1, "record", None, "7"),
    ]
    assert pickle.loads(read(path, is_trusted=True)["value_pickled"][1].as_py()) == ("b", 2)


def test_a_range_that_ends_within_a_message_is_damage(tmp_path: Path) -> None:
    with pytest.raises(CorruptCheckpointError, match="ends within a record under way"):
        read(stored(tmp_path, cut=10), is_trusted=False)
