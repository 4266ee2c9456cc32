"""Options of checkpoints, state, restores and restarts, with Flink's keys, class names and defaults.

The page of all settings is generated from these declarations and the texts under them.
"""

from __future__ import annotations

from ..config_options import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    MEMORY,
    STRING,
    ConfigOption,
    choice,
)
from ..time import Duration

__all__ = [
    "CheckpointingOptions",
    "RestartStrategyOptions",
    "StateBackendOptions",
    "StateRecoveryOptions",
]


class CheckpointingOptions:
    """Checkpoints.

    When they are taken, where they go and how long they are kept: see [checkpointing](checkpointing.md).
    """

    CHECKPOINTING_INTERVAL = ConfigOption(
        "execution.checkpointing.interval",
        DURATION,
        None,
        least=Duration.of_millis(10),
        hint="leave it unset to take no checkpoints",
    )
    """Time between two triggers. Without it, the job takes no checkpoints."""
    CHECKPOINTING_CONSISTENCY_MODE = ConfigOption(
        "execution.checkpointing.mode", choice("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE"
    )
    """With `AT_LEAST_ONCE`, barriers are not aligned: records may be counted twice after a failure."""
    CHECKPOINTING_TIMEOUT = ConfigOption(
        "execution.checkpointing.timeout", DURATION, Duration.of_minutes(10), least=Duration.of_millis(10)
    )
    """A checkpoint that is not complete after this time is aborted."""
    MIN_PAUSE_BETWEEN_CHECKPOINTS = ConfigOption(
        "execution.checkpointing.min-pause", DURATION, Duration.of_millis(0)
    )
    """Least time from the *completion* of a checkpoint to the next periodic trigger."""
    MAX_CONCURRENT_CHECKPOINTS = ConfigOption(
        "execution.checkpointing.max-concurrent-checkpoints", INTEGER, 1, least=1
    )
    """Checkpoints in progress at once. Unaligned checkpoints require 1."""
    TOLERABLE_FAILURE_NUMBER = ConfigOption(
        "execution.checkpointing.tolerable-failed-checkpoints", INTEGER, 0, least=0
    )
    """Failed checkpoints in a row that do not fail the job."""
    MAX_RETAINED_CHECKPOINTS = ConfigOption(
        "execution.checkpointing.num-retained",
        INTEGER,
        1,
        least=1,
        deprecated_keys=("state.checkpoints.num-retained",),
    )
    """Completed checkpoints that are kept while the job runs."""
    CHECKPOINTS_DIRECTORY = ConfigOption(
        "execution.checkpointing.dir",
        STRING,
        None,
        deprecated_keys=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    )
    """Directory or URL under which each job creates its own directory. All processes must share it. A
    relative path starts from the driver's working directory."""
    SAVEPOINT_DIRECTORY = ConfigOption(
        "execution.checkpointing.savepoint-dir",
        STRING,
        None,
        deprecated_keys=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    )
    """Where savepoints are written if the request names no directory. It also allows savepoints in a job
    [without an interval](savepoints.md#without-checkpoints)."""
    CHECKPOINT_STORAGE = ConfigOption(
        "execution.checkpointing.storage",
        choice("filesystem", "jobmanager"),
        "filesystem",
        deprecated_keys=("state.checkpoint-storage",),
    )
    """`filesystem`: state goes to files. `jobmanager`: all state travels through the coordinator into the
    manifest."""
    JOBMANAGER_MAX_STATE_SIZE = ConfigOption(
        "tidegate.checkpointing.jobmanager.max-state-size", MEMORY, 5 << 20, least=1
    )
    """The largest file of state with `execution.checkpointing.storage: jobmanager`."""
    FS_SMALL_FILE_THRESHOLD = ConfigOption(
        "execution.checkpointing.data-inline-threshold",
        MEMORY,
        20 << 10,
        most=1 << 20,
        hint="the coordinator keeps such files in memory, and writes them into the manifest",
        deprecated_keys=("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
    )
    """Files of state up to this size go into the manifest."""
    LOCAL_BACKUP_ENABLED = ConfigOption("execution.checkpointing.local-backup.enabled", BOOLEAN, False)
    """Tasks keep [copies of their last snapshots](local-recovery.md) on local disk."""
    LOCAL_BACKUP_DIRS = ConfigOption(
        "execution.checkpointing.local-backup.dirs",
        STRING,
        None,
        deprecated_keys=("taskmanager.state.local.root-dirs",),
    )
    """Directory for the copies on local disk; `tidegate.local-dir` where it is not set."""
    EXTERNALIZED_CHECKPOINT_RETENTION = ConfigOption(
        "execution.checkpointing.externalized-checkpoint-retention",
        choice("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"),
        "NO_EXTERNALIZED_CHECKPOINTS",
    )
    """[What remains](checkpointing.md#what-stays-when-a-job-ends) of the checkpoints when the job is
    cancelled or fails."""
    RETAIN_ON_FINISH = ConfigOption("tidegate.checkpointing.retain-on-finish", BOOLEAN, False)
    """Whether the checkpoints of a job that finishes are kept. The latest one holds all its results."""
    CLEANER_PARALLEL_MODE = ConfigOption(
        "execution.checkpointing.cleaner.parallel-mode",
        BOOLEAN,
        True,
        deprecated_keys=("state.checkpoint.cleaner.parallel-mode",),
    )
    """Delete files of old checkpoints four at a time."""
    ENABLE_UNALIGNED = ConfigOption(
        "execution.checkpointing.unaligned.enabled",
        BOOLEAN,
        False,
        deprecated_keys=("execution.checkpointing.unaligned",),
    )
    """Barriers [may overtake records](unaligned-checkpoints.md), which are stored with the checkpoint."""
    FORCE_UNALIGNED = ConfigOption("execution.checkpointing.unaligned.forced", BOOLEAN, False)
    """Accepted and without effect: in Flink it concerns iterations, which Tidegate does not have."""
    ALIGNED_CHECKPOINT_TIMEOUT = ConfigOption(
        "execution.checkpointing.aligned-checkpoint-timeout",
        DURATION,
        Duration.of_millis(0),
        deprecated_keys=("execution.checkpointing.alignment-timeout",),
    )
    """How long an unaligned checkpoint first tries to align. With `0 ms`, barriers overtake at once."""
    ALIGNMENT_MAX_SIZE = ConfigOption(
        "tidegate.checkpointing.alignment.max-size",
        MEMORY,
        None,
        least=1,
        deprecated_keys=("task.checkpoint.alignment.max-size",),
    )
    """The most bytes that a task may [hold back or record](unaligned-checkpoints.md#bounded-alignment) for
    one checkpoint before it aborts the checkpoint. Without a limit, leave it out instead of setting `-1`."""
    SYNC_TO_DISK = ConfigOption("tidegate.checkpointing.sync-to-disk", BOOLEAN, True)
    """Checkpoints on a local or mounted disk survive a [power
    failure](checkpointing.md#after-a-power-failure)."""
    RANDOM_INITIAL_DELAY = ConfigOption("tidegate.checkpointing.random-initial-delay", BOOLEAN, True)
    """The first checkpoint waits for a random part of the interval, so that jobs spread out."""


class StateBackendOptions:
    """State.

    Where keyed state is kept: see [state](state.md).
    """

    STATE_BACKEND = ConfigOption("state.backend.type", STRING, "hashmap", deprecated_keys=("state.backend",))
    """Where keyed state is: `hashmap`, `filesystem` and `memory` keep it in memory, `lmdb` on local disk.
    `rocksdb` means `lmdb`."""
    LOCAL_RECOVERY = ConfigOption(
        "execution.state-recovery.from-local",
        BOOLEAN,
        False,
        deprecated_keys=("state.backend.local-recovery",),
    )
    """The same as `execution.checkpointing.local-backup.enabled`: either one switches on both."""
    LMDB_MEMORY = ConfigOption("tidegate.state.lmdb.memory", MEMORY, 512 << 20)
    """Memory for caches and write buffers of the `lmdb` backend, per operator and subtask; beyond it, state
    is on local disk ([tune](tune.md), [details](operator-state.md#memory-and-disk-of-the-lmdb-backend))."""


class StateRecoveryOptions:
    """Start from a checkpoint.

    Which checkpoint or savepoint a job starts from: see [savepoints](savepoints.md).
    """

    SAVEPOINT_PATH = ConfigOption(
        "execution.state-recovery.path", STRING, None, deprecated_keys=("execution.savepoint.path",)
    )
    """Checkpoint to start from, as `JobReport.newest_checkpoint` names it, a savepoint, `latest:<directory>`
    ([after a kill](savepoints.md#the-latest-checkpoint)), or `latest-if-any:<directory>` ([the same command
    line each time](savepoints.md#the-same-command-line-each-time))."""
    SAVEPOINT_IGNORE_UNCLAIMED_STATE = ConfigOption(
        "execution.state-recovery.ignore-unclaimed-state",
        BOOLEAN,
        False,
        deprecated_keys=("execution.savepoint.ignore-unclaimed-state",),
    )
    """Whether state that no operator claims may be dropped."""
    RESTORE_MODE = ConfigOption(
        "execution.state-recovery.claim-mode",
        choice("NO_CLAIM", "CLAIM"),
        "NO_CLAIM",
        deprecated_keys=("execution.savepoint-restore-mode",),
    )
    """`CLAIM`: the job owns the checkpoint that it starts from, and deletes it once it is no longer needed
    ([savepoints](savepoints.md))."""


class RestartStrategyOptions:
    """Restarts.

    What follows a failure: see [when the job fails](checkpointing.md#when-the-job-fails).
    """

    RESTART_STRATEGY = ConfigOption(
        "restart-strategy.type",
        choice("none", "off", "disable", "fixed-delay", "failure-rate", "exponential-delay"),
        None,
        deprecated_keys=("restart-strategy",),
    )
    """Whether and when a failed job [restarts](checkpointing.md#when-the-job-fails). Where it is not set:
    `exponential-delay` with checkpoints, otherwise `none`. `off` and `disable` mean `none`."""
    FIXED_DELAY_ATTEMPTS = ConfigOption("restart-strategy.fixed-delay.attempts", INTEGER, 1, least=0)
    """Restarts before the job fails."""
    FIXED_DELAY_DELAY = ConfigOption("restart-strategy.fixed-delay.delay", DURATION, Duration.of_seconds(1))
    """Pause before each restart."""
    FAILURE_RATE_MAX_FAILURES_PER_INTERVAL = ConfigOption(
        "restart-strategy.failure-rate.max-failures-per-interval", INTEGER, 1, least=1
    )
    """Failures in one interval that do not fail the job."""
    FAILURE_RATE_FAILURE_RATE_INTERVAL = ConfigOption(
        "restart-strategy.failure-rate.failure-rate-interval", DURATION, Duration.of_minutes(1)
    )
    """The interval in which failures are counted."""
    FAILURE_RATE_DELAY = ConfigOption("restart-strategy.failure-rate.delay", DURATION, Duration.of_seconds(1))
    """Pause before each restart."""
    EXPONENTIAL_DELAY_INITIAL_BACKOFF = ConfigOption(
        "restart-strategy.exponential-delay.initial-backoff",
        DURATION,
        Duration.of_seconds(1),
        least=Duration.of_millis(1),
    )
    """Pause before the first restart."""
    EXPONENTIAL_DELAY_MAX_BACKOFF = ConfigOption(
        "restart-strategy.exponential-delay.max-backoff",
        DURATION,
        Duration.of_minutes(1),
        least=Duration.of_millis(1),
    )
    """The longest pause."""
    EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER = ConfigOption(
        "restart-strategy.exponential-delay.backoff-multiplier", FLOAT, 1.5, least=1.0
    )
    """Growth of the pause with each failure."""
    EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD = ConfigOption(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DURATION,
        Duration.of_hours(1),
        least=Duration.of_millis(1),
    )
    """Time without failure after which the pause and the count of restarts start again."""
    EXPONENTIAL_DELAY_JITTER_FACTOR = ConfigOption(
        "restart-strategy.exponential-delay.jitter-factor", FLOAT, 0.1, least=0.0, most=1.0
    )
    """Share of the pause that is added or subtracted at random."""
    EXPONENTIAL_DELAY_ATTEMPTS = ConfigOption(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff", INTEGER, 2**31 - 1, least=1
    )
    """Restarts before the job fails, unless a time without failure resets the count."""
