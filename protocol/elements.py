"""What flows through channels: batches of records and, between them, control elements in order."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .ids import Attempt, ChannelId, CheckpointId

MAX_WATERMARK_MS = (1 << 63) - 1


class CheckpointingMode(enum.Enum):
    """Whether a task aligns its channels at a barrier or only counts barriers."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class SavepointFormatType(enum.Enum):
    """How a savepoint stores keyed state; both can be restored with every state backend."""

    CANONICAL = "canonical"
    """One file of all live entries per state and subtask: smaller, and quicker to restore."""
    NATIVE = "native"
    """Copies of the checkpoint's files as they are: quicker to take."""


class SnapshotKind(enum.Enum):
    """Why a snapshot is taken."""

    CHECKPOINT = "checkpoint"
    FINAL = "final"
    """The last one, after all input ended: it commits what two-phase sinks still hold."""
    SAVEPOINT = "savepoint"
    """Asked for by a person, who owns it: it replaces no checkpoint, and no checkpoint replaces it."""
    STOP = "stop"
    """The last one before the job stops where it stands: a savepoint, and what it holds is committed."""

    @property
    def ends_job(self) -> bool:
        """Whether nothing is processed after it."""
        return self in (SnapshotKind.FINAL, SnapshotKind.STOP)


@dataclass(slots=True, init=False)
class Batch:
    """Records that travel together: a `RowBatch` or a `ColumnBatch`.

    `Batch(values, timestamps, keys)` creates the variant for its values. A pickle names only this class, so
    that every version of a checkpoint can be read.

    Attributes:
        values: The records, in the form of the variant.
        timestamps: One event time in milliseconds per record (a list, or an array of 64-bit integers), `None`
            if they have none.
        keys: One key per record (a list, or a NumPy array of 64-bit integers), computed by the sender of a
            hash exchange so that the receiver need not call the key selector again; `None` if there are none.
    """

    values: Any
    timestamps: Sequence[int] | None = None
    keys: Any = None

    def __init__(self, values: Any, timestamps: Sequence[int] | None = None, keys: Any = None) -> None:
        # Not in `__new__`, which would also be called for each `RowBatch`.
        self.__class__ = RowBatch if isinstance(values, list) else ColumnBatch
        self.values = values
        self.timestamps = timestamps
        self.keys = keys

    def __len__(self) -> int:
        # An Arrow RecordBatch's own len() counts rows too.
        return len(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.values, self.timestamps, self.keys)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Restore a pickle of the time when there was one class for both variants."""
        Batch.__init__(self, **state[1])

    def rows(self) -> list[Any]:
        """The records as Python objects. Do not change the list: it may be the batch's own."""
        raise NotImplementedError

    def part(self, start: int, end: int) -> Batch:
        """The records from position `start` up to `end`, without it; all of them are the batch itself."""
        raise NotImplementedError

    def with_timestamps(self, timestamps: Sequence[int] | None) -> Batch:
        """The same records and keys with other event times."""
        return type(self)(self.values, timestamps, self.keys)

    def without_keys(self) -> Batch:
        """The same records and event times."""
        return type(self)(self.values, self.timestamps)

    def converted(self, convert: Callable[[list[Any]], Any]) -> Batch:
        """The same records with their Python objects converted by `convert`; columns have types of their own.

        Returns:
            The batch itself if `convert` returned the list that it was given.
        """
        raise NotImplementedError

    def has_form_of(self, other: Batch) -> bool:
        """Whether both are of one variant, and the same attributes are present: then they can be joined."""
        return (
            type(self) is type(other)
            and (self.timestamps is None) == (other.timestamps is None)
            and type(self.keys) is type(other.keys)
        )

    @property
    def column_bytes(self) -> int:
        """Size of the columns in memory; rows have none."""
        return 0

    @property
    def has_integer_keys(self) -> bool:
        """Whether the keys are an array of 64-bit integers."""
        return self.keys is not None and not isinstance(self.keys, list)

    def key_list(self) -> list[Any] | None:
        """The keys as Python objects, `None` if there are none."""
        keys: list[Any] | None = self.keys.tolist() if self.has_integer_keys else self.keys
        return keys


