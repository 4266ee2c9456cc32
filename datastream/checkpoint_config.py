"""Checkpoint settings with PyFlink's getters and setters; a view on the configuration."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NoReturn

from ..common.config_options import ConfigOption
from ..common.configuration import Configuration
from ..common.errors import ConfigurationError
from ..common.options.options import CheckpointingOptions as Options
from ..common.time import Duration
from ..protocol.elements import CheckpointingMode
from .checkpoint_storage import CheckpointStorage

UNLIMITED_FAILURES = 2**31 - 1
"""As many tolerable failures as there may be."""


class ExternalizedCheckpointRetention(enum.Enum):
    """What happens to completed checkpoints when the job ends.

    A checkpoint that could not be restored always stays: it may be all that is left of the state.
    """

    DELETE_ON_CANCELLATION = 0
    """They go when the job is cancelled or finishes, and stay when it fails."""
    RETAIN_ON_CANCELLATION = 1
    """They stay; whoever needs them no more removes them."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They are the job's own business: they go however it ends."""


_REMOVED = {
    "enable_externalized_checkpoints": "set_externalized_checkpoint_retention",
    "get_externalized_checkpoint_cleanup": "get_externalized_checkpoint_retention",
    "set_externalized_checkpoint_cleanup": "set_externalized_checkpoint_retention",
}
"""Methods that Flink 2.0 removed, and those that replace them."""


class CheckpointConfig:
    """Reads and writes the `execution.checkpointing.*` settings; times are milliseconds."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Name the replacement of a removed method, where Python would suggest a similar name."""
            instead = f"; call {_REMOVED[name]}()" if name in _REMOVED else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{instead}")

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Time between two triggers, -1 when checkpointing is off."""
        interval = self._configuration.get(Options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between two triggers; at least 10 ms."""
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
        return self._set_ms(Options.CHECKPOINTING_TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Least time between the completion of one checkpoint and the next periodic trigger."""
        return self._configuration.get(Options.MIN_PAUSE_BETWEEN_CHECKPOINTS).to_millis()

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least time between the completion of one checkpoint and the next periodic trigger."""
        return self._set_ms(Options.MIN_PAUSE_BETWEEN_CHECKPOINTS, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._configuration.get(Options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once; at least 1."""
        self._configuration.set(Options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail without failing the job."""
        return self._configuration.get(Options.TOLERABLE_FAILURE_NUMBER)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail without failing the job."""
        self._configuration.set(Options.TOLERABLE_FAILURE_NUMBER, tolerable_checkpoint_failure_number)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Choose between no tolerable failure and any number of them (deprecated in Flink)."""
        return self.set_tolerable_checkpoint_failure_number(
            0 if fail_on_checkpointing_errors else UNLIMITED_FAILURES
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self._configuration.get(Options.ENABLE_UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records; needs exactly-once and one checkpoint at a time."""
        self._configuration.set(Options.ENABLE_UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let no barrier overtake records."""
        return self.enable_unaligned_checkpoints(False)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long an unaligned checkpoint first tries to align."""
        return self._configuration.get(Options.ALIGNED_CHECKPOINT_TIMEOUT)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Let an unaligned checkpoint try to align for so long first."""
        self._configuration.set(Options.ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout)
        return self

    def get_alignment_timeout(self) -> Duration:
        """Flink's older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Flink's older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether barriers may also overtake records where the order of records matters."""
        return self._configuration.get(Options.FORCE_UNALIGNED)

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let barriers also overtake records where the order of records matters."""
        self._configuration.set(Options.FORCE_UNALIGNED, force_unaligned_checkpoints)
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

    def validate(self) -> None:
        """Check that no two settings contradict each other.

        Raises:
            ConfigurationError: Two settings do; or a value is malformed or out of its bounds.
        """
        if not self.is_unaligned_checkpoints_enabled():
            return
        if self.get_max_concurrent_checkpoints() > 1:
            raise ConfigurationError(
                f"{Options.MAX_CONCURRENT_CHECKPOINTS.key} is {self.get_max_concurrent_checkpoints()}, but "
                f"unaligned checkpoints need one at a time; leave it at 1 or switch off "
                f"{Options.ENABLE_UNALIGNED.key}"
            )
        if self.get_checkpointing_mode() is not CheckpointingMode.EXACTLY_ONCE:
            raise ConfigurationError(
                f"{Options.ENABLE_UNALIGNED.key} needs {Options.CHECKPOINTING_CONSISTENCY_MODE.key}: "
                f"EXACTLY_ONCE; at-least-once never aligns, so there is nothing to overtake"
            )

    def _set_ms(self, option: ConfigOption[Any], milliseconds: int) -> CheckpointConfig:
        self._configuration.set(option, Duration.of_millis(milliseconds))
        return self
