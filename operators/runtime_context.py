"""What a user function may ask of the runtime in `open` (PyFlink's `RuntimeContext`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..common.errors import ConfigurationError, StateError
from ..state.backend import KeyedStateBackend
from ..state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ..state.kinds import AggregatingState, FoldingState, ListState, MapState, ReducingState, ValueState
from ..telemetry.metrics import MetricGroup
from .base import OperatorContext


class KeyedStateStore:
    """Where a function declares its keyed state."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateBackend | None) -> None:
        self._context = context
        self._keyed = keyed

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """A `ValueState` of the current key."""
        return self._backend().get_value_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A `ListState` of the current key."""
        return self._backend().get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A `MapState` of the current key."""
        return self._backend().get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A `ReducingState` of the current key."""
        return self._backend().get_reducing_state(state_descriptor)

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An `AggregatingState` of the current key."""
        return self._backend().get_aggregating_state(state_descriptor)

    def get_folding_state(self, state_descriptor: FoldingStateDescriptor) -> FoldingState[Any, Any]:
        """A `FoldingState` of the current key. Deprecated: use an `AggregatingState`."""
        return self._backend().get_folding_state(state_descriptor)

    def _backend(self) -> KeyedStateBackend:
        if self._keyed is None:
            raise StateError(
                f"{self._context.name_with_subtask}: keyed state can only be used on a keyed "
                f"stream; call key_by() before this operator"
            )
        return self._keyed


def declared_state(store: KeyedStateStore, descriptor: StateDescriptor) -> Any:
    """The state of a descriptor, whatever its kind."""
    declare: dict[str, Callable[[Any], Any]] = {
        "value": store.get_state,
        "list": store.get_list_state,
        "map": store.get_map_state,
        "reducing": store.get_reducing_state,
        "aggregating": store.get_aggregating_state,
        "folding": store.get_folding_state,
    }
    return declare[descriptor.kind](descriptor)


class DistributedCache:
    """The files that travelled with the job (Flink's `DistributedCache`)."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_file(self, name: str) -> str:
        """Path of the copy of a file or directory, on this machine; not to be written to.

        Args:
            name: As in `StreamExecutionEnvironment.register_cached_file`.

        Raises:
            ConfigurationError: Nothing was registered under this name; the message lists what was.
        """
        files = self._context.cached_files
        if name not in files:
            known = ", ".join(sorted(files)) or "nothing"
            raise ConfigurationError(
                f"{self._context.name_with_subtask}: no file was registered as {name!r}, but {known}; call "
                f"register_cached_file(path, {name!r}) before execute()"
            )
        return files[name]


class RuntimeContext(KeyedStateStore):
    """Facts about the running subtask and the way to its keyed state."""

    def get_task_name(self) -> str:
        """Name of the operator."""
        return self._context.operator_name

    def is_checkpointing_enabled(self) -> bool:
        """Whether the job takes checkpoints."""
        return self._context.expects_checkpoints

    def get_number_of_parallel_subtasks(self) -> int:
        """Parallelism of the operator."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Max parallelism of the operator: its number of key groups."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        """How often the job was restarted before this execution."""
        return self._context.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Name, index (from 1) and parallelism, as `name (1/2)`."""
        return self._context.name_with_subtask

    def get_distributed_cache(self) -> DistributedCache:
        """The files that travelled with the job."""
        return DistributedCache(self._context)

    def get_metrics_group(self) -> MetricGroup:
        """Where the function makes counters, gauges, meters and distributions of its own."""
        return self._context.metrics

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter, or the default."""
        return self._context.job_parameters.get(key, default_value)
