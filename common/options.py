"""The options that Tidegate reads, with Flink's keys, class names and defaults."""

from __future__ import annotations

from collections.abc import Mapping

from .config_options import ConfigOption, ConfigOptions
from .elasticity_options import AutoscalerOptions, SchedulerOptions
from .network_options import NetworkOptions
from .time import Duration

__all__ = [
    "AutoscalerOptions",
    "CheckpointingOptions",
    "CoreOptions",
    "DataPlaneOptions",
    "DeploymentOptions",
    "ExecutionOptions",
    "HistoryServerOptions",
    "JobManagerOptions",
    "LogOptions",
    "MetricOptions",
    "NetworkOptions",
    "PipelineOptions",
    "RestOptions",
    "RestartStrategyOptions",
    "SchedulerOptions",
    "SparkOptions",
    "StateBackendOptions",
    "StateRecoveryOptions",
]


class CheckpointingOptions:
    """When checkpoints are taken, where they go and how long they stay."""

    CHECKPOINTING_INTERVAL: ConfigOption[Duration | None] = (
        ConfigOptions.key("execution.checkpointing.interval").duration_type().no_default_value()
    )
    """Time between two triggers; checkpoints are off where it is not set."""
    CHECKPOINTING_CONSISTENCY_MODE: ConfigOption[str] = (
        ConfigOptions.key("execution.checkpointing.mode")
        .choice_type("EXACTLY_ONCE", "AT_LEAST_ONCE")
        .default_value("EXACTLY_ONCE")
    )
    CHECKPOINTING_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("execution.checkpointing.timeout")
        .duration_type()
        .default_value(Duration.of_minutes(10))
    )
    """A checkpoint that is not complete after this time is aborted."""
    MIN_PAUSE_BETWEEN_CHECKPOINTS: ConfigOption[Duration] = (
        ConfigOptions.key("execution.checkpointing.min-pause")
        .duration_type()
        .default_value(Duration.of_millis(0))
    )
    """Least time between the completion of one checkpoint and the trigger of the next periodic one."""
    MAX_CONCURRENT_CHECKPOINTS: ConfigOption[int] = (
        ConfigOptions.key("execution.checkpointing.max-concurrent-checkpoints").int_type().default_value(1)
    )
    TOLERABLE_FAILURE_NUMBER: ConfigOption[int] = (
        ConfigOptions.key("execution.checkpointing.tolerable-failed-checkpoints").int_type().default_value(0)
    )
    """Failed checkpoints in a row that do not fail the job."""
    MAX_RETAINED_CHECKPOINTS: ConfigOption[int] = (
        ConfigOptions.key("execution.checkpointing.num-retained")
        .int_type()
        .default_value(1)
        .with_deprecated_keys("state.checkpoints.num-retained")
    )
    """Completed checkpoints that are kept."""
    CHECKPOINTS_DIRECTORY: ConfigOption[str | None] = (
        ConfigOptions.key("execution.checkpointing.dir")
        .string_type()
        .no_default_value()
        .with_deprecated_keys("state.checkpoints.dir", "state.backend.fs.checkpointdir")
    )
    """Directory or file system URL under which every job writes its checkpoints."""
    SAVEPOINT_DIRECTORY: ConfigOption[str | None] = (
        ConfigOptions.key("execution.checkpointing.savepoint-dir")
        .string_type()
        .no_default_value()
        .with_deprecated_keys("state.savepoints.dir", "savepoints.state.backend.fs.dir")
    )
    """Directory or file system URL in which savepoints are made if none is named."""
    CHECKPOINT_STORAGE: ConfigOption[str] = (
        ConfigOptions.key("execution.checkpointing.storage")
        .choice_type("filesystem", "jobmanager")
        .default_value("filesystem")
        .with_deprecated_keys("state.checkpoint-storage")
    )
    """`filesystem`: state goes to files; `jobmanager`: it travels to the coordinator, into the manifest."""
    JOBMANAGER_MAX_STATE_SIZE: ConfigOption[int] = (
        ConfigOptions.key("tidegate.checkpointing.jobmanager.max-state-size")
        .memory_type()
        .default_value(5 << 20)
    )
    """The most bytes that one file of a state may take when it travels to the coordinator."""
    FS_SMALL_FILE_THRESHOLD: ConfigOption[int] = (
        ConfigOptions.key("execution.checkpointing.data-inline-threshold")
        .memory_type()
        .default_value(20 << 10)
        .with_deprecated_keys("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold")
    )
    """The largest file of state that is kept in the checkpoint's manifest."""
    LOCAL_BACKUP_ENABLED: ConfigOption[bool] = (
        ConfigOptions.key("execution.checkpointing.local-backup.enabled").boolean_type().default_value(False)
    )
    """Whether tasks keep copies of their last snapshots on local disk and restart from them."""
    LOCAL_BACKUP_DIRS: ConfigOption[str | None] = (
        ConfigOptions.key("execution.checkpointing.local-backup.dirs")
        .string_type()
        .no_default_value()
        .with_deprecated_keys("taskmanager.state.local.root-dirs")
    )
    """Directory for those copies; `tidegate.local-dir` where it is not set."""
    EXTERNALIZED_CHECKPOINT_RETENTION: ConfigOption[str] = (
        ConfigOptions.key("execution.checkpointing.externalized-checkpoint-retention")
        .choice_type("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION")
        .default_value("NO_EXTERNALIZED_CHECKPOINTS")
    )
    """What happens to the kept checkpoints when the job is cancelled or fails."""
    RETAIN_ON_FINISH: ConfigOption[bool] = (
        ConfigOptions.key("tidegate.checkpointing.retain-on-finish").boolean_type().default_value(False)
    )
    """Whether the kept checkpoints of a job that finishes stay: the newest one holds all its results."""
    CLEANER_PARALLEL_MODE: ConfigOption[bool] = (
        ConfigOptions.key("execution.checkpointing.cleaner.parallel-mode")
        .boolean_type()
        .default_value(True)
        .with_deprecated_keys("state.checkpoint.cleaner.parallel-mode")
    )
    """Whether files of old checkpoints are deleted by several threads at once."""

    ENABLE_UNALIGNED: ConfigOption[bool] = (
        ConfigOptions.key("execution.checkpointing.unaligned.enabled")
        .boolean_type()
        .default_value(False)
        .with_deprecated_keys("execution.checkpointing.unaligned")
    )
    """Whether barriers may overtake records, which are then stored with the checkpoint."""
    FORCE_UNALIGNED: ConfigOption[bool] = (
        ConfigOptions.key("execution.checkpointing.unaligned.forced").boolean_type().default_value(False)
    )
    """Accepted and without effect: in Flink it concerns iterations, which Tidegate does not have."""
    ALIGNED_CHECKPOINT_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("execution.checkpointing.aligned-checkpoint-timeout")
        .duration_type()
        .default_value(Duration.of_millis(0))
        .with_deprecated_keys("execution.checkpointing.alignment-timeout")
    )
    """How long an unaligned checkpoint first tries to align; 0 lets barriers overtake at once."""
    ALIGNMENT_MAX_SIZE: ConfigOption[int | None] = (
        ConfigOptions.key("tidegate.checkpointing.alignment.max-size")
        .memory_type()
        .no_default_value()
        .with_deprecated_keys("task.checkpoint.alignment.max-size")
    )
    """The most that a task may hold back while it aligns, or record, before it aborts the checkpoint."""
    SYNC_TO_DISK: ConfigOption[bool] = (
        ConfigOptions.key("tidegate.checkpointing.sync-to-disk").boolean_type().default_value(True)
    )
    """Whether checkpoints on disks of the machine must survive a power failure."""
    RANDOM_INITIAL_DELAY: ConfigOption[bool] = (
        ConfigOptions.key("tidegate.checkpointing.random-initial-delay").boolean_type().default_value(True)
    )
    """Whether the first checkpoint waits for a random part of the interval, so that jobs spread out."""


