"""Harnesses: a user's function, or a part of a job, run by hand without a job around it.

Elements go in one by one, time passes when the test says so, and what came out is there to be looked at
when the call returns. Everything between input and output is what runs in a job: the same operators, chains,
tasks, timers, state backends and snapshots.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.output_tag import OutputTag
from ..common.typeinfo import TypeInformation
from ..coordinator.restore.restore import check_restore, restored_state
from ..datastream import DataStream, HashMapStateBackend, StateBackend, StreamExecutionEnvironment
from ..protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ..protocol.elements import (
    MAX_WATERMARK_MS,
    CheckpointBarrier,
    EndOfInput,
    RowBatch,
    SnapshotKind,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import CheckpointId
from ..protocol.scheduling.execution_graph import build_execution_graph
from ..protocol.scheduling.plan import build_job_graph
from ..protocol.task_events import CheckpointAborted, CheckpointCompleted
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..state.storage.inline_storage import InlineStorage
from ..state.storage.memory_storage import MemoryCheckpointStorage
from .harness_tasks import HarnessTasks, harness_settings

H = TypeVar("H", bound="Harness")
_MAIN = "main"


@dataclass(frozen=True)
class HarnessSnapshot:
    """What a harness stored at a barrier; another harness of the same program can start from it."""

    manifest: CheckpointManifest
    storage: CheckpointStorage

    @property
    def checkpoint_id(self) -> int:
        """The number of its barrier."""
        return self.manifest.checkpoint_id


class Harness:
    """Runs the tasks between some inputs and one output; the other harnesses are short forms of it.

    Args:
        build: Takes one stream per input; returns the stream whose records are the output, or `None` or
            a sink where there is no output.
        input_count: How many inputs there are.
        parallelism: Subtasks of every operator that sets none itself. Records find their subtask as in
            a job.
        max_parallelism: Number of key groups.
        state_backend: Where keyed state lives; in memory by default.
        side_outputs: Tags of the output stream's side outputs, for `side_output`.
        restored: A snapshot to start from. Its harness may have had another parallelism.
        input_types: Types of the inputs' records, where operators need to know them.

    A harness is a context manager; `close` ends it. An error in user code is raised by the call that led
    to it.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        input_count: int = 1,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        state_backend: StateBackend | None = None,
        side_outputs: Sequence[OutputTag] = (),
        restored: HarnessSnapshot | None = None,
        input_types: Sequence[TypeInformation | None] = (),
    ) -> None:
        env = StreamExecutionEnvironment(Configuration())
        env.set_parallelism(parallelism).set_max_parallelism(max_parallelism)
        types = [*input_types, *[None] * (input_count - len(input_types))]
        inputs = [_input(env, number, types[number]) for number in range(input_count)]
        captures = _capture(build(*inputs), side_outputs)
        self._graph = build_job_graph(env.get_stream_graph("harness"))
        self._storage = (
            InlineStorage(MemoryCheckpointStorage(), None) if restored is None else restored.storage
        )
        self._local_dir = tempfile.TemporaryDirectory(prefix="tidegate-harness-")
        settings = harness_settings(
            state_backend=state_backend or HashMapStateBackend(),
            storage=self._storage,
            local_dir=self._local_dir.name,
        )
        state = None
        if restored is not None:
            check_restore(self._graph, restored.manifest, allow_non_restored_state=False)
            state = restored_state(self._graph, restored.manifest)
        by_uid = {node.uid: task.task_id for task in self._graph.tasks for node in task.nodes}
        self._tasks = HarnessTasks(
            build_execution_graph(self._graph),
            [by_uid[_input_uid(number)] for number in range(input_count)],
            {by_uid[_capture_uid(name)]: name for name in captures},
            settings,
            state,
            None if restored is None else restored.manifest.checkpoint_id,
        )
        self._checkpoint_id = 0 if restored is None else restored.checkpoint_id
        self._inputs = range(input_count)
        self._is_closed = False
        try:
            self._tasks.start()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------ what goes in

    def process_element(self, value: Any, timestamp: int | None = None, input_number: int = 0) -> None:
        """Send one record, with its event time in milliseconds if it has one."""
        self.process_elements([value], None if timestamp is None else [timestamp], input_number)

    def process_elements(
        self, values: Iterable[Any], timestamps: Sequence[int] | None = None, input_number: int = 0
    ) -> None:
        """Send records in one batch, with their event times in milliseconds if they have some."""
        self._tasks.feed(input_number, RowBatch(list(values), timestamps))

    def process_watermark(self, timestamp_ms: int, input_number: int | None = None) -> None:
        """Send a watermark into one input, or into all of them."""
        self._send(Watermark(timestamp_ms), input_number)

    def process_status(self, is_idle: bool, input_number: int | None = None) -> None:
        """Say that one input, or all of them, is idle, or active again."""
        self._send(WatermarkStatus(is_idle), input_number)

    def process_barrier(self, checkpoint_id: int, input_number: int | None = None) -> None:
        """Send the barrier of a checkpoint into one input, or into all of them; see also `snapshot`."""
        self._checkpoint_id = max(self._checkpoint_id, checkpoint_id)
        self._send(self._barrier(checkpoint_id), input_number)

    def end_input(self) -> None:
        """End all inputs: event time goes to its end, and functions finish."""
        self.process_watermark(MAX_WATERMARK_MS)
        self._send(EndOfInput(), None)

    def _send(self, element: Any, input_number: int | None) -> None:
        if input_number is None:
            self._tasks.feed_all(element)
        else:
            self._tasks.feed(input_number, element)

    # ------------------------------------------------------------ processing time

    @property
    def processing_time(self) -> int:
        """Milliseconds; a harness begins at 0."""
        return self._tasks.now_ns // 1_000_000

    def advance_processing_time(self, milliseconds: int) -> None:
        """Let processing time pass. What is due in between happens at its time, in order."""
        if milliseconds < 0:
            raise ConfigurationError(f"time cannot pass by {milliseconds} ms")
        self._tasks.advance(milliseconds)

    # ------------------------------------------------------------ what came out

    def records(self) -> list[tuple[Any, int | None]]:
        """The records of the output so far, with their timestamps."""
        return list(self._tasks.captured[_MAIN].records)

    def output(self) -> list[Any]:
        """The records of the output so far."""
        return [value for value, _ in self._tasks.captured[_MAIN].records]

    def take_output(self) -> list[Any]:
        """The records of the output since the last call."""
        values = self.output()
        self._tasks.captured[_MAIN].records.clear()
        return values

    def side_output(self, tag: OutputTag) -> list[Any]:
        """The records of a side output so far."""
        captured = self._tasks.captured.get(_side(tag))
        if captured is None:
            raise ConfigurationError(f"name {tag.tag_id!r} in side_outputs=[...] of the harness to see it")
        return [value for value, _ in captured.records]

    def watermarks(self) -> list[int]:
        """The watermarks of the output so far."""
        elements = self._tasks.captured[_MAIN].elements
        return [element.timestamp_ms for element in elements if isinstance(element, Watermark)]

    def statuses(self) -> list[bool]:
        """Whenever the output became idle (true) or active again (false), so far."""
        elements = self._tasks.captured[_MAIN].elements
        return [element.is_idle for element in elements if isinstance(element, WatermarkStatus)]

    def barriers(self) -> list[int]:
        """The checkpoints whose barriers reached the output so far."""
        elements = self._tasks.captured[_MAIN].elements
        return [element.checkpoint_id for element in elements if isinstance(element, CheckpointBarrier)]

    # ------------------------------------------------------------ state

    def get_state(self, name: str, key: Any, namespace: Any = None) -> Any:
        """What a keyed state holds for a key; a copy. `None` where there is nothing.

        Raises:
            StateError: No operator has such a state.
        """
        return self._tasks.query(name, key, namespace)

    def snapshot(
        self, checkpoint_id: int | None = None, kind: SnapshotKind = SnapshotKind.CHECKPOINT
    ) -> HarnessSnapshot:
        """Send a barrier through, and return what was stored at it."""
        number = CheckpointId(self._checkpoint_id + 1 if checkpoint_id is None else checkpoint_id)
        self._checkpoint_id = max(self._checkpoint_id, number)
        self._tasks.reports.clear()
        self._tasks.feed_all(self._barrier(number, kind))
        return HarnessSnapshot(self._manifest(number), self._storage)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell all functions that a checkpoint is complete."""
        self._tasks.mail(CheckpointCompleted(CheckpointId(checkpoint_id)))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell all functions that a checkpoint will not complete."""
        self._tasks.mail(CheckpointAborted(CheckpointId(checkpoint_id)))

    def _barrier(self, checkpoint_id: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> CheckpointBarrier:
        return CheckpointBarrier(CheckpointId(checkpoint_id), self.processing_time, kind)

    def _manifest(self, checkpoint_id: CheckpointId) -> CheckpointManifest:
        stored = self._tasks.snapshots(checkpoint_id)
        operators = {}
        for task in self._graph.tasks:
            for node in task.nodes:
                parts = [
                    each[node.uid]
                    for subtask, each in sorted(stored.items())
                    if subtask.task_id == task.task_id
                ]
                if parts:
                    operators[node.uid] = OperatorManifest(
                        node.uid, node.name, node.max_parallelism, tuple(parts)
                    )
        now_ms = self.processing_time
        return CheckpointManifest(
            "harness", "harness", checkpoint_id, SnapshotKind.CHECKPOINT, now_ms, now_ms, operators
        )

    # ------------------------------------------------------------ life cycle

    def close(self) -> None:
        """Close all functions. A harness can be closed twice."""
        if not self._is_closed:
            self._is_closed = True
            self._tasks.abandon()
            self._local_dir.cleanup()

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _input_uid(number: int) -> str:
    return f"harness input {number}"


def _capture_uid(name: str) -> str:
    return f"harness output {name}"


def _side(tag: OutputTag) -> str:
    return f"side {tag.tag_id}"


def _input(env: StreamExecutionEnvironment, number: int, type_info: TypeInformation | None) -> DataStream:
    stream = env.from_collection([], type_info)
    return stream.uid(_input_uid(number)).disable_chaining()


def _capture(result: Any, side_outputs: Sequence[OutputTag]) -> list[str]:
    """End the streams that are to be looked at; their names."""
    if not isinstance(result, DataStream):
        return []
    stream: Any = result
    streams = {_MAIN: stream, **{_side(tag): stream.get_side_output(tag) for tag in side_outputs}}
    for name, each in streams.items():
        sink = each.add_sink(_never_called).uid(_capture_uid(name)).disable_chaining()
        sink.set_parallelism(1)
    return list(streams)


def _never_called(value: Any) -> None:
    """The harness takes the records before they come here."""
