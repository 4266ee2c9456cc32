"""The settings of an environment: getters and setters with PyFlink's names."""

from __future__ import annotations

from typing import TypeVar

from ...common.configuration import Configuration
from ...common.errors import ConfigurationError
from ...common.execution_config import ExecutionConfig
from ...common.options.options import (
    CheckpointingOptions,
    CoreOptions,
    DeploymentOptions,
    ExecutionOptions,
    PipelineOptions,
)
from ...common.restart_strategy import (
    FallbackRestartStrategyConfiguration,
    RestartStrategyConfiguration,
    restart_strategy_from,
)
from ...common.time import Duration
from ...protocol.elements import CheckpointingMode
from ...state.backend import StateBackend
from ..checkpoint_config import CheckpointConfig
from ..dependencies import Dependencies
from ..execution_mode import RuntimeExecutionMode
from ..slot_sharing_group import SlotSharingGroup
from .default_settings import current_defaults
from .job_settings import buffer_timeout_ms

E = TypeVar("E", bound="EnvironmentSettings")


class EnvironmentSettings(Dependencies):
    """The settings of the jobs of one environment.

    Args:
        configuration: Settings that override those of `tidegate run`.
    """

    _default_local_parallelism = 1

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__()
        self._configuration = Configuration(current_defaults())
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._restart: RestartStrategyConfiguration | None = None
        self._state_backend: StateBackend | None = None
        self._changelog: bool | None = None
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}

    def configure(self, configuration: Configuration) -> None:
        """Add settings; they replace earlier ones with the same key."""
        self._configuration.add_all(configuration)

    def get_config(self) -> ExecutionConfig:
        """Execution settings with getters and setters."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Checkpoint settings with getters and setters."""
        return CheckpointConfig(self._configuration)

    def set_parallelism(self: E, parallelism: int) -> E:
        """Parallelism of every operator that sets none itself."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Parallelism of every operator that sets none itself."""
        chosen = self._configuration.contains_key(CoreOptions.DEFAULT_PARALLELISM.key)
        if not chosen and self._configuration.get(DeploymentOptions.TARGET) == "local":
            return self.get_default_local_parallelism()
        return self._configuration.get(CoreOptions.DEFAULT_PARALLELISM)

    def set_max_parallelism(self: E, max_parallelism: int) -> E:
        """Number of key groups of every operator that sets none itself."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups, or -1 where it follows from the parallelism."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def enable_checkpointing(
        self: E, interval: int, mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    ) -> E:
        """Take a checkpoint every `interval` milliseconds."""
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints, -1 when they are off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly-once or at-least-once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Flink's newer name of `get_checkpointing_mode`."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether barriers may also overtake records where the order of records matters."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_runtime_mode(self: E, execution_mode: RuntimeExecutionMode) -> E:
        """Choose how jobs run: as streams, as batches, or as batches where all sources end.

        See `docs/guide/batch-mode.md`.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ConfigurationError(
                f"set_runtime_mode() takes a RuntimeExecutionMode, not {execution_mode!r}"
            )
        self._configuration.set(ExecutionOptions.RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self: E, timeout_millis: int) -> E:
        """Longest time for which a record waits for its batch to fill, while the receiver keeps up.

        Args:
            timeout_millis: 0 sends at once, -1 waits until the batch is full.
        """
        if timeout_millis < -1:
            raise ConfigurationError(
                f"the buffer timeout is {timeout_millis} ms; give 0 or more, or -1 to wait for full batches"
            )
        self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))
        return self

    def get_buffer_timeout(self) -> int:
        """Longest time in milliseconds for which a record waits for its batch to fill; -1 for ever."""
        return buffer_timeout_ms(self._configuration)

    def register_slot_sharing_group(self: E, slot_sharing_group: SlotSharingGroup) -> E:
        """Say what the slots of a group take, so that its name is enough for `slot_sharing_group()`."""
        if not isinstance(slot_sharing_group, SlotSharingGroup):
            raise ConfigurationError(
                f"register_slot_sharing_group() takes a SlotSharingGroup, not {slot_sharing_group!r}; make "
                f"one with SlotSharingGroup.builder(name)"
            )
        name = slot_sharing_group.get_name()
        known = self._slot_sharing_groups.setdefault(name, slot_sharing_group)
        if known != slot_sharing_group and slot_sharing_group.has_resources():
            if known.has_resources():
                raise ConfigurationError(
                    f"slot sharing group {name!r} is registered with other resources; register it once"
                )
            self._slot_sharing_groups[name] = slot_sharing_group
        return self

    def set_restart_strategy(self: E, restart_strategy_configuration: RestartStrategyConfiguration) -> E:
        """What follows a failure."""
        self._restart = restart_strategy_configuration
        return self

    def set_state_backend(self: E, state_backend: StateBackend) -> E:
        """Where keyed state lives.

        Raises:
            ConfigurationError: `state_backend` is a name or a class instead of an instance.
        """
        if not isinstance(state_backend, StateBackend):
            raise ConfigurationError(
                f"set_state_backend() needs a state backend, such as LmdbStateBackend(), but got "
                f"{state_backend!r}; to choose one by its name, set state.backend.type"
            )
        self._state_backend = state_backend
        return self

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Where savepoints are made if none is named when they are triggered."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints are made if none is named when they are triggered."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)

    def disable_operator_chaining(self: E) -> E:
        """Give every operator a task of its own."""
        self._configuration.set(PipelineOptions.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators may share a task."""
        return self._configuration.get(PipelineOptions.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """False: the subtasks of a task share one range of key groups."""
        return False

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Without effect: a checkpoint only ever stores what has changed, with every state backend."""
        self._changelog = enabled
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What `enable_changelog_state_backend` was told, `None` where it was not called."""
        return self._changelog

    def get_default_local_parallelism(self) -> int:
        """Parallelism of local jobs that set none, in any environment of this process."""
        return EnvironmentSettings._default_local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism of local jobs that set none, in any environment of this process."""
        if parallelism < 1:
            raise ConfigurationError(f"the parallelism must be at least 1, got {parallelism}")
        EnvironmentSettings._default_local_parallelism = parallelism

    def _restart_strategy(self) -> RestartStrategyConfiguration:
        if self._restart is None or isinstance(self._restart, FallbackRestartStrategyConfiguration):
            return restart_strategy_from(self._configuration)
        return self._restart