class RestartStrategyOptions:
    """What follows a failure; `restart_strategy.restart_strategy_from` reads these together."""

    RESTART_STRATEGY: ConfigOption[str | None] = (
        ConfigOptions.key("restart-strategy.type")
        .choice_type("none", "off", "disable", "fixed-delay", "failure-rate", "exponential-delay")
        .no_default_value()
        .with_deprecated_keys("restart-strategy")
    )
    FIXED_DELAY_ATTEMPTS: ConfigOption[int] = (
        ConfigOptions.key("restart-strategy.fixed-delay.attempts").int_type().default_value(1)
    )
    FIXED_DELAY_DELAY: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.fixed-delay.delay")
        .duration_type()
        .default_value(Duration.of_seconds(1))
    )
    FAILURE_RATE_MAX_FAILURES_PER_INTERVAL: ConfigOption[int] = (
        ConfigOptions.key("restart-strategy.failure-rate.max-failures-per-interval")
        .int_type()
        .default_value(1)
    )
    FAILURE_RATE_FAILURE_RATE_INTERVAL: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.failure-rate.failure-rate-interval")
        .duration_type()
        .default_value(Duration.of_minutes(1))
    )
    FAILURE_RATE_DELAY: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.failure-rate.delay")
        .duration_type()
        .default_value(Duration.of_seconds(1))
    )
    EXPONENTIAL_DELAY_INITIAL_BACKOFF: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.exponential-delay.initial-backoff")
        .duration_type()
        .default_value(Duration.of_seconds(1))
    )
    EXPONENTIAL_DELAY_MAX_BACKOFF: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.exponential-delay.max-backoff")
        .duration_type()
        .default_value(Duration.of_minutes(1))
    )
    EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER: ConfigOption[float] = (
        ConfigOptions.key("restart-strategy.exponential-delay.backoff-multiplier")
        .float_type()
        .default_value(1.5)
    )
    EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD: ConfigOption[Duration] = (
        ConfigOptions.key("restart-strategy.exponential-delay.reset-backoff-threshold")
        .duration_type()
        .default_value(Duration.of_hours(1))
    )
    EXPONENTIAL_DELAY_JITTER_FACTOR: ConfigOption[float] = (
        ConfigOptions.key("restart-strategy.exponential-delay.jitter-factor").float_type().default_value(0.1)
    )
    EXPONENTIAL_DELAY_ATTEMPTS: ConfigOption[int] = (
        ConfigOptions.key("restart-strategy.exponential-delay.attempts-before-reset-backoff")
        .int_type()
        .default_value(2**31 - 1)
    )


