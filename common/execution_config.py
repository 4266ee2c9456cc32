"""How a job runs, as `StreamExecutionEnvironment.get_config()` gives it out."""

from __future__ import annotations

from collections.abc import Mapping

from .configuration import Configuration
from .errors import ConfigurationError
from .options import CoreOptions, PipelineOptions
from .time import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """A view of a configuration with the setters that PyFlink programs call.

    Args:
        configuration: where settings are read and written; a new one if omitted.
    """

    PARALLELISM_DEFAULT = -1
    """Stands for a parallelism that nobody chose."""
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
