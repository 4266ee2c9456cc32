"""Records under way as bytes: written when a barrier has overtaken them, read again on a restore.

A file holds the records of all input channels of one subtask, one range per channel. A range is a row of
frames, one per message: the length of its pickles, the number of elements at its start that do not count
(8 bytes each, big endian), and the pickles of its elements, one after the other.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...common.errors import CorruptCheckpointError
from ...operators.batch_selection import selected
from ...operators.columnar.column_key import ColumnKey, key_groups_of_column
from ...operators.keyed.key_hashing import key_groups_of
from ...protocol.checkpoints.channel_state import RecoveredChannel
from ...protocol.checkpoints.handles import ChannelRange, ChannelStateHandle
from ...protocol.elements import Batch, StreamElement, Watermark
from ...protocol.ids import ChannelId, CheckpointId
from ...protocol.key_groups import KeyGroupRange
from ...protocol.scheduling.execution_graph import InputChannel
from ...state.storage.checkpoint_storage import CheckpointStorage, read_restored
from ..gate import RecordedMessage
from ..local_dirs import as_file_name
from ..network.wire import decode_elements, stored_form
from ..ports import TaskDeployment

_FRAME = struct.Struct(">QQ")


def never_overtaken(inputs: Sequence[InputChannel]) -> frozenset[int]:
    """The indexes of the channels that no barrier overtakes."""
    return frozenset(
        index for index, channel in enumerate(inputs) if not channel.origin.partitioning.may_be_overtaken
    )


class ChannelStateWriter:
    """Stores what was recorded for one subtask."""

    def __init__(self, deployment: TaskDeployment) -> None:
        self._deployment = deployment

    def write(
        self, checkpoint_id: CheckpointId, recorded: Mapping[int, Sequence[RecordedMessage]]
    ) -> ChannelStateHandle | None:
        """Write what was recorded by channel index as one file; `None` if there is nothing."""
        deployment = self._deployment
        storage = deployment.settings.storage
        assert storage is not None, "a checkpoint is taken, so there is a storage"
        offset = 0
        ranges: list[ChannelRange] = []
        frames: list[bytes] = []
        inputs = deployment.subtask.inputs
        for index, messages in sorted(recorded.items()):
            parts = [part for message in messages for part in _frame(message)]
            size_bytes = sum(map(len, parts))
            if size_bytes:
                ranges.append(_range(inputs[index], offset, size_bytes))
                frames += parts
                offset += size_bytes
        if not ranges:
            return None
        path = (
            f"shared/{as_file_name(deployment.subtask.task.head.uid)}/channels/"
            f"{deployment.subtask_id.index}-{deployment.attempt}-{checkpoint_id}"
        )
        return ChannelStateHandle(storage.write_file(path, b"".join(frames)), tuple(ranges))


def _frame(message: RecordedMessage) -> tuple[bytes, bytes]:
    pickles = stored_form(message.payload)
    return _FRAME.pack(len(pickles), message.taken), pickles


def _range(channel: InputChannel, offset: int, size_bytes: int) -> ChannelRange:
    origin = channel.origin
    return ChannelRange(
        origin.upstream_uid,
        origin.ordinal,
        channel.channel.upstream_index,
        origin.parallelism,
        origin.partitioning.value,
        offset,
        size_bytes,
    )


def recovered_elements(
    recovered: Sequence[RecoveredChannel], storage: CheckpointStorage | None
) -> Iterator[tuple[ChannelId, StreamElement]]:
    """The records under way, and the watermarks between them, channel by channel.

    Where several old channels became one, the watermark of the new one may only pass when the records of
    all of them have: the highest comes at the end. Barriers and ends of input are not repeated, since what
    is upstream starts again and sends its own.

    Raises:
        CorruptCheckpointError: A file is missing or damaged.
    """
    shares = Counter(each.channel for each in recovered)
    highest: dict[ChannelId, Watermark] = {}
    files: dict[str, bytes] = {}
    for each in recovered:
        if each.file.path not in files:
            files[each.file.path] = read_restored(storage, each.file)
        data = memoryview(files[each.file.path])[each.offset : each.offset + each.size_bytes]
        for element in _elements(data, each.file.path):
            if isinstance(element, Batch):
                kept = element if each.key_groups is None else _kept(element, each, each.key_groups)
                if len(kept):
                    yield each.channel, kept
            elif isinstance(element, Watermark) and each.keeps_watermarks:
                known = highest.get(each.channel, element)
                highest[each.channel] = max(known, element, key=lambda watermark: watermark.timestamp_ms)
                if shares[each.channel] == 1:
                    yield each.channel, element
    for channel, watermark in highest.items():
        if shares[channel] > 1:
            yield channel, watermark


def stored_messages(data: memoryview, path: str) -> Iterator[tuple[int, bytes]]:
    """The messages in a range: how many elements at the start do not count, and the payload.

    Raises:
        CorruptCheckpointError: The range ends within a message.
    """
    position = 0
    while position < len(data):
        left = len(data) - position - _FRAME.size
        size_bytes, taken = _FRAME.unpack_from(data, position) if left >= 0 else (0, 0)
        if left < size_bytes:
            raise CorruptCheckpointError(f"checkpoint file {path!r} ends within a record under way")
        position += _FRAME.size
        yield taken, bytes(data[position : position + size_bytes])
        position += size_bytes


def _elements(data: memoryview, path: str) -> Iterator[StreamElement]:
    for taken, payload in stored_messages(data, path):
        yield from decode_elements(payload)[taken:]


def _kept(batch: Batch, channel: RecoveredChannel, key_groups: KeyGroupRange) -> Batch:
    """The records of a keyed batch whose key groups the new subtask owns."""
    groups = _key_groups(batch, channel)
    kept = np.flatnonzero((groups >= key_groups.start) & (groups <= key_groups.end))
    return batch if len(kept) == len(batch) else selected(batch, kept)


def _key_groups(batch: Batch, channel: RecoveredChannel) -> npt.NDArray[np.uint16]:
    """The key group of each record. The key of a record in columns is a column, so it was not sent apart."""
    keys = batch.key_list()
    if keys is not None:
        return key_groups_of(keys, channel.max_parallelism)
    assert channel.key_selector is not None, "a keyed edge has one"
    selector: ColumnKey = pickle.loads(channel.key_selector)
    column = selector.column_of(batch.values, f"records in flight in {channel.file.path!r}")
    return key_groups_of_column(column, channel.max_parallelism)
