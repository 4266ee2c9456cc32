"""How a job runs, as `StreamExecutionEnvironment.get_config()` gives it out."""

from __future__ import annotations

from collections.abc import Mapping

from .configuration import Configuration
from .errors import ConfigurationError
from .options.options import CoreOptions, DeploymentOptions, PipelineOptions
from .time import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """A view of a configuration with the setters that PyFlink programs call.

    Args:
        configuration: where settings are read and written; a new one if omitted.
    """

    PARALLELISM_DEFAULT = -1
    """Stands for a parallelism that nobody chose."""
    PARALLELISM_UNKNOWN = -2
    """Stands for a parallelism that is left as it is."""
    UPPER_BOUND_MAX_PARALLELISM = 1 << 15

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def get_parallelism(self) -> int:
        """Return the default parallelism, or PARALLELISM_DEFAULT where none was set."""
        if not self._configuration.contains_key(CoreOptions.DEFAULT_PARALLELISM.key):
            return self.PARALLELISM_DEFAULT
        return self._configuration.get(CoreOptions.DEFAULT_PARALLELISM)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of every operator that sets none itself.

        Args:
            parallelism: number of subtasks, at least 1, or PARALLELISM_DEFAULT to unset it.

        Returns:
            This object.

        Raises:
            ConfigurationError: the number is out of range.
        """
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(CoreOptions.DEFAULT_PARALLELISM.key)
            return self
        if parallelism < 1:
            raise ConfigurationError(f"the parallelism must be at least 1, got {parallelism}")
        self._configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, or -1 where none was set."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which is the highest parallelism the job can ever have.

        Args:
            max_parallelism: 1 to 32,768.

        Returns:
            This object.

        Raises:
            ConfigurationError: the number is out of range.
        """
        if not 1 <= max_parallelism <= self.UPPER_BOUND_MAX_PARALLELISM:
            raise ConfigurationError(
                f"the max parallelism must lie between 1 and {self.UPPER_BOUND_MAX_PARALLELISM}, "
                f"got {max_parallelism}"
            )
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the time between two watermarks of a source, in milliseconds."""
        return self._configuration.get(PipelineOptions.AUTO_WATERMARK_INTERVAL).to_millis()

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between two watermarks of a source, in milliseconds; returns this object."""
        self._configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, Duration.of_millis(interval))
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return what `RuntimeContext.get_job_parameter` finds."""
        parameters = self._configuration.get(PipelineOptions.GLOBAL_JOB_PARAMETERS)
        return {} if parameters is None else dict(parameters)

    def set_global_job_parameters(self, global_job_parameters: Mapping[str, str]) -> ExecutionConfig:
        """Set what `RuntimeContext.get_job_parameter` finds; returns this object."""
        self._configuration.set(
            PipelineOptions.GLOBAL_JOB_PARAMETERS,
            {str(key): str(value) for key, value in global_job_parameters.items()},
        )
        return self

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Derive the uid of an operator that has none from the structure of the job; returns this object."""
        self._configuration.set(PipelineOptions.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse a job with an operator that has no uid; returns this object."""
        self._configuration.set(PipelineOptions.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether operators may do without a uid."""
        return self._configuration.get(PipelineOptions.AUTO_GENERATE_UIDS)

    def get_task_cancellation_timeout(self) -> int:
        """Return how long a cancelled task may take to stop before its process is killed, in milliseconds."""
        return self._configuration.get(DeploymentOptions.CANCELLATION_TIMEOUT).to_millis()

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set how long a cancelled task may take to stop, in milliseconds; returns this object."""
        self._configuration.set(DeploymentOptions.CANCELLATION_TIMEOUT, Duration.of_millis(timeout))
        return self

    # ------------------------------------------------------------ settings of the JVM: kept, without effect

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Without effect: functions are sent with cloudpickle, which needs no cleaning."""
        self._configuration.set_string(_CLOSURE_CLEANER, "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Without effect: functions are sent with cloudpickle, which needs no cleaning."""
        self._configuration.set_string(_CLOSURE_CLEANER, "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def enable_object_reuse(self) -> ExecutionConfig:
        """Without effect: an operator always hands its records to the next one of its task as they are."""
        self._configuration.set_boolean(_OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Without effect: an operator always hands its records to the next one of its task as they are."""
        self._configuration.set_boolean(_OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_task_cancellation_interval(self) -> int:
        """Return what was set, in milliseconds."""
        return self._configuration.get_integer(_CANCELLATION_INTERVAL, 30_000)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Without effect: a task is asked once to stop, see `set_task_cancellation_timeout`."""
        self._configuration.set_integer(_CANCELLATION_INTERVAL, interval)
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return what was set, in milliseconds."""
        return self._configuration.get_integer(_LATENCY_INTERVAL, 0)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Without effect: there are no latency markers."""
        self._configuration.set_integer(_LATENCY_INTERVAL, interval)
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Return what was set."""
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Without effect: the format of snapshots says what is compressed; returns this object."""
        self._configuration.set_boolean(_SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def enable_generic_types(self) -> ExecutionConfig:
        """Let values of any Python type through, pickled, which is always so; returns this object."""
        return self

    def has_generic_types_disabled(self) -> bool:
        """Return False: values of any Python type may be in a stream."""
        return False

    def disable_generic_types(self) -> ExecutionConfig:
        """Not possible: any Python object may be in a stream.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            "disable_generic_types() is about Java's Kryo; here a stream without a declared type is pickled. "
            "Declare an output_type where records should be checked"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


_CANCELLATION_INTERVAL = "task.cancellation.interval"
_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_LATENCY_INTERVAL = "metrics.latency.interval"
_OBJECT_REUSE = "pipeline.object-reuse"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"
