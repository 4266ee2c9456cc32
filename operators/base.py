"""The operator: what a task chains and drives."""

from __future__ import annotations

import io
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from ..common.errors import ConfigurationError, StateMigrationError, TidegateError, UserCodeError
from ..common.type_system.type_conversion import shortened
from ..common.typeinfo import TypeInformation
from ..protocol.checkpoints.handles import KeyedStateHandle, OperatorSnapshot
from ..protocol.elements import Batch, CheckpointBarrier, Watermark, WatermarkStatus
from ..protocol.ids import Attempt, CheckpointId, JobId
from ..protocol.source_events import CoordinatorEvent, ReaderEvent, SourceEventSent
from ..protocol.stages.epoch_messages import FromLeader, ToLeader
from ..protocol.stages.stage_reports import StageReport
from ..protocol.watermarks import WatermarkValve
from ..state.backend import FrozenKeyedState, KeyedStateBackend
from ..state.claims import Unclaimed, unclaimed_error, unclaimed_warning
from ..state.keyed.raw_state import (
    RAW_OPERATOR,
    FrozenRawKeyedState,
    RawKeyedState,
    RawKeyedStateOutput,
    RawOperatorStateOutput,
    split_raw,
)
from ..state.operator.operator_state_backend import FrozenOperatorState, OperatorStateBackend
from ..state.ttl.expiration import Expiration
from ..telemetry import AttributeValue
from ..telemetry.metrics import MetricGroup, MetricRegistry
from .async_io.async_loop import EventLoopThread, SharedEventLoop
from .output import Emit, Output
from .timers.processing_time import ProcessingTimeService
from .typed_output import OutputTypes

logger = logging.getLogger(__name__)


class ResultPort(Protocol):
    """Where an operator hands records to the driver."""

    def offer(self, key: str, values: list[Any]) -> None:
        """Send records; `key` makes a repeated delivery recognisable."""

    def unconfirmed(self) -> int:
        """How many of the last offers the driver may not have received yet."""

    def has_credit(self) -> bool:
        """Whether the driver has taken enough of what was offered before."""


def _no_coordinator(event: ReaderEvent | ToLeader) -> None:
    raise ConfigurationError("only a source with an enumerator, or a stage, has a half in the coordinator")


@dataclass(frozen=True, slots=True)
class Work:
    """Something that an operator did, for the trace of the checkpoint that it was part of.

    Attributes:
        name: Of its span, see `telemetry.spans`.
        started_ns: Wall-clock time, as `ended_ns`.
        parts: What it consisted of.
    """

    name: str
    started_ns: int
    ended_ns: int
    attributes: Mapping[str, AttributeValue]
    parts: tuple[Work, ...] = ()


def _no_trace(work: Work) -> None:
    """Nobody traces."""


@dataclass
class OperatorContext:
    """One operator's place in the job, and the services it may use.

    Attributes:
        is_checkpointing: Whether checkpoints or savepoints can be taken at all.
        takes_checkpoints: Whether checkpoints are taken, and not only savepoints on request.
        processing_time: Runs actions at a time of day, on the task's loop.
        event_loop: The event loop that the async functions of the task share.
        mailbox: Hands an action over to the task's loop, from any thread; it runs between two elements.
    """

    operator_uid: str
    operator_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt: Attempt
    attempt_number: int
    is_checkpointing: bool
    is_restored: bool
    now_ms: Callable[[], int]
    create_keyed_backend: Callable[[TypeInformation | None], KeyedStateBackend]
    operator_state: OperatorStateBackend
    local_dir: str
    results: ResultPort
    processing_time: ProcessingTimeService = field(kw_only=True)
    mailbox: Callable[[Callable[[], None]], None] = field(kw_only=True)
    event_loop: SharedEventLoop = field(
        default_factory=lambda: SharedEventLoop(EventLoopThread, "task"), kw_only=True
    )
    takes_checkpoints: bool = True
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    job_id: JobId = field(default=JobId(""))
    restored_checkpoint_id: CheckpointId | None = None
    raw_keyed: RawKeyedState | None = None
    cached_files: Mapping[str, str] = field(default_factory=dict)
    """Where the files that travelled with the job are, by name."""
    is_batch: bool = False
    """Whether every source ends and only final results are wanted."""
    metrics: MetricGroup = field(default_factory=lambda: MetricGroup(MetricRegistry(), ()))
    auto_watermark_interval_ms: int = 200
    send_to_coordinator: Callable[[ReaderEvent | ToLeader], None] = _no_coordinator
    trace_work: Callable[[Work], None] = _no_trace
    """Takes what belongs into the trace of the next checkpoint; on the task's loop."""

    @property
    def expects_checkpoints(self) -> bool:
        """Whether checkpoints follow by themselves, so that a sink may wait for the next one."""
        return self.is_checkpointing and self.takes_checkpoints

    def send_source_event(self, event: Any) -> None:
        """Send something (picklable) to `SplitEnumerator.handle_source_event` of this source."""
        self.send_to_coordinator(SourceEventSent(event))

    @property
    def name_with_subtask(self) -> str:
        """`name (1/2)`: the operator's name, the subtask's number from 1, the parallelism."""
        return f"{self.operator_name} ({self.subtask_index + 1}/{self.parallelism})"