@dataclass(slots=True)
class RowBatch(Batch):
    """Records as Python objects, in the list `values`."""

    values: list[Any]

    def rows(self) -> list[Any]:
        return self.values

    def part(self, start: int, end: int) -> Batch:
        values, timestamps, keys = self.values, self.timestamps, self.keys
        if start == 0 and end >= len(values):
            return self
        # One call for each channel of an exchange, so it makes no others.
        return RowBatch(
            values[start:end],
            None if timestamps is None else timestamps[start:end],
            None if keys is None else keys[start:end],
        )

    def converted(self, convert: Callable[[list[Any]], Any]) -> Batch:
        converted = convert(self.values)
        if converted is self.values:
            return self
        return RowBatch(converted, self.timestamps, self.keys)


@dataclass(slots=True)
class ColumnBatch(Batch):
    """Records as the rows of the Arrow RecordBatch `values`."""

    def rows(self) -> list[Any]:
        """One tuple per row, made by each call."""
        return list(zip(*[column.to_pylist() for column in self.values.columns]))

    def part(self, start: int, end: int) -> Batch:
        values, timestamps, keys = self.values, self.timestamps, self.keys
        if start == 0 and end >= len(values):
            return self
        return ColumnBatch(
            values.slice(start, end - start),
            None if timestamps is None else timestamps[start:end],
            None if keys is None else keys[start:end],
        )

    def converted(self, convert: Callable[[list[Any]], Any]) -> Batch:
        return self

    def has_form_of(self, other: Batch) -> bool:
        # An Arrow table that has no rows has no batch.
        return (
            Batch.has_form_of(self, other)
            and len(self) > 0
            and bool(self.values.schema.equals(other.values.schema, check_metadata=True))
        )

    @property
    def column_bytes(self) -> int:
        size_bytes: int = self.values.nbytes
        return size_bytes


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with an event time at or before `timestamp_ms` is to be expected any more."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Nothing is to be awaited from this channel (idle), or something is again.

    Records of an idle channel are processed like others. A restart makes every channel active again.
    """

    is_idle: bool


@dataclass(frozen=True, slots=True)
class SavepointTarget:
    """Where a savepoint goes, and how. In a request `directory` is to hold it; in a barrier it is its own."""

    directory: str
    format: SavepointFormatType = SavepointFormatType.CANONICAL
    inline_threshold_bytes: int = 20 << 10
    """The largest file that lies in the manifest instead of in a file of its own."""


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the records before checkpoint `checkpoint_id` from those after it."""

    checkpoint_id: CheckpointId
    timestamp_ms: int
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    trace_context: str | None = None
    """W3C traceparent of the checkpoint's root span."""
    aligned_timeout_ms: int | None = None
    """How long after `timestamp_ms` the barrier may overtake records: 0 at once, `None` never."""
    savepoint: SavepointTarget | None = None
    """Where tasks store a copy of their state that depends on no checkpoint."""
    mode: CheckpointingMode | None = None
    """Whether tasks align at this barrier, if that may have changed since the one before."""
    oldest_pending: CheckpointId | None = None
    """The oldest checkpoint that was under way when this one was triggered: nobody waits for older ones."""


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """An upstream task could not snapshot: stop aligning for this checkpoint."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Nothing more comes on this channel, barriers included."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Means nothing: its number shows the receiver how many messages were sent before it.

    A marker that was lost is noticed by a gap before a later message. After the last for now there is none.
    """


Marker = CheckpointBarrier | CancelCheckpointMarker
"""What travels as an actor message; all else takes the direct connection between two processes."""
ControlElement = Watermark | WatermarkStatus | CheckpointBarrier | CancelCheckpointMarker | EndOfInput
StreamElement = Batch | ControlElement
Announced = CheckpointBarrier | CancelCheckpointMarker | EndOfInput | Probe
"""What a channel tells of as soon as it has arrived."""


@dataclass(slots=True)
class Message:
    """What a transport carries: some elements of one channel, numbered without gaps from 0.

    `size_bytes` is the estimate that credit is counted in; markers and probes need none. A barrier, a cancel
    marker and the end of input travel alone, and the message says so: the receiver may have to know of them
    before their turn, and without decoding what is before them. So does a probe, which has no elements.

    Markers have a carrier of their own, on which they may overtake other messages, each other included, and
    get lost. All other messages of a channel arrive once and in order. `follows` is the number of the marker
    before this one: so the receiver can tell a marker that is lost from a message that is under way.
    """

    attempt: Attempt
    channel: ChannelId
    sequence_number: int
    elements: list[StreamElement]
    size_bytes: int
    announces: Announced | None = None
    follows: int = -1
