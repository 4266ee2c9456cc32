"""Where the handles of a keyed backend find the current key, and what merging windows ask of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Protocol

from ...common.errors import StateError


class KeyContext(Protocol):
    """What handles need of their backend."""

    @property
    def current_key(self) -> Any:
        """The key in the tables; None while no key is set."""

    @property
    def where(self) -> str:
        """Operator and subtask, for error messages."""

    def table_keys(self, keys: Sequence[Any]) -> Sequence[Any]:
        """What many keys are in the tables."""

    def check_owned(self, keys: Sequence[Any]) -> None:
        """Raise `StateError` if a key belongs to another subtask."""


class NamespaceContext(KeyContext, Protocol):
    """What handles of namespaced states need of it."""

    @property
    def current_namespace(self) -> Any:
        """The namespace; None while none is set."""


class MergeableState(ABC):
    """A state whose contents in one namespace can be merged into those in another."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_namespaced(self) -> bool:
        """Whether the state was declared with namespaces."""

    @abstractmethod
    def take(self) -> Any:
        """Remove what is stored for the current key and namespace, and return it; None when nothing is."""

    @abstractmethod
    def merge(self, taken: Any) -> None:
        """Add what was taken elsewhere, behind what is there."""

    @abstractmethod
    def stored(self, key: Any, namespace: Any) -> Any:
        """What is stored for a key and namespace, such as an accumulator; None when nothing is.

        It is private to the caller. The state must have been declared with namespaces.
        """

    @abstractmethod
    def stored_many(self, entries: Sequence[tuple[Any, Any]]) -> list[Any]:
        """The same of many pairs of key and namespace."""

    @abstractmethod
    def store_many(self, entries: Sequence[tuple[Any, Any]], values: Sequence[Any]) -> None:
        """Replace what is stored for many pairs of key and namespace; None removes it."""


class NamespacedKeys:
    """The context of namespaced states: their keys are pairs of the current key and namespace."""

    __slots__ = ("_backend", "where")

    def __init__(self, backend: NamespaceContext) -> None:
        self._backend = backend
        self.where = backend.where

    @property
    def current_key(self) -> Any:
        """The pair; None while no key is set."""
        backend = self._backend
        key, namespace = backend.current_key, backend.current_namespace
        if namespace is None and key is not None:
            raise self._no_namespace()
        return None if key is None else (key, namespace)

    def table_keys(self, keys: Sequence[Any]) -> Sequence[Any]:
        """The pairs of many keys and the current namespace."""
        namespace = self._backend.current_namespace
        if namespace is None:
            raise self._no_namespace()
        return list(zip(keys, repeat(namespace)))

    def check_owned(self, keys: Sequence[Any]) -> None:
        """Raise `StateError` if a key belongs to another subtask."""
        self._backend.check_owned(keys)

    def _no_namespace(self) -> StateError:
        return StateError(
            f"{self.where}: a namespaced state was used while no namespace is set; set "
            f"current_namespace of the keyed backend first"
        )


class Named(Protocol):
    """A table as errors name it."""

    @property
    def name(self) -> str:
        """Of the state."""


def no_key(context: KeyContext, table: Named) -> StateError:
    """The error for a state that is used while no key is set."""
    return StateError(
        f"{context.where}: keyed state {table.name!r} was used while no key is set; use it only while "
        f"a record or a timer is processed, not in open() or close()"
    )
