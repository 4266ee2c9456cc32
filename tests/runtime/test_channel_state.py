"""Records that a barrier overtakes: recorded once, stored, and replayed to whoever owns them."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common.errors import CorruptCheckpointError
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.elementwise import MapOperator
from tidegate.operators.keyed.key_hashing import key_groups_of
from tidegate.protocol.checkpoints.channel_state import RecoveredChannel, StoredExchange
from tidegate.protocol.checkpoints.handles import (
    ChannelRange,
    ChannelStateHandle,
    FileHandle,
    OperatorSnapshot,
)
from tidegate.protocol.checkpoints.manifest import OperatorManifest
from tidegate.protocol.elements import (
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    ColumnBatch,
    EndOfInput,
    Message,
    StreamElement,
    Watermark,
)
from tidegate.protocol.ids import ChannelId, CheckpointId, JobId, SubtaskId
from tidegate.protocol.scheduling.execution_graph import InputChannel, Subtask, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import EdgeOrigin, JobGraph, StreamEdge, StreamNode, Task
from tidegate.runtime.checkpoints.channel_state import ChannelStateWriter, recovered_elements
from tidegate.runtime.gate import InputGate, RecordedMessage
from tidegate.runtime.network.wire import (
    all_parts,
    decode_elements,
    decode_part,
    encode_elements,
    encode_message,
)
from tidegate.runtime.ports import TaskDeployment
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import ATTEMPT, FakePorts, subtask_of, task_settings

MAX_PARALLELISM = 12
KEYED = Partitioning.HASH
AsBatch = Callable[[list[int], list[int], Any], Batch]
"""Makes a batch of values, event times and keys."""


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0, aligned_timeout_ms=0)


class Gate(InputGate):
    """With payloads as they travel between processes."""

    def __init__(self, channels: int = 1) -> None:
        self.ports = FakePorts()
        self.inputs = [InputChannel(ChannelId(0, upstream, 0), 0) for upstream in range(channels)]
        super().__init__(ATTEMPT, self.inputs, decode_part, self.ports.return_credit)
        self._numbers = Counter[int]()

    def arrive(self, *elements: StreamElement, channel: int = 0) -> None:
        payload = encode_message(list(elements))
        announces = elements[0] if isinstance(elements[0], (CheckpointBarrier, EndOfInput)) else None
        number, channel_id = self._numbers[channel], self.inputs[channel].channel
        self._numbers[channel] += 1
        self.accept(Message(ATTEMPT, channel_id, number, payload, len(payload), announces))


def records(recorded: list[RecordedMessage]) -> list[Any]:
    """The records that count, in order."""
    elements = (e for message in recorded for e in all_parts(decode_part, message.payload)[message.taken :])
    return [value for element in elements if isinstance(element, Batch) for value in element.values]


# ---------------------------------------------------------------- recording


def test_what_waits_before_the_barrier_is_recorded_and_nothing_behind_it() -> None:
    gate = Gate()
    gate.arrive(Batch([1]))
    gate.arrive(Batch([2]))
    gate.arrive(barrier(1))
    gate.arrive(Batch([3]))
    gate.start_recording(CheckpointId(1), [0])
    gate.arrive(Batch([4]))
    assert records(gate.stop_recording()[0]) == [1, 2]


def test_what_arrives_before_the_barrier_is_recorded_too_and_processed_all_the_same() -> None:
    gate = Gate(2)
    gate.arrive(Batch([1]), channel=1)
    gate.start_recording(CheckpointId(5), [0, 1])
    gate.arrive(Batch([2]), channel=1)
    gate.arrive(barrier(4), channel=1)
    gate.arrive(Batch([3]), channel=1)
    taken = [gate.poll() for _ in range(4)]
    assert [entry[1].values for entry in taken if entry and isinstance(entry[1], Batch)] == [[1], [2], [3]]
    gate.arrive(barrier(5), channel=1)
    gate.arrive(Batch([4]), channel=1)
    gate.arrive(Batch([9]), channel=0)
    gate.arrive(EndOfInput(), channel=0)
    recorded = gate.stop_recording()
    assert records(recorded[1]) == [1, 2, 3], "the barrier of an older checkpoint ends nothing"
    assert records(recorded[0]) == [9]
    gate.arrive(Batch([5]), channel=1)
    assert gate.stop_recording() == {}


def test_of_a_message_that_is_half_processed_only_the_rest_counts() -> None:
    gate = Gate()
    gate.arrive(Batch([1]), Watermark(5), Batch([2]))
    gate.poll()
    gate.poll()
    gate.start_recording(CheckpointId(1), [0])
    assert records(gate.stop_recording()[0]) == [2]


def test_nothing_counts_twice_where_the_next_part_of_a_message_is_not_decoded_yet() -> None:
    gate = Gate()
    gate.arrive(Batch([1]), Batch([2]), Batch([3]))
    gate.arrive(Batch([4]))
    gate.poll()
    gate.poll()
    gate.start_recording(CheckpointId(1), [0])
    assert records(gate.stop_recording()[0]) == [3, 4]
    taken = [gate.poll() for _ in range(2)]
    assert [entry[1].values for entry in taken if entry and isinstance(entry[1], Batch)] == [[3], [4]]


def test_messages_of_older_checkpoints_with_all_elements_in_one_pickle_are_read() -> None:
    elements: list[StreamElement] = [Batch([1]), Watermark(5), Batch([2])]
    assert decode_elements(pickle.dumps(elements)) == elements
    assert decode_elements(encode_elements(elements)) == elements


def test_a_channel_that_delivered_its_barrier_is_left_alone() -> None:
    gate = Gate(2)
    gate.arrive(Batch(["behind its barrier"]), channel=0)
    gate.arrive(Batch(["before"]), channel=1)
    gate.start_recording(CheckpointId(1), [1])
    assert list(gate.stop_recording()) == [1]


def test_records_that_are_being_replayed_are_recorded_again() -> None:
    gate = Gate(2)
    gate.recover([(0, Batch(["a"])), (1, Batch(["b"])), (1, Batch(["c"]))])
    gate.arrive(Batch(["d"]), channel=1)
    assert gate.poll() == (0, Batch(["a"]))
    gate.start_recording(CheckpointId(1), [0, 1])
    assert [gate.poll() for _ in range(2)] == [(1, Batch(["b"])), (1, Batch(["c"]))]
    recorded = gate.stop_recording()
    assert records(recorded[1]) == ["b", "c", "d"]
    assert records(recorded[0]) == []


def test_objects_are_recorded_as_they_are_at_the_barrier() -> None:
    ports, value = FakePorts(), ["unchanged"]
    channel = InputChannel(ChannelId(0, 0, 0), 0)
    gate = InputGate(ATTEMPT, [channel], ports.decode, ports.return_credit)
    payload, size_bytes = ports.encode([Batch([value])])
    gate.accept(Message(ATTEMPT, channel.channel, 0, payload, size_bytes))
    gate.start_recording(CheckpointId(1), [0])
    value[0] = "changed by the function that got it"
    assert records(gate.stop_recording()[0]) == [["unchanged"]]


def test_buffered_bytes_are_those_in_blocked_channels_and_those_recorded() -> None:
    gate = Gate(2)
    gate.arrive(Batch([1]), channel=0)
    gate.arrive(Batch([2]), channel=1)
    (size_bytes,) = {len(encode_message([Batch([number])])) for number in (1, 2)}
    assert gate.buffered_bytes == 0
    gate.block(0)
    assert gate.buffered_bytes == size_bytes
    gate.start_recording(CheckpointId(1), [1])
    assert gate.buffered_bytes == 2 * size_bytes
    gate.resume([0])
    gate.stop_recording()
    assert gate.buffered_bytes == 0


# ---------------------------------------------------------------- storing and reading


def deployment(storage: CheckpointStorage, channels: int = 2) -> TaskDeployment:
    subtask = subtask_of([MapOperator(str)], channels=channels)
    return TaskDeployment(JobId("job"), ATTEMPT, 0, subtask, task_settings(storage=storage), None)


def message(*elements: StreamElement, taken: int = 0) -> RecordedMessage:
    return RecordedMessage(encode_message(list(elements)), taken)


def recovered(handle: ChannelStateHandle, **changed: Any) -> list[RecoveredChannel]:
    """Everything in a handle, on the channels that it came from."""
    return [
        replace(
            RecoveredChannel(
                ChannelId(1, one.upstream_index, 0), handle.file, one.offset, one.size_bytes, None, 128, True
            ),
            **changed,
        )
        for one in handle.channels
    ]


def test_what_is_written_is_read_again_channel_by_channel_and_in_order() -> None:
    storage = MemoryCheckpointStorage()
    handle = ChannelStateWriter(deployment(storage)).write(
        CheckpointId(3),
        {
            1: [message(Batch(["seen"]), Batch(["b"]), taken=1), message(Watermark(7), Batch(["c"]))],
            0: [message(Batch(["a"]))],
        },
    )
    assert handle is not None
    assert [one.upstream_index for one in handle.channels] == [0, 1]
    assert {one.upstream_uid for one in handle.channels} == {"upstream"}
    read = list(recovered_elements(recovered(handle), storage))
    assert [(channel.upstream_index, element) for channel, element in read] == [
        (0, Batch(["a"])),
        (1, Batch(["b"])),
        (1, Watermark(7)),
        (1, Batch(["c"])),
    ]


def test_nothing_under_way_needs_no_file() -> None:
    storage = MemoryCheckpointStorage()
    assert ChannelStateWriter(deployment(storage)).write(CheckpointId(3), {0: [], 1: []}) is None
    assert storage.list_files("") == []


def test_barriers_cancel_markers_and_ends_of_input_are_not_replayed() -> None:
    storage = MemoryCheckpointStorage()
    elements = (barrier(2), CancelCheckpointMarker(CheckpointId(1)), Batch(["a"]), EndOfInput())
    handle = ChannelStateWriter(deployment(storage)).write(CheckpointId(3), {0: [message(*elements)]})
    assert handle is not None
    assert [element for _, element in recovered_elements(recovered(handle), storage)] == [Batch(["a"])]


def test_the_watermark_of_merged_channels_waits_for_the_records_of_all() -> None:
    storage = MemoryCheckpointStorage()
    handle = ChannelStateWriter(deployment(storage)).write(
        CheckpointId(3),
        {0: [message(Batch([1]), Watermark(5), Batch([2]))], 1: [message(Watermark(3), Batch([3]))]},
    )
    assert handle is not None
    merged = recovered(handle, channel=ChannelId(1, 0, 0))
    read = [element for _, element in recovered_elements(merged, storage)]
    assert read == [Batch([1]), Batch([2]), Batch([3]), Watermark(5)]
    foreign = recovered(handle, keeps_watermarks=False)
    read = [element for _, element in recovered_elements(foreign, storage)]
    assert read == [Batch([1]), Batch([2]), Batch([3])]


@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
def test_a_damaged_file_is_an_error_that_names_it(damage: str) -> None:
    storage = MemoryCheckpointStorage()
    handle = ChannelStateWriter(deployment(storage)).write(CheckpointId(3), {0: [message(Batch(["a"]))]})
    assert handle is not None
    data = storage.read(handle.file.path)
    if damage == "missing":
        storage.delete([handle.file.path])
    else:
        changed = bytes([data[0] ^ 1]) + data[1:] if damage == "flipped" else data[:-1]
        storage.write_file(handle.file.path, changed)
    with pytest.raises(CorruptCheckpointError, match="channels/0-3-3"):
        list(recovered_elements(recovered(handle), storage))


# ---------------------------------------------------------------- rescaling


def exchange(partitioning: Partitioning, upstream: int, downstream: int) -> tuple[JobGraph, StreamEdge]:
    nodes = [
        StreamNode(1, "up", "up", b"", upstream, MAX_PARALLELISM, is_source=True),
        StreamNode(2, "down", "down", b"", downstream, MAX_PARALLELISM),
    ]
    tasks = [
        Task(f"task-{n.node_id}", n.name, [n], [], n.parallelism, MAX_PARALLELISM, n.is_source, None)
        for n in nodes
    ]
    edge = StreamEdge(5, 1, 2, partitioning, key_selector=pickle.dumps(ColumnKey("number", None)))
    return JobGraph("job", tasks, [edge]), edge


def stored_by(
    subtasks: list[Subtask], storage: CheckpointStorage, values: list[int], as_batch: AsBatch = Batch
) -> OperatorManifest:
    """A checkpoint with one message per channel; every value is on the channel it was sent to."""
    parallelism, snapshots = len(subtasks), []
    for index, subtask in enumerate(subtasks):
        recorded: dict[int, list[RecordedMessage]] = {}
        for number, channel in enumerate(subtask.inputs):
            origin = channel.origin
            mine = [
                value
                for value in values
                if value % origin.parallelism == channel.channel.upstream_index
                and target(value, origin.partitioning, parallelism) == index
            ]
            keys: Any = mine if number % 2 else np.array(mine, dtype=np.int64)
            times = [10 * value for value in mine]
            recorded[number] = [
                message(as_batch(mine, times, keys if origin.partitioning is KEYED else None))
            ]
        params = TaskDeployment(JobId("job"), ATTEMPT, 0, subtask, task_settings(storage=storage), None)
        handle = ChannelStateWriter(params).write(CheckpointId(1), recorded)
        snapshots.append(OperatorSnapshot(channels=handle))
    return OperatorManifest("down", "down", MAX_PARALLELISM, tuple(snapshots))


def target(value: int, partitioning: Partitioning, parallelism: int) -> int:
    if partitioning is not KEYED:
        return value % parallelism
    return int(key_groups_of([value], MAX_PARALLELISM)[0]) * parallelism // MAX_PARALLELISM


def replayed(graph: JobGraph, manifest: OperatorManifest, storage: CheckpointStorage) -> Iterator[Any]:
    """Subtask, channel and batch of everything that the subtasks of a graph replay."""
    (edge, origin), task = graph.inputs_of(graph.tasks[1])[0], graph.tasks[1]
    found = StoredExchange(edge, origin, frozenset({"up"}), manifest, task)
    per_subtask: dict[int, list[RecoveredChannel]] = {}
    for index, channel in found.recovered():
        per_subtask.setdefault(index, []).append(channel)
    for index, channels in per_subtask.items():
        for channel_id, element in recovered_elements(channels, storage):
            yield index, channel_id, element


PARALLELISM = st.integers(min_value=1, max_value=6)


@given(
    partitioning=st.sampled_from([KEYED, Partitioning.REBALANCE]),
    old=st.tuples(PARALLELISM, PARALLELISM),
    new=st.tuples(PARALLELISM, PARALLELISM),
    values=st.lists(st.integers(min_value=0, max_value=200), unique=True, max_size=40),
)
@settings(max_examples=60)
def test_every_record_goes_to_one_new_subtask_and_to_the_owner_of_its_key(
    partitioning: Partitioning, old: tuple[int, int], new: tuple[int, int], values: list[int]
) -> None:
    storage = MemoryCheckpointStorage()
    old_graph, _ = exchange(partitioning, *old)
    old_plan = build_execution_graph(old_graph)
    subtasks = [old_plan.subtasks[SubtaskId("task-2", index)] for index in range(old[1])]
    manifest = stored_by(subtasks, storage, values)
    graph, _ = exchange(partitioning, *new)
    plan = build_execution_graph(graph)
    seen: list[int] = []
    for index, channel, batch in replayed(graph, manifest, storage):
        inputs = [one.channel for one in plan.subtasks[SubtaskId("task-2", index)].inputs]
        assert channel in inputs
        seen += batch.values
        assert batch.timestamps == [10 * value for value in batch.values]
        if partitioning is KEYED:
            assert list(batch.keys) == batch.values
            assert {target(value, KEYED, new[1]) for value in batch.values} <= {index}
    assert sorted(seen) == sorted(values)


def test_records_in_columns_go_to_the_new_owners_of_their_keys() -> None:
    def as_columns(values: list[int], times: list[int], keys: Any) -> ColumnBatch:
        # A column partitioner sends no keys: they are a column.
        return ColumnBatch(pa.record_batch({"number": pa.array(values, pa.int64())}), times)

    storage, values = MemoryCheckpointStorage(), list(range(100))
    old_plan = build_execution_graph(exchange(KEYED, 1, 2)[0])
    subtasks = [old_plan.subtasks[SubtaskId("task-2", index)] for index in range(2)]
    manifest = stored_by(subtasks, storage, values, as_columns)
    found = list(replayed(exchange(KEYED, 1, 3)[0], manifest, storage))
    assert sorted(value for *_, batch in found for (value,) in batch.rows()) == values
    for index, _, batch in found:
        assert {target(value, KEYED, 3) for (value,) in batch.rows()} == {index}
        assert list(batch.timestamps) == [10 * value for (value,) in batch.rows()]


def test_records_of_another_edge_are_not_taken_for_those_of_this_one() -> None:
    file = FileHandle("f", 1, "")
    channel = ChannelRange("up", 0, 0, 1, "hash", 0, 1)
    graph, edge = exchange(KEYED, 1, 1)
    manifest = OperatorManifest(
        "down", "down", MAX_PARALLELISM, (OperatorSnapshot(channels=ChannelStateHandle(file, (channel,))),)
    )
    origin = EdgeOrigin("up", 0, 1, KEYED)
    this = StoredExchange(edge, origin, frozenset({"up", "earlier"}), manifest, graph.tasks[1])
    assert this.claims(channel)
    assert this.claims(replace(channel, upstream_uid="earlier"))
    assert not this.claims(replace(channel, upstream_uid="other"))
    assert not this.claims(replace(channel, ordinal=1))
    assert not this.claims(replace(channel, partitioning="rebalance"))
