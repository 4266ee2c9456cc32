"""The fields that `project` keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation


def projection(
    field_indexes: Sequence[int], type_info: TypeInformation | None
) -> tuple[Callable[[Any], tuple[Any, ...]], TypeInformation | None]:
    """The function that picks the fields of a record, and the type of what it gives.

    Args:
        field_indexes: Positions of the fields.
        type_info: Type of the records, if it is known.

    Raises:
        ConfigurationError: The records have no fields, or not these.
    """
    if not field_indexes:
        raise ConfigurationError("project() needs the positions of the fields to keep, such as project(0, 2)")
    for index in field_indexes:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ConfigurationError(f"project() takes positions of fields from 0 on, not {index!r}")
    return _picker(field_indexes), _projected(field_indexes, type_info)


def _projected(indexes: Sequence[int], type_info: TypeInformation | None) -> TypeInformation | None:
    if type_info is None:
        return None
    if not isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        raise ConfigurationError(f"only tuples and rows can be projected, not {type_info!r}; use map()")
    types = type_info.get_field_types()
    missing = [index for index in indexes if index >= len(types)]
    if missing:
        raise ConfigurationError(
            f"project() names field {missing[0]}, but {type_info!r} has {len(types)}, numbered from 0"
        )
    return TupleTypeInfo([types[index] for index in indexes])


def _picker(indexes: Sequence[int]) -> Callable[[Any], tuple[Any, ...]]:
    if len(indexes) > 1:
        return itemgetter(*indexes)
    only = indexes[0]
    return lambda record: (record[only],)
