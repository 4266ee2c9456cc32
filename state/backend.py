"""State backends: where keyed state lives while a job runs, and how it is frozen and persisted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..common.errors import StateError
from ..common.typeinfo import TypeInformation
from ..protocol.checkpoints.handles import KeyedStateHandle
from ..protocol.key_groups import KeyGroupRange
from .descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from .kinds import (
    AggregatingState,
    FoldingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    ValueState,
)
from .storage.checkpoint_storage import CheckpointStorage
from .ttl.expiration import Expiration

if TYPE_CHECKING:
    from .claims import Unclaimed
    from .keyed.timer_table import TimerTable
    from .operator.list_storage import OperatorStateBackendParameters
    from .operator.operator_state_backend import OperatorStateBackend


def wall_clock_ms() -> int:
    """The time of this machine."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class KeyedStateBackendParameters:
    """What a keyed backend must know about its place in the job.

    Attributes:
        key_type: declared type of the keys, or None when unknown.
        local_dir: directory of this subtask for local files; created when needed.
        storage: where segments go; None when checkpointing is off.
        file_prefix: directory of this operator's segments in `storage`.
        now_ms: the clock of TTL in processing time, in milliseconds since the epoch.
        is_stored: whether snapshots store the state. If not, `storage` is only read from.
    """

    operator_uid: str
    operator_name: str
    subtask_index: int
    attempt: int
    max_parallelism: int
    key_groups: KeyGroupRange
    key_type: TypeInformation | None
    local_dir: str
    storage: CheckpointStorage | None
    file_prefix: str
    now_ms: Callable[[], int] = wall_clock_ms
    is_stored: bool = True

    @property
    def has_snapshots(self) -> bool:
        """Whether the state is stored in snapshots."""
        return self.is_stored and self.storage is not None


class BackendClosedError(StateError):
    """The task has ended, so that what it froze is not stored. Not a failure: no process needs the result."""


class FrozenKeyedState(ABC):
    """Keyed state as of one freeze: the input of the asynchronous part of a snapshot.

    Attributes:
        expiration: What is expired as of the freeze.
    """

    expiration: Expiration

    @abstractmethod
    def persist(self) -> KeyedStateHandle:
        """Write everything frozen so far and return the handle of the whole keyed state.

        Runs on any thread but the task's, one call at a time per backend, in the order of the freezes.
        After an exception nothing is lost: the next freeze's `persist` writes it too. A backend may go on
        storing on local disk after a checkpoint's handle is returned; what fails then is raised by the next.

        Raises:
            CheckpointStorageError: when storage or the local disk refuses.
            StateError: when a value cannot be encoded as its declared type.
            BackendClosedError: the backend is closed.
        """