class CoreOptions:
    """Settings of the whole job."""

    DEFAULT_PARALLELISM: ConfigOption[int] = (
        ConfigOptions.key("parallelism.default").int_type().default_value(1)
    )


class PipelineOptions:
    """Settings of the job graph."""

    NAME: ConfigOption[str | None] = ConfigOptions.key("pipeline.name").string_type().no_default_value()
    MAX_PARALLELISM: ConfigOption[int] = (
        ConfigOptions.key("pipeline.max-parallelism").int_type().default_value(-1)
    )
    """Number of key groups; -1 lets it follow from the parallelism."""
    AUTO_WATERMARK_INTERVAL: ConfigOption[Duration] = (
        ConfigOptions.key("pipeline.auto-watermark-interval")
        .duration_type()
        .default_value(Duration.of_millis(200))
    )
    OPERATOR_CHAINING: ConfigOption[bool] = (
        ConfigOptions.key("pipeline.operator-chaining.enabled")
        .boolean_type()
        .default_value(True)
        .with_deprecated_keys("pipeline.operator-chaining")
    )
    """Whether operators may share a task."""
    AUTO_GENERATE_UIDS: ConfigOption[bool] = (
        ConfigOptions.key("pipeline.auto-generate-uids").boolean_type().default_value(True)
    )
    """Whether an operator may do without a uid of its own."""
    GLOBAL_JOB_PARAMETERS: ConfigOption[Mapping[str, str] | None] = (
        ConfigOptions.key("pipeline.global-job-parameters").map_type().no_default_value()
    )
    """What `RuntimeContext.get_job_parameter` finds."""


