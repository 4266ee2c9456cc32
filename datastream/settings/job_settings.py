"""Turns a configuration into the settings of a job, and refuses what cannot work."""

from __future__ import annotations

import os
import tempfile

from ...common import failpoints
from ...common.config_options import ConfigOption
from ...common.configuration import Configuration
from ...common.errors import ConfigurationError
from ...common.options.known_options import check_settings
from ...common.options.options import (
    CheckpointingOptions,
    DeploymentOptions,
    ExecutionOptions,
    JobManagerOptions,
    LogOptions,
    MetricOptions,
    NetworkOptions,
    PipelineOptions,
    StateBackendOptions,
    StateRecoveryOptions,
)
from ...common.restart_strategy import RestartStrategyConfiguration, resolved_strategy
from ...common.secrets import without_secrets
from ...coordinator.spec import JobSettings
from ...protocol.channels.listening import ListenRule
from ...protocol.checkpoints.trigger import TriggerPolicy
from ...state.backend import StateBackend
from ...state.live_backends import FileSystemStateBackend, HashMapStateBackend, MemoryStateBackend
from ...state.lmdb_backend import LmdbStateBackend
from ...state.rocksdb_backend import EmbeddedRocksDBStateBackend
from ...state.storage.checkpoint_storage import absolute_address
from ...telemetry.logs import LogSettings
from ...telemetry.metric_settings import OtlpMetricSettings, PrometheusSettings, parse_ports
from ..checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
from .elastic_settings import autoscaler_settings, reactive_settings

WORK_DIRECTORY = "savepoint-work"
"""Where a job without checkpoints keeps the files from which it makes savepoints, in their directory."""

_DELETING_THREADS = 4
"""As many deletions at a time as Flink's clean-up has threads on a machine with four cores."""

_BACKENDS: dict[str, type[StateBackend]] = {
    "filesystem": FileSystemStateBackend,
    "hashmap": HashMapStateBackend,
    "jobmanager": MemoryStateBackend,
    "lmdb": LmdbStateBackend,
    "memory": MemoryStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}


def job_settings(
    configuration: Configuration,
    restart: RestartStrategyConfiguration,
    state_backend: StateBackend | None,
) -> JobSettings:
    """The settings of a job.

    Args:
        configuration: All options that were set.
        restart: The chosen restart strategy.
        state_backend: The backend set in code, or `None` for the configured one.

    Raises:
        ConfigurationError: A key is not known, an option is malformed, or options contradict each other.
    """
    check_settings(configuration)
    backend = state_backend or _state_backend(configuration)
    trigger = _trigger_policy(configuration)
    savepoints_only = trigger is not None and trigger.interval_ms is None
    savepoint_dir = _shared(configuration, CheckpointingOptions.SAVEPOINT_DIRECTORY)
    retention = CheckpointConfig(configuration).get_externalized_checkpoint_retention()
    is_parallel = configuration.get(CheckpointingOptions.CLEANER_PARALLEL_MODE)
    values = JobSettings.values_of_options(configuration)
    values["buffer_timeout_ms"] = buffer_timeout_ms(configuration)
    _check_placement(values["coordinator_placement"])
    return JobSettings(
        **values,
        state_backend=backend,
        local_dir=_local_dir(configuration, backend),
        local_snapshots_dir=_local_snapshots_dir(configuration, backend),
        trigger=trigger,
        mode=CheckpointConfig(configuration).get_checkpointing_mode(),
        aligned_timeout_ms=_aligned_timeout_ms(configuration),
        checkpoint_dir=f"{savepoint_dir}/{WORK_DIRECTORY}"
        if savepoints_only
        else _checkpoint_dir(configuration, backend),
        savepoints_only=savepoints_only,
        max_inline_state_bytes=_max_inline_state(configuration, backend),
        savepoint_dir=savepoint_dir,
        deleting_threads=_DELETING_THREADS if is_parallel else 1,
        keep_on_cancel=retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        keep_on_fail=retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        restart_strategy=resolved_strategy(
            restart, configuration, trigger is not None and not savepoints_only
        ),
        claims_restored=configuration.get(StateRecoveryOptions.RESTORE_MODE) == "CLAIM",
        restore_path=_restore_path(configuration),
        job_parameters=_job_parameters(configuration),
        listen_rule=listen_rule(configuration),
        reactive=reactive_settings(configuration),
        autoscaler=autoscaler_settings(configuration),
        prometheus=_prometheus(configuration),
        logs=_logs(configuration),
        otlp_metrics=OtlpMetricSettings.from_environment(os.environ),
        trace_file=_local(configuration.get(DeploymentOptions.TRACE_FILE)),
        configuration=_shown(configuration, backend),
        archive_dir=_shared(configuration, JobManagerOptions.ARCHIVE_DIR),
        fail_points=failpoints.parse(os.environ.get(failpoints.VARIABLE, "")),
    )


def listen_rule(configuration: Configuration) -> ListenRule:
    """On which address and ports the processes of a job listen for those of other nodes."""
    return ListenRule.parse(
        configuration.get(NetworkOptions.ADDRESS), configuration.get(NetworkOptions.BIND_PORT)
    )


def _check_placement(placement: str) -> None:
    name, separator, value = placement.partition("=")
    if placement not in ("head", "any") and not (name and separator and value):
        raise ConfigurationError(
            f"{DeploymentOptions.COORDINATOR_PLACEMENT.key} is {placement!r}; give head, any, or a label of "
            f"Ray nodes as name=value"
        )


def _logs(configuration: Configuration) -> LogSettings:
    return LogSettings(
        level=configuration.get(LogOptions.LEVEL),
        is_json=configuration.get(LogOptions.FORMAT) == "JSON",
        directory=_local(configuration.get(LogOptions.DIRECTORY)),
        max_files=configuration.get(LogOptions.MAX_FILES),
    )


