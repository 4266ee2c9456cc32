"""Which map keys a map state takes: those of its declared type that have a deterministic encoding."""

from __future__ import annotations

from typing import Any

from ...common.errors import KeyTypeError, StateError
from ...common.type_system.type_structure import ScalarOf, structure_of
from ...common.typeinfo import PickledBytesTypeInfo, TypeInformation, type_text
from ..serializers.codecs import value_codec
from ..serializers.key_codec import PLAIN_KEY_TYPES, encode_map_key


class MapKeys:
    """The map keys of one state.

    Args:
        where: operator and subtask, for error messages.
        state_name: for error messages.
        type_info: the declared type of the map keys.

    Attributes:
        plain_types: a key that is exactly of one of these types needs no further look.
    """

    def __init__(self, where: str, state_name: str, type_info: TypeInformation) -> None:
        self._where = f"{where}: state {state_name!r}"
        self._type_text = type_text(type_info)
        is_undeclared = isinstance(type_info, PickledBytesTypeInfo)
        self._codec = None if is_undeclared else value_codec(type_info)
        self.plain_types = PLAIN_KEY_TYPES if is_undeclared else _plain_types_of(type_info)

    def check(self, key: Any) -> None:
        """Look at a key that is of no plain type.

        Raises:
            KeyTypeError: it has no deterministic encoding.
            StateError: it is not of the declared type.
        """
        try:
            encode_map_key(key)
        except KeyTypeError as error:
            raise KeyTypeError(f"{self._where}, map key: {error}") from error
        if self._codec is None:
            return
        try:
            self._codec.encode_many([key])
        except StateError as error:
            raise StateError(
                f"{self._where}, map key {key!r:.100} is not of the type {self._type_text}: {error}; "
                f"use keys of the declared type, or declare another in the MapStateDescriptor"
            ) from error


def _plain_types_of(type_info: TypeInformation) -> frozenset[type]:
    structure = structure_of(type_info)
    return PLAIN_KEY_TYPES & {structure.python_type} if isinstance(structure, ScalarOf) else frozenset()
