"""Which map keys a map state takes: those of its declared type that have a deterministic encoding."""

from __future__ import annotations

from typing import Any

from ...common.errors import KeyTypeError, StateError
from ...common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation, type_text
from ..serializers.codecs import value_codec
from ..serializers.key_codec import PLAIN_KEY_TYPES, encode_map_key

_PLAIN_TYPE_OF = {
    BasicType.STRING: str,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.BIG_INT: int,
    BasicType.BOOLEAN: bool,
}


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
    plain = _PLAIN_TYPE_OF.get(type_info.basic_type) if isinstance(type_info, BasicTypeInfo) else None
    return frozenset() if plain is None else frozenset({plain})
