"""The world outside the simulated job: it survives every crash."""

from __future__ import annotations

from typing import Any


class Outside:
    """Transactions as an external system keeps them, and what the operators found wrong."""

    def __init__(self) -> None:
        self.prepared: dict[str, list[Any]] = {}
        self.committed: dict[str, list[Any]] = {}
        self.problems: list[str] = []

    def prepare(self, values: list[Any]) -> str:
        """Make values durable, but not visible."""
        name = f"t{len(self.prepared) + 1}"
        self.prepared[name] = values
        return name

    def commit(self, name: str) -> None:
        """Make a transaction visible; a second time changes nothing."""
        self.committed[name] = self.prepared[name]

    def visible(self) -> list[Any]:
        """Everything that readers see."""
        return [value for values in self.committed.values() for value in values]


_outside = Outside()


def outside() -> Outside:
    """The outside world of the run that is under way; operators find it by themselves."""
    return _outside


def new_outside() -> Outside:
    """A fresh outside world for the next run."""
    global _outside
    _outside = Outside()
    return _outside
