"""The stored form of the open windows of merging assigners: which there are, per key.

Operators keep these windows in memory. The state notes what changed since the last snapshot and is read on
a restore only, as it is for timers (docs/adr/016). An entry is a pair of namespaces: that of the window, and
that of its state window, in which its records are.
"""

from __future__ import annotations

from typing import Any

from ...common.typeinfo import TypeInformation
from ...state.backend import KeyedStateBackend
from ...state.descriptors import ListStateDescriptor

Entry = tuple[Any, Any]

_STATE_NAME = "_open_windows"
_OLDER_STATE_NAME = "_merging_windows"
"""Until version 0.1, one list per key, which was read and written for every record."""


class WindowJournal:
    """Notes which windows are open.

    Args:
        keyed: The backend of the operator.
        older_type: Type of the elements of the older list state; `None` for windows of the user's own.
    """

    def __init__(self, keyed: KeyedStateBackend, older_type: TypeInformation | None) -> None:
        self._table = keyed.get_timers(_STATE_NAME)
        self._restored: list[tuple[Any, Entry]] = self._table.take_restored()
        self._take_older(keyed, older_type)

    def _take_older(self, keyed: KeyedStateBackend, older_type: TypeInformation | None) -> None:
        older = keyed.get_list_state(ListStateDescriptor(_OLDER_STATE_NAME, older_type))
        for key in list(keyed.keys(_OLDER_STATE_NAME)):
            keyed.current_key = key
            for window, state in older.get():
                self.add(key, (window, state))
                self._restored.append((key, (window, state)))
            older.clear()
        keyed.current_key = None

    @property
    def is_kept(self) -> bool:
        """Whether snapshots are taken, so that changes must be noted."""
        return self._table.journals

    def take_restored(self) -> list[tuple[Any, Entry]]:
        """Key and entry of every restored window; given once."""
        restored, self._restored = self._restored, []
        return restored

    def add(self, key: Any, entry: Entry) -> None:
        """Note a window that is new."""
        self._table.add(key, entry)

    def discard(self, key: Any, entry: Entry) -> None:
        """Note that a window is gone: it ended, or merged into another one."""
        self._table.discard(key, entry)
