"""An operator's surroundings without a task: all key groups, checkpoints in memory."""

from __future__ import annotations

from typing import Any

from tidegate.common.typeinfo import TypeInformation
from tidegate.operators.base import OperatorContext
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.ids import Attempt
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend, wall_clock_ms
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

MAX_PARALLELISM = 128


def context_for(
    name: str, backend: StateBackend | None = None, local_dir: str = "/nonexistent"
) -> OperatorContext:
    """The context of the only subtask of an operator, with keyed state in memory or in a given backend."""

    def keyed_backend(key_type: TypeInformation | None) -> KeyedStateBackend:
        return (backend or HashMapStateBackend()).create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid=name,
                operator_name=name,
                subtask_index=0,
                attempt=0,
                max_parallelism=MAX_PARALLELISM,
                key_groups=KeyGroupRange(0, MAX_PARALLELISM - 1),
                key_type=key_type,
                local_dir=local_dir,
                storage=MemoryCheckpointStorage(),
                file_prefix=name,
            )
        )

    lists = OperatorStateBackendParameters(name, name, 0, 0, MemoryCheckpointStorage(), name)
    results: Any = None
    return OperatorContext(
        operator_uid=name,
        operator_name=name,
        subtask_index=0,
        parallelism=1,
        max_parallelism=MAX_PARALLELISM,
        attempt=Attempt(0),
        attempt_number=0,
        is_checkpointing=True,
        is_restored=False,
        now_ms=wall_clock_ms,
        create_keyed_backend=keyed_backend,
        operator_state=OperatorStateBackend(lists),
        local_dir="/nonexistent",
        results=results,
        processing_time=ProcessingTimeService(wall_clock_ms),
        mailbox=lambda action: action(),
    )
