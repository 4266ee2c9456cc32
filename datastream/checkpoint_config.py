"""Checkpoint settings with PyFlink's getters and setters; a view on the configuration."""

from __future__ import annotations

import enum

from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.options import CheckpointingOptions as Options
from ..common.time import Duration
from ..protocol.elements import CheckpointingMode
from .checkpoint_storage import CheckpointStorage


class ExternalizedCheckpointRetention(enum.Enum):
    """What happens to completed checkpoints when the job ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig:
    """Reads and writes the `execution.checkpointing.*` settings; times are milliseconds."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Time between two triggers, -1 when checkpointing is off."""
        interval = self._configuration.get(Options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between two triggers; at least 10 ms."""
        if checkpoint_interval < 10:
            raise ConfigurationError(
                f"the checkpoint interval is {checkpoint_interval} ms; it must be at least 10 ms"
            )
        return self._set_ms(Options.CHECKPOINTING_INTERVAL, checkpoint_interval)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly-once or at-least-once."""
        return CheckpointingMode[self._configuration.get(Options.CHECKPOINTING_CONSISTENCY_MODE).upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Choose exactly-once or at-least-once."""
        self._configuration.set(Options.CHECKPOINTING_CONSISTENCY_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Time after which an incomplete checkpoint is aborted."""
        return self._configuration.get(Options.CHECKPOINTING_TIMEOUT).to_millis()

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the time after which an incomplete checkpoint is aborted."""
        if checkpoint_timeout < 10:
            raise ConfigurationError(
                f"the checkpoint timeout is {checkpoint_timeout} ms; it must be at least 10 ms"
            )
        return self._set_ms(Options.CHECKPOINTING_TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Least time between the end of one checkpoint and the next trigger."""
        return self._configuration.get(Options.MIN_PAUSE_BETWEEN_CHECKPOINTS).to_millis()

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least time between the end of one checkpoint and the next trigger."""
        if min_pause_between_checkpoints < 0:
            raise ConfigurationError("the pause between checkpoints cannot be negative")
        return self._set_ms(Options.MIN_PAUSE_BETWEEN_CHECKPOINTS, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._configuration.get(Options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once; at least 1."""
        if max_concurrent_checkpoints < 1:
            raise ConfigurationError("at least one checkpoint must be allowed at a time")
        self._configuration.set(Options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail without failing the job."""
        return self._configuration.get(Options.TOLERABLE_FAILURE_NUMBER)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail without failing the job."""
        if tolerable_checkpoint_failure_number < 0:
            raise ConfigurationError("the number of tolerable checkpoint failures is negative")
        self._configuration.set(Options.TOLERABLE_FAILURE_NUMBER, tolerable_checkpoint_failure_number)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to completed checkpoints when the job ends."""
        return ExternalizedCheckpointRetention[
            self._configuration.get(Options.EXTERNALIZED_CHECKPOINT_RETENTION).upper()
        ]

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Choose what happens to completed checkpoints when the job ends."""
        self._configuration.set(Options.EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether completed checkpoints outlive a cancelled job in some case."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def get_checkpoint_storage_path(self) -> str | None:
        """Directory or URL under which the job writes its checkpoints."""
        return self._configuration.get(Options.CHECKPOINTS_DIRECTORY)

    def set_checkpoint_storage(self, checkpoint_storage: str | CheckpointStorage) -> CheckpointConfig:
        """Set where the job writes its checkpoints: a directory or URL, or a `CheckpointStorage`."""
        if isinstance(checkpoint_storage, CheckpointStorage):
            checkpoint_storage.configure(self._configuration)
        else:
            self._configuration.set(Options.CHECKPOINTS_DIRECTORY, checkpoint_storage)
        return self

    def _set_ms(self, option: object, milliseconds: int) -> CheckpointConfig:
        self._configuration.set(option, Duration.of_millis(milliseconds))  # type: ignore[arg-type]
        return self