def _prometheus(configuration: Configuration) -> PrometheusSettings | None:
    ports = configuration.get(MetricOptions.PROMETHEUS_PORT)
    if ports is None:
        return None
    host = configuration.get(MetricOptions.PROMETHEUS_HOST)
    return PrometheusSettings(parse_ports(ports, MetricOptions.PROMETHEUS_PORT.key), host)


def _shown(configuration: Configuration, backend: StateBackend) -> dict[str, str]:
    """What was set, and the backend that was chosen in code, without secrets."""
    chosen = {name for name, kind in _BACKENDS.items() if type(backend) is kind}
    key = StateBackendOptions.STATE_BACKEND.key
    settings = configuration.to_dict()
    if settings.get(key) not in chosen:
        settings[key] = min(chosen, default=type(backend).__name__)
    return without_secrets(settings)


def buffer_timeout_ms(configuration: Configuration) -> int:
    """How long a record waits for its batch to fill, -1 for ever."""
    if not configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED):
        return -1
    return configuration.get(ExecutionOptions.BUFFER_TIMEOUT).to_millis()


def _trigger_policy(configuration: Configuration) -> TriggerPolicy | None:
    checkpoints = CheckpointConfig(configuration)
    checkpoints.validate()
    is_periodic = checkpoints.is_checkpointing_enabled()
    if not is_periodic and not configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY):
        return None
    return TriggerPolicy(
        interval_ms=checkpoints.get_checkpoint_interval() if is_periodic else None,
        min_pause_ms=checkpoints.get_min_pause_between_checkpoints(),
        timeout_ms=checkpoints.get_checkpoint_timeout(),
        max_concurrent=checkpoints.get_max_concurrent_checkpoints(),
        tolerable_failures=checkpoints.get_tolerable_checkpoint_failure_number(),
    )


def _aligned_timeout_ms(configuration: Configuration) -> int | None:
    checkpoints = CheckpointConfig(configuration)
    if not checkpoints.is_unaligned_checkpoints_enabled():
        return None
    return checkpoints.get_aligned_checkpoint_timeout().to_millis()


def _state_backend(configuration: Configuration) -> StateBackend:
    name = configuration.get(StateBackendOptions.STATE_BACKEND)
    backend = _BACKENDS.get(name.lower())
    if backend is None:
        raise ConfigurationError(
            f"state.backend.type is {name!r}; choose one of {', '.join(sorted(_BACKENDS))}"
        )
    if backend is LmdbStateBackend:
        return LmdbStateBackend(memory_size_bytes=configuration.get(StateBackendOptions.LMDB_MEMORY))
    return backend()


def _local_dir(configuration: Configuration, backend: StateBackend) -> str:
    if isinstance(backend, EmbeddedRocksDBStateBackend):
        for path in backend.get_db_storage_paths() or ():
            return absolute_address(path)
    chosen = _local(configuration.get(DeploymentOptions.LOCAL_DIR))
    return chosen or os.path.join(tempfile.gettempdir(), "tidegate")


def _local_snapshots_dir(configuration: Configuration, backend: StateBackend) -> str | None:
    is_on = configuration.get(CheckpointingOptions.LOCAL_BACKUP_ENABLED)
    if not is_on and not configuration.get(StateBackendOptions.LOCAL_RECOVERY):
        return None
    chosen = _local(configuration.get(CheckpointingOptions.LOCAL_BACKUP_DIRS))
    return chosen or _local_dir(configuration, backend)


def _local(path: str | None) -> str | None:
    """A path of each node. A relative path starts from the driver's working directory, as users expect."""
    return absolute_address(path) if path else path


def _checkpoint_dir(configuration: Configuration, backend: StateBackend) -> str | None:
    option = CheckpointingOptions.CHECKPOINTS_DIRECTORY
    if isinstance(backend, FileSystemStateBackend) and backend.checkpoint_data_uri is not None:
        return _shared_address(backend.checkpoint_data_uri, configuration, option.key)
    return _shared(configuration, option)


def _restore_path(configuration: Configuration) -> str | None:
    option = StateRecoveryOptions.SAVEPOINT_PATH
    path = configuration.get(option)
    if not path:
        return path
    # Here and not above: most jobs start without a checkpoint, and need not import what reads one.
    from ...coordinator.restore.latest_checkpoint import directory_of

    directory = directory_of(path)
    return path.removesuffix(directory) + _shared_address(directory, configuration, option.key)


def _shared(configuration: Configuration, option: ConfigOption[str | None]) -> str | None:
    """The directory in an option, as an address that means the same to every process of the job."""
    path = configuration.get(option)
    return _shared_address(path, configuration, option.key) if path else path


def _shared_address(path: str, configuration: Configuration, key: str) -> str:
    if path.startswith("memory://") and configuration.get(DeploymentOptions.TARGET) != "local":
        raise ConfigurationError(
            f"{key} is {path!r}, which is the memory of one process, but the job runs in many; give a "
            f"directory that all of them share, or set {DeploymentOptions.TARGET.key}: local"
        )
    return absolute_address(path)


def _max_inline_state(configuration: Configuration, backend: StateBackend) -> int | None:
    if isinstance(backend, MemoryStateBackend):
        return backend.max_state_size
    if configuration.get(CheckpointingOptions.CHECKPOINT_STORAGE) == "jobmanager":
        return configuration.get(CheckpointingOptions.JOBMANAGER_MAX_STATE_SIZE)
    return None


def _job_parameters(configuration: Configuration) -> dict[str, str]:
    parameters = configuration.get(PipelineOptions.GLOBAL_JOB_PARAMETERS)
    return {} if parameters is None else dict(parameters)
