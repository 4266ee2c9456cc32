"""What a seed decides before anything runs: the job's shape, its settings, and what goes wrong when.

A plan is data, so that a failing seed can be tried again with a simpler plan (`shrink`). The order in
which events happen is not in it: that comes from the `SimulatedScheduler` of the same seed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ...protocol.elements import CheckpointingMode
from ...protocol.scheduling.partitioning import Partitioning
from ...protocol.scheduling.plan import Chaining
from .faults.stalls import Stall

MILLISECOND = 1_000_000
MAX_PARALLELISM = 8
MODES = {
    "exactly-once": CheckpointingMode.EXACTLY_ONCE,
    "unaligned": CheckpointingMode.EXACTLY_ONCE,
    "aligned at first": CheckpointingMode.EXACTLY_ONCE,
    "at-least-once": CheckpointingMode.AT_LEAST_ONCE,
}
"""The checkpointing modes that are simulated, by the name a plan has them under."""
ALIGNED_TIMEOUTS_MS = {"unaligned": 0, "aligned at first": 10}
"""After how long barriers may overtake, in the modes in which they may; one checkpoint at a time there."""


class StageKind(enum.Enum):
    """What the operators of a stage do."""

    SOURCE = "source"
    MAP = "map"
    """Keeps nothing."""
    COUNT = "count"
    """Counts records by key, in keyed state."""
    JOIN = "join"
    """Counts the records of two inputs by key; the second input may be broadcast."""
    BUFFER = "buffer"
    """Holds some records back, in operator state of all three modes."""
    DELAY = "delay"
    """Holds records back by key, until a timer lets them go."""
    SHARE = "share"
    """Gets every record and keeps its share."""
    SINK = "sink"


@dataclass(frozen=True)
class Link:
    """An input of a stage: the number of the stage it comes from, and how."""

    stage: int
    partitioning: Partitioning
    input_index: int = 0


@dataclass(frozen=True)
class Stage:
    """One operator of the job.

    `states` are the kinds of keyed state it has besides its count. A skewed stage gets most records
    under one key.
    """

    uid: str
    kind: StageKind
    inputs: tuple[Link, ...] = ()
    states: tuple[str, ...] = ()
    keys: int = 5
    is_skewed: bool = False
    chaining: Chaining = Chaining.ALWAYS
    has_transactions: bool = False
    """Of a sink: whether what it writes is in a transaction from the start, or only from the barrier."""
    is_timed: bool = False
    """Of a delay: whether it ends after some milliseconds, or only with event time."""

    @property
    def follows(self) -> int | None:
        """The stage whose parallelism it must have, if any."""
        forward = (link.stage for link in self.inputs if link.partitioning is Partitioning.FORWARD)
        return next(forward, None)


class Ending(enum.Enum):
    """How one run of the job makes room for the next, which may have another parallelism."""

    CANCEL = "cancel"
    """Cancelled; another job starts from the newest checkpoint that is kept."""
    REPLACE = "replace"
    """Its coordinator dies, and comes back with the graph of the next run."""
    STOP = "stop"
    """Stopped with a savepoint, from which another job starts."""
    DRAIN = "drain"
    """The same, after its sources were told to end."""
    GO_BACK = "go back"
    """Cancelled; another job starts from the newest savepoint, with the outside world as it was then."""
    ABANDON = "abandon"
    """Its driver is killed; another job starts from its latest checkpoint, while its processes live on."""


@dataclass(frozen=True)
class Handover:
    """What becomes of the checkpoint or savepoint from which the next job starts.

    Attributes:
        is_claimed: Whether the job owns it from then on.
        is_moved: Whether a savepoint is moved to another directory before.
        is_removed: Whether its owner removes it as soon as the job has a checkpoint of its own.
        is_native: The format of the savepoint that a run is stopped with.
        may_be_new: Whether the next job starts from nothing if there is no checkpoint yet.
    """

    is_claimed: bool = False
    is_moved: bool = False
    is_removed: bool = False
    is_native: bool = False
    may_be_new: bool = False


@dataclass(frozen=True)
class Run:
    """One run of the job; without `ends_at`, the number of events after which it ends, the last one."""

    parallelism: tuple[int, ...]
    ends_at: int | None = None
    ending: Ending = Ending.CANCEL
    handover: Handover = Handover()


class Ask(enum.Enum):
    """What a person asks of a running job."""

    CHECKPOINT = "checkpoint"
    CANONICAL = "canonical savepoint"
    NATIVE = "native savepoint"
    MODE = "mode"
    RESCALE = "rescale"


@dataclass(frozen=True)
class Request:
    """One request, after so many events; of a change of mode, with the name of the mode; of a rescale, with
    the parallelism of every stage."""

    at: int
    ask: Ask = Ask.CHECKPOINT
    mode: str = ""
    parallelism: tuple[int, ...] = ()


class Victim(enum.Enum):
    """What crashes, and how."""

    TASK = "task"
    """A task process, between two steps."""
    TASK_INSIDE = "task inside"
    """The task that makes the n-th call to its shell, in the middle of its step."""
    COORDINATOR = "coordinator"
    """The coordinator, between two events."""
    COORDINATOR_INSIDE = "coordinator inside"
    """The coordinator at its n-th call to shell or storage, in the middle of an event."""
    PARTITIONED = "partitioned"
    """The coordinator counts as dead, but goes on for a while, beside its successor."""


@dataclass(frozen=True)
class Crash:
    """`at` counts events, or calls for the victims that die inside a step."""

    victim: Victim
    at: int


@dataclass(frozen=True)
class Faults:
    """How hostile the world is: probabilities, and the crashes."""

    duplicate: float = 0.03
    lost_notification: float = 0.05
    refused_notification: float = 0.0
    """How often a function raises when it is told that a checkpoint is complete."""
    lost_trigger: float = 0.0
    losses: int = 0
    """How many messages, reports and numbered mails the network loses, each without a word."""
    lost_connection: float = 0.01
    """How often the direct connection between two processes is lost while a message is on its way."""
    zombie_work: float = 0.5
    slow_channel: float = 0.0
    slow_task: float = 0.0
    failed_write: float = 0.0
    damaged_copy: float = 0.0
    """How often a local copy of a file is lost or damaged between two attempts."""
    crashes: tuple[Crash, ...] = ()
    power_failures: tuple[int, ...] = ()
    """After how many events all machines lose their power."""
    repeated_crash: float = 0.0
    """How often a task dies again soon after the job has recovered."""
    no_room: float = 0.0
    """How often the cluster has no room for another parallelism."""
    crash_at_stop: float = 0.0
    """How often somebody dies soon after the job was asked to stop."""
    stalls: tuple[Stall, ...] = ()
    """Coordinators that stop for a time, and may be replaced meanwhile."""
    crash_at_rescale: float = 0.0
    """How often somebody dies soon after the job was asked to have another parallelism."""
    lost_manifest: float = 0.0
    """How often the newest manifest is missing when a coordinator starts again, until it is restored."""
    failed_starts: int = 0
    """How many times a source cannot be opened."""


@dataclass(frozen=True)
class Settings:
    """The settings of the job that a seed varies."""

    mode: str
    interval_ms: int | None
    min_pause_ms: int
    timeout_ms: int
    max_concurrent: int
    inline_threshold_bytes: int
    num_retained: int
    restart_delay_ms: int
    batch_size: int
    buffer_timeout_ms: int
    channel_credit_bytes: int
    on_disk: bool
    max_buffered_bytes: int | None
    keeps_copies: bool
    """Whether tasks keep copies of their files on the disk of the machine that they are on."""


@dataclass(frozen=True)
class Plan:
    """Everything a seed decides beforehand."""

    seed: int
    stages: tuple[Stage, ...]
    splits: int
    """Splits of each source."""
    records: int
    """Records of each split."""
    runs: tuple[Run, ...]
    settings: Settings
    faults: Faults
    requests: tuple[Request, ...] = ()
    shares_processes: bool = False
    """Whether the subtasks of a slot run in one process."""
    holds_credit: bool = False
    """Whether tasks give the credit of small messages back together."""

    @property
    def is_exactly_once(self) -> bool:
        """Whether every record counts exactly once."""
        modes = {self.settings.mode, *(each.mode for each in self.requests if each.ask is Ask.MODE)}
        return {MODES[mode] for mode in modes} == {CheckpointingMode.EXACTLY_ONCE}

    @property
    def sources(self) -> list[Stage]:
        """The stages without input."""
        return [stage for stage in self.stages if stage.kind is StageKind.SOURCE]