class ExecutionOptions:
    """Settings of the data plane."""

    RUNTIME_MODE: ConfigOption[str] = (
        ConfigOptions.key("execution.runtime-mode")
        .choice_type("STREAMING", "BATCH", "AUTOMATIC")
        .default_value("STREAMING")
    )
    """`BATCH`: every source ends, and aggregates emit final values only; `AUTOMATIC`: where they all end."""
    BUFFER_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("execution.buffer-timeout.interval")
        .duration_type()
        .default_value(Duration.of_millis(100))
        .with_deprecated_keys("execution.buffer-timeout")
    )
    """Longest time for which a record waits for its batch to fill."""
    BUFFER_TIMEOUT_ENABLED: ConfigOption[bool] = (
        ConfigOptions.key("execution.buffer-timeout.enabled").boolean_type().default_value(True)
    )
    """Where this is off a batch waits until it is full."""


class StateBackendOptions:
    """Where keyed state lives."""

    STATE_BACKEND: ConfigOption[str] = (
        ConfigOptions.key("state.backend.type")
        .string_type()
        .default_value("hashmap")
        .with_deprecated_keys("state.backend")
    )
    LOCAL_RECOVERY: ConfigOption[bool] = (
        ConfigOptions.key("execution.state-recovery.from-local")
        .boolean_type()
        .default_value(False)
        .with_deprecated_keys("state.backend.local-recovery")
    )
    """Flink's other half of `execution.checkpointing.local-backup.enabled`; either one switches on both."""
    LMDB_MEMORY: ConfigOption[int] = (
        ConfigOptions.key("tidegate.state.lmdb.memory").memory_type().default_value(512 << 20)
    )
    """Memory for caches and buffers in front of LMDB, per operator and subtask; less than 1 MiB is slow."""


class DeploymentOptions:
    """Where and how a job runs."""

    TARGET: ConfigOption[str] = (
        ConfigOptions.key("execution.target").choice_type("ray", "local").default_value("ray")
    )
    """`ray`: actors on the cluster that is there, else on an embedded one; `local`: this process."""
    COORDINATOR_LINGER: ConfigOption[Duration] = (
        ConfigOptions.key("tidegate.coordinator.linger")
        .duration_type()
        .default_value(Duration.of_seconds(30))
    )
    """How long a finished job's coordinator stays to answer questions when nobody fetched its end; whoever
    fetches results gets that time again."""
    COORDINATOR_PLACEMENT: ConfigOption[str] = (
        ConfigOptions.key("tidegate.coordinator.placement").string_type().default_value("head")
    )
    """Which node of the Ray cluster a job's coordinator runs on: `head`, `any`, or the label that nodes for
    coordinators have, as `name=value`. A coordinator asks for no CPU."""
    SLOT_CPUS: ConfigOption[float] = ConfigOptions.key("tidegate.slot.cpus").float_type().default_value(1.0)
    """CPUs that the subtasks of one slot share; a job needs as many slots as its widest operator."""
    SLOT_SHARE_PROCESS: ConfigOption[bool] = (
        ConfigOptions.key("tidegate.slot.share-process").boolean_type().default_value(False)
    )
    """Whether the subtasks of one slot run in one process; otherwise each subtask has its own."""
    LOCAL_DIR: ConfigOption[str | None] = (
        ConfigOptions.key("tidegate.local-dir").string_type().no_default_value()
    )
    """Directory for local state of the tasks; a temporary one where it is not set."""
    CACHE_DIR: ConfigOption[str | None] = (
        ConfigOptions.key("tidegate.cache.dir").string_type().no_default_value()
    )
    """Directory for cached streams, the same for all processes; a temporary one where it is not set."""
    TRACE_FILE: ConfigOption[str | None] = (
        ConfigOptions.key("tidegate.trace.file").string_type().no_default_value()
    )
    """Where the coordinator writes the checkpoint traces as Jaeger JSON."""
    HEARTBEAT_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("heartbeat.timeout").duration_type().default_value(Duration.of_seconds(15))
    )
    """Silence after which a task's process counts as lost, and its node if no process there answers."""
    SLOT_REQUEST_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("slot.request.timeout").duration_type().default_value(Duration.of_minutes(5))
    )
    """How long a task's process may wait for a place in the cluster."""
    REDUNDANT_PROCESSES: ConfigOption[int] = (
        ConfigOptions.key("slotmanager.redundant-taskmanager-num").int_type().default_value(0)
    )
    """Started processes that wait to replace one that dies; each takes the CPUs of the largest in use."""
    CANCELLATION_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("task.cancellation.timeout").duration_type().default_value(Duration.of_seconds(10))
    )
    """How long a cancelled task may take to stop before its process is killed."""
    ATTACHED: ConfigOption[bool] = ConfigOptions.key("execution.attached").boolean_type().default_value(True)
    """Whether `execute()` waits for the end of the job; else the job goes on without its driver."""
    ON_STOP_SIGNAL: ConfigOption[str] = (
        ConfigOptions.key("tidegate.on-stop-signal")
        .choice_type("cancel", "stop-with-savepoint", "detach")
        .default_value("cancel")
    )
    """What becomes of the job when the driver that waits for it gets SIGINT or SIGTERM."""


