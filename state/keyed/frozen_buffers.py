"""The buffers of a keyed backend between a freeze and the end of its `persist`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.checkpoints.handles import KeyedStateHandle
from ..backend import FrozenKeyedState
from ..ttl.expiration import Expiration
from .state_factory import StateParts
from .tables import FrozenTable, StateTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Epoch:
    """All buffers of one freeze that are not yet stored.

    Attributes:
        filled: tables whose state is to be in LMDB from here on, as the segments have it by then.
    """

    number: int
    frozen: deque[FrozenTable]
    # In segments, but not yet in LMDB: reads still find it in the buffers.
    unstored: deque[tuple[FrozenTable, pa.Table]]
    filled: deque[StateTable]
    schemas: dict[str, dict[str, object]]
    size_bytes: int
    # By state: what is expired by then need not be stored again.
    cut_offs: dict[str, int | None]


class FrozenTables(FrozenKeyedState):
    """The tables of a backend as of one freeze.

    Args:
        persist_until: Stores every buffer up to the epoch with a number; takes whether it is a spill.
    """

    def __init__(
        self,
        persist_until: Callable[[int, bool], KeyedStateHandle],
        epoch_number: int,
        is_spill: bool,
        expiration: Expiration,
    ) -> None:
        self.expiration = expiration
        self._persist_until = persist_until
        self._epoch_number = epoch_number
        self._is_spill = is_spill

    def persist(self) -> KeyedStateHandle:
        return self._persist_until(self._epoch_number, self._is_spill)


def cut_off_of(parts: StateParts) -> int | None:
    """By what time expired entries may be left out of bases, and of what is restored; `None`: never."""
    return None if parts.ttl is None or not parts.ttl.in_snapshots else parts.ttl.clock()
