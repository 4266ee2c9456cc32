"""Which restored states a program declares, and what to do about the others.

A snapshot marks the states that were declared by the time `open()` returned. A restored state with that mark
that the program does not declare in `open()` was renamed or removed: no program would read it, and the state
with the new name would start empty. Flink accepts that silently. Other states may be declared late, with the
first record that needs them (as in triggers), so nothing can be said about them when a task starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_MARK = "declared"
_IN_OPEN, _LATE = "open", "late"
SETTING = "execution.state-recovery.ignore-unclaimed-state"


def is_marked(schema: Mapping[str, object]) -> bool:
    """Whether the program that stored a state declared it in `open()`."""
    return schema.get(_MARK) == _IN_OPEN


def without_mark(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema as a descriptor has it."""
    return {name: text for name, text in schema.items() if name != _MARK}


@dataclass(frozen=True)
class Unclaimed:
    """A restored state with content that the program has not declared by the end of `open()`.

    Attributes:
        is_certain: Whether the snapshot says that it was declared in `open()` before. If not, the snapshot is
            of an older release, or the state was ignored before.
        similar: Declared states that the snapshot does not have, the most similar first.
    """

    name: str
    is_certain: bool
    similar: tuple[str, ...]

    def __str__(self) -> str:
        if not self.similar:
            return repr(self.name)
        return f"{self.name!r} (new in the program: {', '.join(map(repr, self.similar))})"


class Claims:
    """Who declared the keyed states, or the operator states, of one operator in one subtask, and when."""

    def __init__(self) -> None:
        self._marks: dict[str, object] = {}
        self._in_open: frozenset[str] | None = None
        self._late: set[str] = set()
        # The restored states that were not declared in `open()` before either, and still are not declared.
        self._waiting: set[str] = set()
        # The declared states that the restored snapshot has, also under another name.
        self._found: set[str] = set()

    def restored(self, name: str, schema: Mapping[str, object]) -> dict[str, object]:
        """Take the mark off the schema of a restored state."""
        self._marks[name] = schema.get(_MARK)
        return without_mark(schema)

    def declared(self, name: str, stored_as: str | None) -> str | None:
        """A state is declared; what to warn of, if that is after `open()` and looks like a new name.

        Args:
            stored_as: Its name in the snapshot, `None` if that does not have it.
        """
        if stored_as is not None:
            self._found.add(name)
            self._waiting.discard(stored_as)
        if self._in_open is None:
            return None
        self._late.add(name)
        if stored_as is not None or not self._waiting:
            return None
        waiting = ", ".join(map(repr, sorted(self._waiting)))
        return (
            f"state {name!r} is new, and the snapshot has {waiting}, which the program has not declared "
            f"so far. If that was renamed, call renamed_from(…) on the descriptor"
        )

    def opened(self, declared: Collection[str]) -> None:
        """`open()` has returned, and these states are declared."""
        self._in_open = frozenset(declared)

    def unclaimed(self, missing: Collection[str]) -> list[Unclaimed]:
        """What to report of the restored states that are not declared when `open()` has returned."""
        self._waiting = {name for name in missing if self._marks[name] != _IN_OPEN}
        new = sorted((self._in_open or frozenset()) - self._found)
        return [
            Unclaimed(
                name,
                self._marks[name] == _IN_OPEN,
                tuple(difflib.get_close_matches(name, new, n=3, cutoff=0.0)),
            )
            for name in missing
            if self._marks[name] != _LATE
        ]

    def marked(self, name: str, schema: Mapping[str, object]) -> dict[str, object]:
        """The schema of a state as a snapshot has it."""
        if name in (self._in_open or ()):
            return {**schema, _MARK: _IN_OPEN}
        return {**schema, _MARK: _LATE} if name in self._late else dict(schema)


def unclaimed_error(where: str, found: Collection[Unclaimed]) -> str | None:
    """Why a restore must fail, if it must.

    Args:
        where: The operator.
        found: What its program does not declare.
    """
    certain = [each for each in found if each.is_certain]
    if not certain:
        return None
    return (
        f"{where}: the snapshot has state {', '.join(map(str, certain))}, which the program does not declare "
        f"in open(), so it would not be restored. Declare it under its old name; or, if it was renamed, call "
        f"renamed_from(…) on its descriptor; or, if it is no longer needed, allow that with {SETTING}: true"
    )


def unclaimed_warning(where: str, found: Collection[Unclaimed], is_allowed: bool) -> str | None:
    """What to warn of, if anything: what is ignored as allowed, and what may have been renamed."""
    listed = [each for each in found if is_allowed or not each.is_certain]
    if not listed:
        return None
    return (
        f"{where}: the snapshot has state {', '.join(map(str, listed))}, which the program has not declared "
        f"in open(). It is kept in snapshots but not read, unless the program declares it later. If it was "
        f"renamed, call renamed_from(…) on its descriptor"
    )
