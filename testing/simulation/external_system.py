"""The world outside the simulated job: it survives every crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ExternalSystem:
    """Transactions as an external system keeps them, and what the operators were told and found wrong.

    Args:
        refuses: Whether a function now raises when it is told of this checkpoint.
        opening: Called with the uid of a source of which a subtask is opened; it may raise.
    """

    def __init__(self, refuses: Callable[[int], bool], opening: Callable[[str], None]) -> None:
        self.opening = opening
        self.problems: list[str] = []
        self.notifications = 0
        self._refuses = refuses
        self._begun: dict[str, list[Any]] = {}
        self._prepared: set[str] = set()
        self._aborted: set[str] = set()
        self._committed: dict[str, None] = {}
        self._owners: dict[str, int] = {}
        self._owner_count = 0
        self._saved: dict[str, dict[int, set[str]]] = {}
        self._undone: set[str] = set()
        self._failed_stops: set[tuple[str, int]] = set()

    def stop_failed(self, job: str, checkpoint_id: int) -> None:
        """A stop was given up: the job goes on."""
        self._failed_stops.add((job, checkpoint_id))

    def goes_on_behind(self, job: str, checkpoint_id: int, what: str) -> None:
        """A task does something behind the barrier of a stop, which it may if that was given up."""
        if (job, checkpoint_id) not in self._failed_stops:
            # Not raised: that would only fail the task.
            self.problems.append(f"{what} behind the stop {checkpoint_id}")

    def new_owner(self) -> int:
        """The number of a sink's subtask in one attempt, higher than any before."""
        self._owner_count += 1
        return self._owner_count

    def saved(self, savepoint: str, owner: int) -> None:
        """A subtask of a sink takes part in a savepoint, which covers what it has prepared by now."""
        prepared = {name for name in self._prepared if self._owners[name] == owner}
        self._saved.setdefault(savepoint, {})[owner] = prepared

    def go_back_to(self, savepoint: str) -> None:
        """Undo for good what a savepoint does not cover, so that a job may start from it much later."""
        parts = self._saved.get(savepoint, {})
        first = min(parts, default=0)
        covered = {name for names in parts.values() for name in names}
        covered |= {name for name in self._committed if self._owners[name] < first}
        self._undone |= self._begun.keys() - covered
        # The job may have restarted since from an older checkpoint, which threw some of them away.
        self._aborted -= covered

    def notified(self, checkpoint_id: int) -> None:
        """A function was told that a checkpoint is complete."""
        self.notifications += 1
        if self._refuses(checkpoint_id):
            raise ValueError(f"did not want to hear of {checkpoint_id}")

    def begin(self, owner: int) -> str:
        """Start a transaction of one owner."""
        name = f"t{len(self._begun) + 1}"
        self._begun[name] = []
        self._owners[name] = owner
        return name

    def write(self, name: str, values: list[Any]) -> None:
        """Add values to a transaction. One that was aborted takes them, and forgets them."""
        if name in self._prepared:
            self.problems.append(f"transaction {name} is written to after it was prepared")
        self._begun[name] += values

    def pre_commit(self, name: str) -> None:
        """Make the values of a transaction durable, but not visible."""
        self._prepared.add(name)

    def prepare(self, owner: int, values: list[Any]) -> str:
        """Make values durable in a transaction of their own."""
        name = self.begin(owner)
        self.write(name, values)
        self.pre_commit(name)
        return name

    def commit(self, name: str) -> None:
        """Make a transaction visible; a second time changes nothing."""
        if name not in self._prepared:
            self.problems.append(f"transaction {name} is committed, but was not prepared")
        if name in self._aborted:
            self.problems.append(f"transaction {name} is committed, but was aborted")
        self._committed[name] = None

    def abort(self, name: str) -> None:
        """Throw a transaction away."""
        if name in self._committed:
            self.problems.append(f"transaction {name} is aborted, but was committed")
        self._aborted.add(name)

    def values(self, name: str) -> list[Any]:
        """What was written to a transaction."""
        return list(self._begun[name])

    def visible(self) -> list[Any]:
        """Everything that readers see."""
        seen = (name for name in self._committed if name not in self._undone)
        return [value for name in seen for value in self._begun[name]]


def _opens(uid: str) -> None:
    """Every source can be opened."""


_outside = ExternalSystem(lambda checkpoint_id: False, _opens)


def external_system() -> ExternalSystem:
    """The outside world of the run that is under way; operators find it by themselves."""
    return _outside


def new_external_system(
    refuses: Callable[[int], bool], opening: Callable[[str], None] = _opens
) -> ExternalSystem:
    """A fresh outside world for the next run."""
    global _outside
    _outside = ExternalSystem(refuses, opening)
    return _outside
