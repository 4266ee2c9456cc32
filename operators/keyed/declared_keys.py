"""Checks that keys have the type that `key_by()` declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...common.errors import KeyTypeError
from ...common.type_system.type_conversion import WrongValueError, converter_of
from ...common.typeinfo import BasicType, BasicTypeInfo, TypeInformation, type_text

_INT64_HOLDERS = (BasicType.LONG, BasicType.BIG_INT)
_COLUMN_TYPES = {
    BasicType.STRING: (pa.types.is_string, pa.types.is_large_string),
    BasicType.BOOLEAN: (pa.types.is_boolean,),
    **dict.fromkeys(
        (BasicType.BYTE, BasicType.SHORT, BasicType.INT, *_INT64_HOLDERS), (pa.types.is_integer,)
    ),
}
_ADVICE = "correct the key selector, or the key_type of key_by()"


class DeclaredKeys:
    """The check of one operator. Keys stay as they are; a key of another type is an error.

    Without the check, state would be stored under keys that contradict its own schema.

    Args:
        declared: The type that `key_by()` declares, `None` for any.
    """

    def __init__(self, declared: TypeInformation | None) -> None:
        self._declared = declared
        self._converter = None if declared is None else converter_of(declared)
        self._basic = declared.basic_type if isinstance(declared, BasicTypeInfo) else None

    def check(self, keys: Sequence[Any], where: str, are_integers: bool) -> None:
        """Check the keys of a batch.

        Args:
            keys: All of them.
            where: The operator and subtask, for errors.
            are_integers: Whether they are known to be integers of 64 bits.

        Raises:
            KeyTypeError: A key does not have the declared type.
        """
        if self._converter is None or (are_integers and self._basic in _INT64_HOLDERS):
            return
        try:
            self._converter(keys)
        except (WrongValueError, OverflowError) as error:
            raise KeyTypeError(f"{where}: the key is {error}; {_ADVICE}") from error

    def check_column(self, kind: pa.DataType, where: str) -> None:
        """Check the type of a key column.

        Raises:
            KeyTypeError: The column holds values of another type.
        """
        declared = self._declared
        if not isinstance(declared, BasicTypeInfo):
            return
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        fitting = _COLUMN_TYPES.get(declared.basic_type)
        if fitting is not None and not any(fits(plain) for fits in fitting):
            raise KeyTypeError(
                f"{where}: a column of type {kind} where {type_text(declared)} is declared; {_ADVICE}"
            )