class JobManagerOptions:
    """What the coordinator does."""

    ARCHIVE_DIR: ConfigOption[str | None] = (
        ConfigOptions.key("jobmanager.archive.fs.dir").string_type().no_default_value()
    )
    """Directory or file system URL in which a job tells of itself when it has ended, for the console."""


class HistoryServerOptions:
    """Where the console finds jobs that have ended."""

    HISTORY_SERVER_ARCHIVE_DIRS: ConfigOption[str | None] = (
        ConfigOptions.key("historyserver.archive.fs.dir").string_type().no_default_value()
    )
    """The same place, or several with commas between; `jobmanager.archive.fs.dir` where it is not set."""


class RestOptions:
    """The console that a local job serves while it runs."""

    PORT: ConfigOption[int | None] = ConfigOptions.key("rest.port").int_type().no_default_value()
    """Where it listens, 0 for any free port; a job without it serves none."""
    BIND_ADDRESS: ConfigOption[str] = (
        ConfigOptions.key("rest.bind-address").string_type().default_value("127.0.0.1")
    )
    """Address that it listens on; beyond this machine it wants a token for everything."""


class DataPlaneOptions:
    """How records travel."""

    BATCH_SIZE: ConfigOption[int] = ConfigOptions.key("tidegate.batch.size").int_type().default_value(4_096)
    """Records in a full batch."""
    CHANNEL_CREDIT: ConfigOption[int] = (
        ConfigOptions.key("tidegate.channel.credit").memory_type().default_value(1 << 20)
    )
    """Bytes under way on one channel before its sender waits."""


