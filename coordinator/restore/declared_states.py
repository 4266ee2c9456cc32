"""Learns which states an operator declares, by opening it without any data and without a job."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...common.errors import TidegateError
from ...common.typeinfo import TypeInformation
from ...operators.base import OperatorContext
from ...operators.chain import load_operator
from ...operators.output import Output
from ...operators.timers.processing_time import ProcessingTimeService
from ...protocol.checkpoints.handles import OperatorListHandle
from ...protocol.ids import Attempt
from ...protocol.key_groups import key_group_range_of_subtask
from ...protocol.scheduling.plan import StreamNode
from ...state.backend import KeyedStateBackend, KeyedStateBackendParameters, wall_clock_ms
from ...state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from ...state.keyed.keyed_backend import TableKeyedStateBackend
from ...state.keyed.raw_state import RawKeyedState, RawKeyedStateParameters
from ...state.kinds import (
    AggregatingState,
    BroadcastState,
    FoldingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from ...state.operator.list_storage import OperatorStateBackendParameters
from ...state.operator.operator_state_backend import OperatorStateBackend
from ...state.storage.memory_storage import MemoryCheckpointStorage

Schema = Mapping[str, object]


@dataclass(frozen=True)
class DeclaredStates:
    """What an operator of the program declares.

    Attributes:
        previous_names: names that its states had before, by their name.
        problem: why this may not be all; empty when it is.
    """

    keyed: Mapping[str, Schema]
    lists: Mapping[str, Schema]
    previous_names: Mapping[str, tuple[str, ...]]
    problem: str = ""


def declared_states(node: StreamNode, job_parameters: Mapping[str, str]) -> DeclaredStates:
    """Open an operator against empty backends and look at what it declared."""
    try:
        operator = load_operator(node)
        operator.validate()
    except TidegateError as error:
        return DeclaredStates({}, {}, {}, str(error))
    problem = ""
    with tempfile.TemporaryDirectory(prefix="tidegate-check-") as local_dir:
        names: dict[str, tuple[str, ...]] = {}
        context = _context(node, local_dir, job_parameters, names)
        operator.setup(context, Output())
        try:
            operator.declare_states()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        keyed = {} if operator.keyed is None else operator.keyed.freeze().persist().descriptors
        lists = list_schemas(context.operator_state.snapshot().persist())
        try:
            operator.close()
        except Exception as error:
            problem = problem or f"{type(error).__name__}: {error}"
    return DeclaredStates(keyed, lists, names, problem)


def _context(
    node: StreamNode, local_dir: str, job_parameters: Mapping[str, str], names: dict[str, tuple[str, ...]]
) -> OperatorContext:
    storage = MemoryCheckpointStorage()
    key_groups = key_group_range_of_subtask(0, node.max_parallelism, node.parallelism)

    def keyed_backend(key_type: TypeInformation | None) -> KeyedStateBackend:
        return _KeyedDeclarations(
            names,
            KeyedStateBackendParameters(
                operator_uid=node.uid,
                operator_name=node.name,
                subtask_index=0,
                attempt=0,
                max_parallelism=node.max_parallelism,
                key_groups=key_groups,
                key_type=key_type,
                local_dir=local_dir,
                storage=storage,
                file_prefix="shared",
            ),
        )

    return OperatorContext(
        operator_uid=node.uid,
        operator_name=node.name,
        subtask_index=0,
        parallelism=node.parallelism,
        max_parallelism=node.max_parallelism,
        attempt=Attempt(0),
        attempt_number=0,
        is_checkpointing=True,
        is_restored=False,
        now_ms=wall_clock_ms,
        processing_time=ProcessingTimeService(wall_clock_ms),
        mailbox=lambda action: None,
        create_keyed_backend=keyed_backend,
        operator_state=_OperatorDeclarations(
            names, OperatorStateBackendParameters(node.uid, node.name, 0, 0, storage, "shared")
        ),
        local_dir=local_dir,
        results=_NoResults(),
        job_parameters=job_parameters,
        raw_keyed=RawKeyedState(
            RawKeyedStateParameters(node.uid, node.name, 0, 0, key_groups, storage, "shared")
        ),
    )


class _KeyedDeclarations(TableKeyedStateBackend):
    """A keyed backend that notes the previous names of what is declared.

    Args:
        names: where it notes them.
    """

    def __init__(self, names: dict[str, tuple[str, ...]], params: KeyedStateBackendParameters) -> None:
        super().__init__(params)
        self._names = names

    def get_value_state(self, descriptor: ValueStateDescriptor, namespaced: bool = False) -> ValueState[Any]:
        self._note(descriptor)
        return super().get_value_state(descriptor, namespaced)

    def get_list_state(self, descriptor: ListStateDescriptor, namespaced: bool = False) -> ListState[Any]:
        self._note(descriptor)
        return super().get_list_state(descriptor, namespaced)

    def get_map_state(self, descriptor: MapStateDescriptor, namespaced: bool = False) -> MapState[Any, Any]:
        self._note(descriptor)
        return super().get_map_state(descriptor, namespaced)

    def get_reducing_state(
        self, descriptor: ReducingStateDescriptor, namespaced: bool = False
    ) -> ReducingState[Any]:
        self._note(descriptor)
        return super().get_reducing_state(descriptor, namespaced)

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor, namespaced: bool = False
    ) -> AggregatingState[Any, Any]:
        self._note(descriptor)
        return super().get_aggregating_state(descriptor, namespaced)

    def get_folding_state(
        self, descriptor: FoldingStateDescriptor, namespaced: bool = False
    ) -> FoldingState[Any, Any]:
        self._note(descriptor)
        return super().get_folding_state(descriptor, namespaced)

    def _note(self, descriptor: StateDescriptor) -> None:
        self._names[descriptor.get_name()] = descriptor.previous_names


class _OperatorDeclarations(OperatorStateBackend):
    """The same for operator state."""

    def __init__(self, names: dict[str, tuple[str, ...]], params: OperatorStateBackendParameters) -> None:
        super().__init__(params)
        self._names = names

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        self._names[descriptor.get_name()] = descriptor.previous_names
        return super().get_list_state(descriptor)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        self._names[descriptor.get_name()] = descriptor.previous_names
        return super().get_union_list_state(descriptor)

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        self._names[descriptor.get_name()] = descriptor.previous_names
        return super().get_broadcast_state(descriptor)


class _NoResults:
    """A `ResultPort` that nobody listens to."""

    def offer(self, key: str, values: list[Any]) -> None:
        """Nothing is processed in a check, so nothing is collected."""

    def unconfirmed(self) -> int:
        return 0

    def has_credit(self) -> bool:
        return True


def list_schemas(handles: Iterable[OperatorListHandle]) -> dict[str, Schema]:
    """The schemas of operator states by name, with their modes."""
    return {handle.state_name: {**handle.schema, "mode": handle.mode} for handle in handles}
