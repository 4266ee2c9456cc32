"""The backends that keep live objects in memory and differ in where their snapshots go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.errors import ConfigurationError
from ..common.options.checkpoint_options import CheckpointingOptions
from .backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend

if TYPE_CHECKING:
    from .operator.list_storage import OperatorStateBackendParameters
    from .operator.operator_state_backend import OperatorStateBackend


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """Live objects in memory, nothing on local disk; snapshots go to checkpoint storage."""

    def create_keyed_backend(self, params: KeyedStateBackendParameters) -> KeyedStateBackend:
        from .keyed.keyed_backend import TableKeyedStateBackend

        return TableKeyedStateBackend(params)

    def create_operator_backend(self, params: OperatorStateBackendParameters) -> OperatorStateBackend:
        from .operator.operator_state_backend import OperatorStateBackend

        return OperatorStateBackend(params)


@dataclass(frozen=True)
class MemoryStateBackend(HashMapStateBackend):
    """Live objects; snapshots travel to the coordinator and lie in the checkpoint's manifest.

    For small state and for trying things out: no other file is written. A state that outgrows the limit
    in one subtask declines the checkpoint.

    Args:
        max_state_size: The most bytes that one file of a state may take in a snapshot.
    """

    max_state_size: int = CheckpointingOptions.JOBMANAGER_MAX_STATE_SIZE.default

    def __post_init__(self) -> None:
        if self.max_state_size < 1:
            raise ConfigurationError(
                f"MemoryStateBackend: max_state_size is {self.max_state_size} bytes; it must be at least 1"
            )


@dataclass(frozen=True)
class FileSystemStateBackend(HashMapStateBackend):
    """Live objects; snapshots go to files below a directory or file system URL.

    Args:
        checkpoint_data_uri: Where checkpoints go; None leaves it to `execution.checkpointing.dir`.
    """

    checkpoint_data_uri: str | None = None