@dataclass(slots=True)
class FrozenOperator:
    """The synchronous part of one operator's snapshot; `persist` is the asynchronous part."""

    frozen_keyed: FrozenKeyedState | None
    frozen_lists: FrozenOperatorState
    raw_keyed: FrozenRawKeyedState | None = None

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to write, so that `persist` takes no time."""
        return self.frozen_keyed is None and self.raw_keyed is None and self.frozen_lists.is_trivial

    @property
    def expiration(self) -> Expiration:
        """What of the keyed state is expired."""
        return Expiration() if self.frozen_keyed is None else self.frozen_keyed.expiration

    def persist(self) -> OperatorSnapshot:
        """Write what was frozen; runs off the task's thread."""
        keyed = KeyedStateHandle() if self.frozen_keyed is None else self.frozen_keyed.persist()
        if self.raw_keyed is not None:
            keyed = self.raw_keyed.persist(keyed)
        return OperatorSnapshot(keyed, self.frozen_lists.persist())


class EventTimeTimers(ABC):
    """The event-time timers of an operator, some of which fire before a watermark goes on."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether some are due that have yet to fire: `advance_further` is to be called, and nothing else."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many timers are registered, in event time and in processing time."""

    @abstractmethod
    def advance_watermark(self, timestamp_ms: int) -> None:
        """Fire the timers up to a time, or the first of them if there are many."""

    @abstractmethod
    def advance_further(self) -> None:
        """Fire the next of those that are due."""