class KeyedStateBackend(ABC):
    """Keyed state of one operator in one subtask.

    All methods but `FrozenKeyedState.persist` belong to the task's thread. `current_key` is set before
    each record; reading state while it is None is a `StateError`.

    A state declared with `namespaced` holds something of its own per key and namespace, such as a window.
    It means the namespace in `current_namespace`, which may be any value that could be a key.
    """

    current_key: Any = None
    current_namespace: Any = None
    # Event time of the operator, the clock of TTL in event time; None before the first watermark.
    current_watermark: int | None = None

    @abstractmethod
    def get_value_state(self, descriptor: ValueStateDescriptor, namespaced: bool = False) -> ValueState[Any]:
        """The value state of that name; a second, different descriptor is a `StateError`."""

    @abstractmethod
    def get_list_state(self, descriptor: ListStateDescriptor, namespaced: bool = False) -> ListState[Any]:
        """The list state of that name."""

    @abstractmethod
    def get_map_state(self, descriptor: MapStateDescriptor, namespaced: bool = False) -> MapState[Any, Any]:
        """The map state of that name."""

    @abstractmethod
    def get_reducing_state(
        self, descriptor: ReducingStateDescriptor, namespaced: bool = False
    ) -> ReducingState[Any]:
        """The reducing state of that name."""

    @abstractmethod
    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor, namespaced: bool = False
    ) -> AggregatingState[Any, Any]:
        """The aggregating state of that name."""

    @abstractmethod
    def get_folding_state(
        self, descriptor: FoldingStateDescriptor, namespaced: bool = False
    ) -> FoldingState[Any, Any]:
        """The folding state of that name."""

    @abstractmethod
    def keys(self, state_name: str) -> Iterator[Any]:
        """Every key that a declared state without namespaces may hold something for, each once.

        Raises:
            StateError: A key is so long that LMDB only has its hash.
        """

    @abstractmethod
    def get_timers(self, name: str) -> TimerTable:
        """Where the timers of that name are stored; see `TimerTable`. One caller per name."""

    @abstractmethod
    def merge_namespaces(self, state: MergingState[Any, Any], target: Any, sources: Iterable[Any]) -> None:
        """Merge what the current key has in some namespaces into another one, as merging windows do.

        Args:
            state: a namespaced list, reducing or aggregating state of this backend.
            target: the namespace that has everything afterwards, after what it had before.
            sources: the namespaces that are empty afterwards, in the order in which they are merged.

        Raises:
            StateError: when the state cannot be merged, or while no key is set.
        """

    @abstractmethod
    def query(self, state_name: str, key: Any, namespace: Any = None) -> Any:
        """What a declared state holds for a key, to be looked at only: nothing of it is changed or refreshed.

        To be called between two batches. `current_key` and `current_namespace` stay as they are.

        Args:
            namespace: of a state that was declared with namespaces.

        Returns:
            The value, None when there is none; a dict for map state, a list for list state, the
            accumulator for aggregating state. What is expired is left out.

        Raises:
            StateError: there is no such state, or a namespace is missing or not expected.
            KeyTypeError: the key has no deterministic encoding.
        """

    @abstractmethod
    def prefetch(self, keys: Collection[Any]) -> None:
        """These are the keys of the next batch: a backend may fetch their state at once.

        Never needed, and never fails: what was not fetched is fetched when it is read.
        """

    @abstractmethod
    def records_processed(self, count: int) -> None:
        """The operator has processed some records; told once per batch, for clean-up per record."""

    @abstractmethod
    def restore(self, handle: KeyedStateHandle, owned: bool) -> None:
        """Start from stored state; called once, before any state is declared.

        A state's segments are read when the state is first declared.

        Args:
            handle: segments, concatenated and restricted to this subtask's key groups.
            owned: False when the files belong to another job; the first `persist` then writes a
                full base of its own.
        """

    @abstractmethod
    def opened(self) -> None:
        """`open()` of the operator has returned: states declared from now on are declared late."""

    @abstractmethod
    def unclaimed(self) -> list[Unclaimed]:
        """Restored states with content that are not declared; to be asked when `open()` has returned."""

    @property
    @abstractmethod
    def needs_spill(self) -> bool:
        """Whether the write buffer is over its limit; to be asked after each batch.

        Raises:
            CheckpointStorageError: when buffers over their limit cannot be stored.
        """

    @property
    def is_ready(self) -> bool:
        """Whether the next batch may be processed; to be asked before each. If not, try again soon."""
        return True

    def rest(self) -> None:
        """The task has nothing to do until the next `is_ready`: storing need not wait for it."""

    @abstractmethod
    def freeze(self) -> FrozenKeyedState:
        """The synchronous part of a snapshot: swaps the write buffers, independent of their size."""

    @abstractmethod
    def spill(self) -> FrozenKeyedState:
        """Freeze without a checkpoint, to bound the write buffer."""

    @abstractmethod
    def close(self) -> None:
        """Release everything and remove local files."""


class StateBackend(ABC):
    """Chooses how keyed state is kept. A small picklable configuration object."""

    @abstractmethod
    def create_keyed_backend(self, params: KeyedStateBackendParameters) -> KeyedStateBackend:
        """Open the keyed state of one operator in one subtask."""

    @abstractmethod
    def create_operator_backend(self, params: OperatorStateBackendParameters) -> OperatorStateBackend:
        """Open the operator state of one operator in one subtask."""