class LogOptions:
    """Where the processes of a job log, and what."""

    LEVEL: ConfigOption[str] = (
        ConfigOptions.key("env.log.level")
        .choice_type("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        .default_value("INFO")
    )
    """The least level that is written to the files."""
    DIRECTORY: ConfigOption[str | None] = ConfigOptions.key("env.log.dir").string_type().no_default_value()
    """Directory of the log files on every machine; where it is not set, Ray's own, and none in local mode."""
    MAX_FILES: ConfigOption[int] = ConfigOptions.key("env.log.max").int_type().default_value(3)
    """Older files of 10 MiB that each process keeps."""
    FORMAT: ConfigOption[str] = (
        ConfigOptions.key("tidegate.log.format").choice_type("TEXT", "JSON").default_value("TEXT")
    )
    """`JSON` writes one object a line, with job, operator, subtask, attempt and trace."""


class MetricOptions:
    """What is measured, and where it can be seen."""

    UPDATE_INTERVAL: ConfigOption[Duration] = (
        ConfigOptions.key("metrics.fetcher.update-interval")
        .duration_type()
        .default_value(Duration.of_seconds(1))
    )
    """How often the coordinator asks the tasks for their metrics; 0 for never, and then none can be seen."""
    PROMETHEUS_PORT: ConfigOption[str | None] = (
        ConfigOptions.key("metrics.reporter.prom.port").string_type().no_default_value()
    )
    """Where Prometheus finds the metrics of the job: a port, or a range of which the first free one is taken;
    nowhere where it is not set."""
    PROMETHEUS_HOST: ConfigOption[str] = (
        ConfigOptions.key("metrics.reporter.prom.host").string_type().default_value("127.0.0.1")
    )
    """Address that it listens on; 0.0.0.0 lets every machine read the metrics, without a password."""


class StateRecoveryOptions:
    """Which checkpoint a job starts from."""

    SAVEPOINT_PATH: ConfigOption[str | None] = (
        ConfigOptions.key("execution.state-recovery.path")
        .string_type()
        .no_default_value()
        .with_deprecated_keys("execution.savepoint.path")
    )
    """A savepoint, a checkpoint, or `latest:<directory>`: the latest checkpoint of a job, or of the runs of a
    program that keep theirs in one directory. With `latest-if-any:<directory>` the first run starts from
    nothing."""
    SAVEPOINT_IGNORE_UNCLAIMED_STATE: ConfigOption[bool] = (
        ConfigOptions.key("execution.state-recovery.ignore-unclaimed-state")
        .boolean_type()
        .default_value(False)
        .with_deprecated_keys("execution.savepoint.ignore-unclaimed-state")
    )
    """Whether stored state that no operator of the job claims may be dropped."""
    RESTORE_MODE: ConfigOption[str] = (
        ConfigOptions.key("execution.state-recovery.claim-mode")
        .choice_type("NO_CLAIM", "CLAIM")
        .default_value("NO_CLAIM")
        .with_deprecated_keys("execution.savepoint-restore-mode")
    )
    """Whether the job owns what it is started from, and removes it when it needs it no more."""


class SparkOptions:
    """The Spark session of a job with Spark stages."""

    EXECUTORS: ConfigOption[int] = ConfigOptions.key("tidegate.spark.executors").int_type().default_value(1)
    EXECUTOR_CORES: ConfigOption[int] = (
        ConfigOptions.key("tidegate.spark.executor-cores").int_type().default_value(1)
    )
    """Cores of an executor. Ray reserves none for it, see docs/spark.md."""
    EXECUTOR_MEMORY: ConfigOption[str] = (
        ConfigOptions.key("tidegate.spark.executor-memory").string_type().default_value("1g")
    )
    LOG_DIR: ConfigOption[str | None] = (
        ConfigOptions.key("tidegate.spark.log-dir").string_type().no_default_value()
    )
    """Directory for Spark's logs; a temporary one where it is not set."""
    CONF: ConfigOption[Mapping[str, str] | None] = (
        ConfigOptions.key("tidegate.spark.conf").map_type().no_default_value()
    )
    """Further Spark settings, as `key:value,key:value`."""
    START_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("tidegate.spark.start-timeout")
        .duration_type()
        .default_value(Duration.of_seconds(180))
    )
    """How long the start of a session may take before the attempt fails."""
    BUFFER_SIZE: ConfigOption[int] = (
        ConfigOptions.key("tidegate.spark.buffer-size").memory_type().default_value(256 << 20)
    )
    """Records of a stage whose results have not been emitted; with more, it takes none."""
    BUFFER_MEMORY: ConfigOption[int] = (
        ConfigOptions.key("tidegate.spark.buffer-memory").memory_type().default_value(64 << 20)
    )
    """The part of them that is in memory; the rest is on local disk."""
