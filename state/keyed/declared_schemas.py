"""The schemas of the keyed states of one operator in one subtask: restored, declared, and renamed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping

from ...common.errors import StateError
from ...common.typeinfo import PickledBytesTypeInfo, type_text
from ..backend import KeyedStateBackendParameters
from ..claims import Claims
from ..descriptors import StateDescriptor
from ..evolution import check_restored_schema

logger = logging.getLogger(__name__)

Schemas = dict[str, dict[str, object]]


class DeclaredSchemas:
    """Belongs to the task's thread, except `marked`.

    Attributes:
        known: By name, those of restored states too. Replaced, never changed: a frozen epoch refers to the
            dict of its time.
        claims: Which restored states are declared.

    Args:
        where: The operator and the subtask, for messages.
    """

    def __init__(self, params: KeyedStateBackendParameters, where: str) -> None:
        self.known: Schemas = {}
        self.claims = Claims()
        self._operator_name = params.operator_name
        self._where = where
        key_type = params.key_type
        is_typed = key_type is not None and not isinstance(key_type, PickledBytesTypeInfo)
        self._key_type = type_text(key_type) if key_type is not None and is_typed else None

    def restore(self, descriptors: Mapping[str, Mapping[str, object]]) -> None:
        """Start with those of a snapshot."""
        self.known = {name: self.claims.restored(name, schema) for name, schema in descriptors.items()}

    def check_same(self, descriptor: StateDescriptor, namespaced: bool) -> None:
        """A state is declared again.

        Raises:
            StateError: In another way.
        """
        name, schema = descriptor.get_name(), self._of(descriptor, namespaced)
        if self.known[name] != schema:
            raise StateError(
                f"{self._where}: state {name!r} is already declared as {self.known[name]}, not "
                f"as {schema}; use one descriptor per name"
            )

    def declare(
        self,
        descriptor: StateDescriptor,
        namespaced: bool,
        declared: Container[str],
        rename: Callable[[str, str], None],
    ) -> dict[str, object]:
        """The schema of a state that is declared now; it counts from `add` on.

        Args:
            declared: Names of the states that are declared already.
            rename: Gives what is stored under one name another one.

        Raises:
            StateMigrationError: What is restored does not fit it.
        """
        name, schema = descriptor.get_name(), self._of(descriptor, namespaced)
        stored_as = name if name in self.known else None
        for previous in descriptor.previous_names:
            if previous in self.known and previous not in declared:
                rename(previous, name)
                others = dict(self.known)
                before = others.pop(previous)
                self.known = {name: before, **others}
                stored_as = previous
        warning = self.claims.declared(name, stored_as)
        if warning is not None:
            logger.warning("%s: %s", self._where, warning)
        if name in self.known:
            check_restored_schema(self._operator_name, name, self.known[name], schema)
        return schema

    def add(self, name: str, schema: dict[str, object]) -> None:
        """Have a state in all snapshots from now on."""
        self.known = {**self.known, name: schema}

    def marked(self, schemas: Schemas) -> Schemas:
        """Schemas as a snapshot has them."""
        return {name: self.claims.marked(name, schema) for name, schema in schemas.items()}

    def _of(self, descriptor: StateDescriptor, namespaced: bool) -> dict[str, object]:
        schema = descriptor.schema()
        if self._key_type is not None:
            schema["key_type"] = self._key_type
        if namespaced:
            schema["namespaced"] = True
        return schema
