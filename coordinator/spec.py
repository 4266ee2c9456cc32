"""What a job is, as handed to a coordinator."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.failpoints import FailPoint
from ..common.job_files import JobFile
from ..common.options.options import (
    CheckpointingOptions,
    DataPlaneOptions,
    DeploymentOptions,
    ExecutionOptions,
    MetricOptions,
    NetworkOptions,
    PipelineOptions,
    StateRecoveryOptions,
)
from ..common.restart_strategy import NoRestartStrategyConfiguration, RestartStrategyConfiguration
from ..common.time import Duration
from ..protocol.channels.listening import ANY_PORT, ListenRule
from ..protocol.checkpoints.trigger import TriggerPolicy
from ..protocol.elements import CheckpointingMode
from ..protocol.ids import JobId
from ..protocol.scheduling.failover import Failover, failover_of
from ..protocol.scheduling.plan import JobGraph
from ..state.backend import StateBackend
from ..telemetry.logs import LogSettings
from ..telemetry.metric_settings import OtlpMetricSettings, PrometheusSettings

if TYPE_CHECKING:
    from ..common.config_options import ConfigOption
    from ..common.configuration import Configuration
    from ..protocol.scheduling.autoscaler import AutoscalerSettings
    from ..protocol.scheduling.reactive import ReactiveSettings


@dataclass(frozen=True)
class PythonEnvironment:
    """What the processes of a job are to be started with.

    Attributes:
        requirements: Lines of a pip requirements file.
        wheel_dir: Directory of wheels to install from instead of an index, found by every node.
        executable: The Python to run, `None` for the driver's.
    """

    requirements: tuple[str, ...] = ()
    wheel_dir: str | None = None
    executable: str | None = None

    def with_requirements(self, lines: Iterable[str], wheel_dir: str | None) -> PythonEnvironment:
        """The same with these requirements."""
        return replace(self, requirements=tuple(lines), wheel_dir=wheel_dir)

    def with_executable(self, executable: str) -> PythonEnvironment:
        """The same with this Python."""
        return replace(self, executable=executable)

    def runtime_env(self) -> dict[str, Any]:
        """The same as a runtime environment of Ray; empty where nothing was said."""
        environment: dict[str, Any] = {}
        if self.requirements:
            pip: dict[str, Any] = {"packages": list(self.requirements)}
            if self.wheel_dir is not None:
                pip["pip_install_options"] = ["--no-index", f"--find-links={self.wheel_dir}"]
            environment["pip"] = pip
        if self.executable is not None:
            environment["py_executable"] = self.executable
        return environment


def _plain(value: object) -> object:
    """The value of an option as settings have it: times are milliseconds."""
    return value.to_millis() if isinstance(value, Duration) else value


def _option(option: ConfigOption[Any]) -> Any:
    """A setting that is the value of an option, and has its default."""
    return field(default=_plain(option.default), metadata={"option": option})


@dataclass(frozen=True)
class JobSettings:
    """Everything about a job that is not its graph.

    Attributes:
        local_snapshots_dir: Where tasks keep copies of their last snapshots for a restart on the same
            machine; `None` switches that off.
        trigger: When checkpoints are taken; `None` switches them off.
        checkpoint_dir: URI under which the job makes its own directory; required with `trigger`.
        savepoints_only: Whether the job takes savepoints on request and no checkpoints. Its directory for
            checkpoints then only has the files from which savepoints are made, and the job is never resumed.
        inline_threshold_bytes: The largest file of state that travels in the acknowledgement and lies in
            the manifest instead of in a file of its own.
        max_inline_state_bytes: When set, all state travels so, and a file of a state that is larger
            declines the checkpoint.
        aligned_timeout_ms: How long a barrier tries to align before it overtakes: 0 overtakes at once,
            `None` never overtakes. Savepoints always align.
        max_buffered_bytes: The most that a task may hold back or record for one checkpoint before it
            declines; `None` for any.
        savepoint_dir: URI of the directory in which savepoints are made if none is named.
        num_retained: Completed checkpoints to keep.
        deleting_threads: How many files of old checkpoints are deleted at a time.
        keep_on_cancel: Whether checkpoints survive the cancellation of the job.
        keep_on_fail: Whether they survive when it fails for good.
        keep_on_finish: Whether they survive its regular end.
        restore_path: Checkpoint to start from, as a URI of its directory.
        follows: Directories of the jobs that were ended when this one was started from nothing.
        claims_restored: Whether the job owns that checkpoint, and removes it when it needs it no more.
        allow_non_restored_state: Whether stored state that no operator claims may be dropped.
        syncs_to_disk: Whether checkpoints in local file systems must survive a power failure.
        random_initial_delay: Whether the first checkpoint is delayed at random, as Flink does.
        slot_cpus: CPUs that the subtasks of one slot share (Ray shell).
        heartbeat_timeout_ms: Silence after which a process, or all of a node, count as lost (Ray shell).
        gap_timeout_ms: How long a message between two processes may be missing, while later ones are there,
            before it counts as lost and the attempt fails.
        reconnect_timeout_ms: How long the direct connection between two processes may be lost before the
            attempt fails (Ray shell).
        listen_rule: Where processes listen for those of other nodes (Ray shell).
        slot_request_timeout_ms: How long a process may wait for a place in the cluster (Ray shell).
        redundant_processes: How many started processes wait to replace one that dies (Ray shell).
        stop_timeout_ms: How long a cancelled subtask may take before its process is killed.
        linger_ms: How long the coordinator of an ended job stays for questions (Ray shell).
        coordinator_placement: `head`, `any`, or a label of Ray nodes as `name=value` (Ray shell).
        lease_ms: How long a coordinator may act before it verifies again that it owns the job.
        reactive: How the job follows the size of its cluster, `None` if it does not (Ray shell).
        autoscaler: What its autoscaler aims at, `None` for none (Ray shell).
        metrics_interval_ms: How often the coordinator asks the subtasks for their metrics; 0 for never.
        prometheus: Where Prometheus finds the metrics; `None` for nowhere.
        otlp_metrics: Where the metrics are sent; `None` for nowhere.
        logs: How the processes of the job log.
        trace_file: Where the coordinator writes the traces, or `None`.
        fail_points: What `TIDEGATE_FAILPOINTS` arms.
        files: Files that travel with the job, which every process gets with its tasks.
        python: What its processes are to be started with (Ray shell).
        is_batch: Whether every source ends and only final results are wanted.
        configuration: What was set, by Flink's names and without secrets, for people to look at.
        archive_dir: Where the job tells of itself when it has ended, or `None`.
    """

    state_backend: StateBackend
    local_dir: str
    trigger: TriggerPolicy | None = None
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    checkpoint_dir: str | None = None
    savepoints_only: bool = False
    inline_threshold_bytes: int = _option(CheckpointingOptions.FS_SMALL_FILE_THRESHOLD)
    max_inline_state_bytes: int | None = None
    aligned_timeout_ms: int | None = None
    max_buffered_bytes: int | None = _option(CheckpointingOptions.ALIGNMENT_MAX_SIZE)
    savepoint_dir: str | None = None
    num_retained: int = _option(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS)
    deleting_threads: int = 1
    keep_on_cancel: bool = False
    keep_on_fail: bool = False
    keep_on_finish: bool = _option(CheckpointingOptions.RETAIN_ON_FINISH)
    restart_strategy: RestartStrategyConfiguration = field(default_factory=NoRestartStrategyConfiguration)
    restore_path: str | None = None
    follows: tuple[str, ...] = ()
    claims_restored: bool = False
    allow_non_restored_state: bool = _option(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
    syncs_to_disk: bool = _option(CheckpointingOptions.SYNC_TO_DISK)
    random_initial_delay: bool = _option(CheckpointingOptions.RANDOM_INITIAL_DELAY)
    batch_size: int = _option(DataPlaneOptions.BATCH_SIZE)
    buffer_timeout_ms: int = _option(ExecutionOptions.BUFFER_TIMEOUT)
    auto_watermark_interval_ms: int = _option(PipelineOptions.AUTO_WATERMARK_INTERVAL)
    channel_credit_bytes: int = _option(DataPlaneOptions.CHANNEL_CREDIT)
    result_credit_bytes: int = 16 << 20
    job_parameters: dict[str, str] = field(default_factory=dict)
    slot_cpus: float = _option(DeploymentOptions.SLOT_CPUS)
    heartbeat_timeout_ms: int = _option(DeploymentOptions.HEARTBEAT_TIMEOUT)
    gap_timeout_ms: int = _option(NetworkOptions.GAP_TIMEOUT)
    reconnect_timeout_ms: int = _option(NetworkOptions.RECONNECT_TIMEOUT)
    listen_rule: ListenRule = ANY_PORT
    slot_request_timeout_ms: int = _option(DeploymentOptions.SLOT_REQUEST_TIMEOUT)
    redundant_processes: int = _option(DeploymentOptions.REDUNDANT_PROCESSES)
    stop_timeout_ms: int = _option(DeploymentOptions.CANCELLATION_TIMEOUT)
    linger_ms: int = _option(DeploymentOptions.COORDINATOR_LINGER)
    lease_ms: int = 5_000
    coordinator_placement: str = _option(DeploymentOptions.COORDINATOR_PLACEMENT)
    metrics_interval_ms: int = _option(MetricOptions.UPDATE_INTERVAL)
    reactive: ReactiveSettings | None = None
    autoscaler: AutoscalerSettings | None = None
    prometheus: PrometheusSettings | None = None
    otlp_metrics: OtlpMetricSettings | None = None
    logs: LogSettings = field(default_factory=LogSettings)
    trace_file: str | None = None
    local_snapshots_dir: str | None = None
    fail_points: tuple[FailPoint, ...] = ()
    files: tuple[JobFile, ...] = ()
    python: PythonEnvironment = field(default_factory=PythonEnvironment)
    is_batch: bool = False
    configuration: dict[str, str] = field(default_factory=dict)
    archive_dir: str | None = None

    def __post_init__(self) -> None:
        if self.trigger is not None and self.checkpoint_dir is None:
            raise ConfigurationError(
                "checkpointing is enabled but there is no place for checkpoints; set "
                "execution.checkpointing.dir to a directory or file system URL"
            )

    @staticmethod
    def values_of_options(configuration: Configuration) -> dict[str, Any]:
        """The settings that are values of options, by name.

        Raises:
            ConfigurationError: A value is malformed or out of its bounds.
        """
        declared = {
            setting.name: setting.metadata["option"]
            for setting in fields(JobSettings)
            if "option" in setting.metadata
        }
        return {name: _plain(configuration.get(option)) for name, option in declared.items()}

    @property
    def checkpoint_root(self) -> str | None:
        """Address of checkpoint storage; `None` where neither checkpoints nor savepoints are taken."""
        return None if self.trigger is None else self.checkpoint_dir

    @property
    def takes_checkpoints(self) -> bool:
        """Whether the job takes checkpoints, so that it can be resumed from one."""
        return self.trigger is not None and not self.savepoints_only


@dataclass(frozen=True)
class JobSpec:
    """One job to run."""

    job_id: JobId
    graph: JobGraph
    settings: JobSettings

    @property
    def job_name(self) -> str:
        """The name the user gave the job."""
        return self.graph.job_name

    def new_failover(self) -> Failover:
        """Return what decides on restarts, with no failures. Random delays differ from job to job."""
        return failover_of(self.settings.restart_strategy, zlib.crc32(self.job_id.encode()))