class StreamOperator(ABC):
    """Processes batches and takes part in snapshots.

    An instance travels pickled from the driver; `setup` is its first call in a task. All calls come
    from one thread, one at a time.

    Attributes:
        input_count: How many inputs the operator has; `process_batch` tells them by their index.
        output: Where it sends watermarks and side outputs.
        emit: Where it sends records of the main output: `output.emit`.
        output_types: What the program declared about its outputs; emitted records are held to it.
        keeps_type: Whether it emits records that it was given as they are, so that nobody need look again.
        hinted_type: What annotations say about its main output, where they do. It is not enforced.
        timer_services: Its event-time timers, if it has some; set in `open`. They fire after
            `advance_watermark` and before the watermark is sent on.
    """

    input_count: int = 1
    output_types: OutputTypes = OutputTypes()
    keeps_type: bool = False
    hinted_type: TypeInformation | None = None
    context: OperatorContext
    output: Output
    emit: Emit
    keyed: KeyedStateBackend | None = None
    timer_services: EventTimeTimers | None = None
    _unkeyed: Sequence[Unclaimed] = ()

    def validate(self) -> None:
        """Called in the driver before the job starts: raise `ConfigurationError` if it cannot run."""

    def validate_checkpointing(self, interval_ms: int | None, timeout_ms: int) -> None:
        """Called behind `validate` if the job takes checkpoints; `interval_ms` of `None`: only on request."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Bind to the subtask; state is not there yet."""
        self.context = context
        self.output = output
        if not self.keeps_type:
            output.hold_to(self.output_types, f"operator {context.name_with_subtask}")
        self.emit = output.emit
        self._event_time = WatermarkValve(self.input_count)
        self._changes: deque[Watermark | WatermarkStatus] = deque()

    def restore(self, snapshot: OperatorSnapshot, owned: bool) -> None:
        """Take over stored state, before `open`.

        Args:
            snapshot: What is stored for this subtask.
            owned: False when the files belong to another job.
        """
        keyed, raw = split_raw(snapshot.keyed)
        lists = self.context.operator_state
        lists.restore(snapshot.lists, owned)
        if self.keyed is not None:
            self.keyed.restore(keyed, owned)
        else:
            # Nothing carries this on, so all of it is lost, whatever the mark says.
            names = {segment.state_name for segment in keyed.segments if segment.entry_count}
            self._unkeyed = [Unclaimed(name, True, ()) for name in sorted(names)]
        try:
            if raw:
                self.restore_raw_keyed(self._raw_keyed().streams(raw))
            if any(handle.state_name == RAW_OPERATOR.name and handle.parts for handle in snapshot.lists):
                self.restore_raw_operator(map(io.BytesIO, lists.get_list_state(RAW_OPERATOR).get()))
        except Exception as error:
            raise self.user_error("restoring raw state", error) from error

    def restore_raw_keyed(self, streams: Iterable[tuple[int, BinaryIO]]) -> None:
        """Take over raw keyed state; called before `open` when there is some.

        Args:
            streams: Key groups of this subtask and what `snapshot_raw_keyed` wrote for each. Streams are
                read one after the other, so each is to be read before the next is asked for.
        """
        raise self._unclaimed("raw keyed state", "restore_raw_keyed")

    def restore_raw_operator(self, partitions: Iterable[BinaryIO]) -> None:
        """Take over partitions of raw operator state; called before `open` when there are some."""
        raise self._unclaimed("raw operator state", "restore_raw_operator")

    def _unclaimed(self, what: str, method: str) -> StateMigrationError:
        return StateMigrationError(
            f"operator {self.context.name_with_subtask}: the checkpoint holds {what}, but "
            f"{type(self).__name__} has no {method}(); add it, or give the operator a new uid()"
        )

    def open(self) -> None:
        """State is restored: prepare for the first record."""

    def opened(self) -> None:
        """`open` has returned. Snapshots say which states it declared."""
        self.context.operator_state.opened()
        if self.keyed is not None:
            self.keyed.opened()

    def check_claimed(self, is_allowed: bool) -> None:
        """Compare what was restored of another job with what the operator declares; after `opened`.

        Args:
            is_allowed: Whether restored state may be ignored.

        Raises:
            StateMigrationError: It would be ignored, and that is not allowed.
        """
        found = self.context.operator_state.unclaimed()
        found += self._unkeyed if self.keyed is None else self.keyed.unclaimed()
        where = f"operator {self.context.operator_name!r} (uid {self.context.operator_uid})"
        error = None if is_allowed else unclaimed_error(where, found)
        if error is not None:
            raise StateMigrationError(error)
        warning = unclaimed_warning(where, found, is_allowed)
        if warning is not None:
            logger.warning("%s", warning)

    def stage_report(self) -> StageReport | None:
        """The epochs of a stage, `None` of any other operator; may be called from any thread."""
        return None

    def declare_states(self) -> None:
        """Declare every state that `open` would, where only those are wanted and no job will run.

        By default that is `open`; operators that reach for the outside world there do less here.
        """
        self.open()

    @abstractmethod
    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Process records of one input and emit the results."""

    def process_watermark(self, timestamp_ms: int, input_index: int = 0) -> None:
        """An input's event time reached `timestamp_ms`, which is `MAX_WATERMARK_MS` at the end of its input.

        When the lowest of all inputs rises, `advance_watermark` is called and the watermark sent on.
        Operators that make watermarks of their own override this.
        """
        self._take_changes(self._event_time.on_watermark(input_index, timestamp_ms))

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """Nothing is to be awaited from an input for now, or something is again."""
        self._take_changes(self._event_time.on_status(input_index, is_idle))

    def _take_changes(self, changes: list[Watermark | WatermarkStatus]) -> None:
        self._changes += changes
        if not self.is_advancing:
            self._pass_changes()

    def _pass_changes(self) -> None:
        while self._changes:
            change = self._changes[0]
            if isinstance(change, Watermark):
                self.advance_watermark(change.timestamp_ms)
                if self.timer_services is not None:
                    self.timer_services.advance_watermark(change.timestamp_ms)
                    if self.timer_services.is_behind:
                        return
                self.output.emit_watermark(change.timestamp_ms)
            else:
                self.output.emit_status(change.is_idle)
            self._changes.popleft()

    @property
    def is_advancing(self) -> bool:
        """Whether a watermark has come that cannot go on yet, because many timers are due.

        The operator takes no records then; `advance_further` is to be called until it is over.
        """
        return self.timer_services is not None and self.timer_services.is_behind

    def advance_further(self) -> None:
        """Fire the next timers that are due; behind the last of them the watermark goes on."""
        assert self.timer_services is not None, "only an operator with timers is ever advancing"
        self.timer_services.advance_further()
        if not self.timer_services.is_behind:
            advanced = self._changes.popleft()
            assert isinstance(advanced, Watermark)
            self.output.emit_watermark(advanced.timestamp_ms)
            self._pass_changes()

    def advance_watermark(self, timestamp_ms: int) -> None:
        """The operator's event time reached `timestamp_ms`: emit what that completes.

        What is emitted here, and by timers after it, comes before the watermark.
        """

    @property
    def current_watermark_ms(self) -> int:
        """The operator's event time; `MIN_WATERMARK_MS` before the first watermark."""
        return self._event_time.current_ms

    def is_ready(self) -> bool:
        """Whether the operator can take a batch now (a sink may have to wait)."""
        return True

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        """The last chance to emit before the barrier. An error here fails the task."""

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        """The synchronous part of the snapshot: O(what changed), never O(state)."""
        raw_keyed = self._snapshot_raw_keyed()
        self._snapshot_raw_operator()
        frozen = self.keyed.freeze() if self.keyed is not None else None
        return FrozenOperator(frozen, self.context.operator_state.snapshot(), raw_keyed)

    def snapshot_raw_keyed(self, output: RawKeyedStateOutput) -> None:
        """Write raw keyed state: `output.start_new_key_group(n)`, then `output.write(data)`, and so on.

        Runs in the synchronous part. `state.serializers.key_hashing.key_group_of` gives a key's key group.
        """

    def snapshot_raw_operator(self, output: RawOperatorStateOutput) -> None:
        """Write raw operator state: `output.start_new_partition()`, then `output.write(data)`, and so on."""

    def _snapshot_raw_keyed(self) -> FrozenRawKeyedState | None:
        if type(self).snapshot_raw_keyed is StreamOperator.snapshot_raw_keyed:
            return None
        state = self._raw_keyed()
        output = state.new_output()
        try:
            self.snapshot_raw_keyed(output)
        except Exception as error:
            raise self.user_error("snapshot_raw_keyed()", error) from error
        return FrozenRawKeyedState(state, output)

    def _snapshot_raw_operator(self) -> None:
        if type(self).snapshot_raw_operator is StreamOperator.snapshot_raw_operator:
            return
        output = RawOperatorStateOutput(f"operator {self.context.name_with_subtask}")
        try:
            self.snapshot_raw_operator(output)
        except Exception as error:
            raise self.user_error("snapshot_raw_operator()", error) from error
        self.context.operator_state.get_list_state(RAW_OPERATOR).update(output.partitions)

    def _raw_keyed(self) -> RawKeyedState:
        assert self.context.raw_keyed is not None, "a task gives every operator its raw keyed state"
        return self.context.raw_keyed

    def handle_coordinator_event(self, event: CoordinatorEvent | FromLeader) -> None:
        """The operator's half in the coordinator said something."""
        raise AssertionError(f"{self.context.name_with_subtask} has no half in the coordinator")

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete, perhaps an earlier one than this operator's latest."""

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete."""

    def is_drained(self) -> bool:
        """Whether nothing is under way any more; asked after the end of input, until it is so."""
        return True

    def finish(self) -> None:
        """All input ended, `MAX_WATERMARK_MS` has come and `is_drained`: emit what is still held."""

    def close(self) -> None:
        """Release everything; called once, also after a failure, and also when `setup` failed."""
        self.context.metrics.close()
        self.context.operator_state.close()
        if self.keyed is not None:
            self.keyed.close()

    def user_error(self, action: str, error: BaseException, record: object = None) -> TidegateError:
        """The error to raise when user code failed in `action`. Errors of our own pass unchanged."""
        if isinstance(error, TidegateError):
            return error
        shown = f" on the record {shortened(record)}" if record is not None else ""
        raised = UserCodeError(
            f"operator {self.context.name_with_subtask}: {action} raised "
            f"{type(error).__name__}: {error}{shown}"
        )
        raised.record = record
        return raised
