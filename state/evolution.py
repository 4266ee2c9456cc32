"""Which changes of a state's schema a restore allows.

Allowed, also inside tuples, rows, lists, maps and classes: wider integers (BYTE, SHORT, INT, LONG,
BIG_INT), FLOAT to DOUBLE, fields added to named rows (None in older values) and to classes (their default,
or None), fields removed, fields in another order, enum members added, a class moved to another module.
Keys never change, except that an undeclared key type may be declared and the other way round.

Names and idea after the schema evolution of Apache Flink's POJO and Avro serializers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from ..common.errors import StateMigrationError
from ..common.type_system.class_types import ClassField, ClassTypeInfo, EnumTypeInfo
from ..common.type_system.type_parser import type_from_text
from ..common.type_system.type_structure import ListOf, MapOf, structure_of
from ..common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    type_text,
)
from .claims import without_mark
from .ttl_config import ttl_change_text

ALLOWED = (
    "allowed are wider integers (BYTE, SHORT, INT, LONG, BIG_INT), FLOAT to DOUBLE, fields added to named "
    "rows, fields with a default or an optional type added to classes, and fields removed"
)
_UNDECLARED = type_text(PickledBytesTypeInfo())
_WIDER = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)


class SchemaChangeKind(enum.Enum):
    """How a declared schema relates to a stored one."""

    SAME = "same"
    EVOLVED = "evolved"
    """Stored values are converted when they are read."""
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True)
class SchemaChange:
    """The outcome of comparing two schemas.

    Attributes:
        text: what changes, or why the schemas do not fit; empty for `SAME`.
    """

    kind: SchemaChangeKind
    text: str = ""


class _IncompatibleError(Exception):
    """Two types do not fit; the text says where and why."""


def compare_schemas(restored: Mapping[str, object], now: Mapping[str, object]) -> SchemaChange:
    """Compare the schema of a state in a snapshot with the one a job declares.

    Args:
        restored, now: `StateDescriptor.schema`, with `key_type` where that is declared.
    """
    for name in ("key_type", "map_key_type"):
        before, after = _declared(restored, name), _declared(now, name)
        if before is not None and after is not None and before != after:
            what = "the key type" if name == "key_type" else "the type of the map keys"
            return _incompatible(f"{what} was {before} and is now {after}; keys never change their type")
    ttl_change = ttl_change_text(restored.get("ttl"), now.get("ttl"))
    if ttl_change is not None:
        return _incompatible(ttl_change)
    others = without_mark(restored).keys() | without_mark(now).keys()
    others -= {"key_type", "map_key_type", "value_type", "value_encoding"}
    for name in sorted(others):
        if restored.get(name) != now.get(name):
            return _incompatible(f"{name} was {restored.get(name)} and is now {now.get(name)}")
    try:
        changes = type_changes(
            type_from_text(str(restored["value_type"])), type_from_text(str(now["value_type"]))
        )
    except _IncompatibleError as error:
        return _incompatible(str(error))
    if not changes:
        return SchemaChange(SchemaChangeKind.SAME)
    return SchemaChange(SchemaChangeKind.EVOLVED, "; ".join(changes))


def check_restored_schema(
    operator_name: str, state_name: str, restored: Mapping[str, object], now: Mapping[str, object]
) -> SchemaChange:
    """`compare_schemas`, for a restore that cannot go on without.

    Raises:
        StateMigrationError: naming the operator, the state and both schemas, when they do not fit.
    """
    change = compare_schemas(restored, now)
    if change.kind is SchemaChangeKind.INCOMPATIBLE:
        raise StateMigrationError(
            f"operator {operator_name!r}: state {state_name!r} was stored as {schema_text(restored)} but "
            f"the job now declares {schema_text(now)}: {change.text}. {ALLOWED[0].upper()}{ALLOWED[1:]}. "
            f"Declare the old types, or give the state a new name"
        )
    return change


def schema_text(schema: Mapping[str, object]) -> str:
    """A schema as error messages show it."""
    return "{" + ", ".join(f"{name}: {value}" for name, value in sorted(schema.items())) + "}"


def type_changes(before: TypeInformation, after: TypeInformation, where: str = "the value") -> list[str]:
    """What must happen to values of one type to become values of another; empty when nothing.

    Raises:
        _IncompatibleError: when there is no allowed way.
    """
    if isinstance(before, BasicTypeInfo) and isinstance(after, BasicTypeInfo):
        return _basic_changes(before, after, where)
    if type(before) is not type(after):
        raise _no_way(before, after, where)
    old, new = structure_of(before), structure_of(after)
    if isinstance(old, ListOf) and isinstance(new, ListOf):
        return type_changes(old.element, new.element, f"an element of {where}")
    if isinstance(old, MapOf) and isinstance(new, MapOf):
        in_keys = type_changes(old.key, new.key, f"a key of {where}")
        return in_keys + type_changes(old.value, new.value, f"an entry of {where}")
    if isinstance(before, TupleTypeInfo) and isinstance(after, TupleTypeInfo):
        return _positional_changes(before, after, where)
    if isinstance(before, RowTypeInfo) and isinstance(after, RowTypeInfo):
        if before._field_names is None and after._field_names is None:
            return _positional_changes(before, after, where)
        return _field_changes(_row_fields(before), _row_fields(after), where)
    if isinstance(before, ClassTypeInfo) and isinstance(after, ClassTypeInfo):
        return _class_changes(before, after, where)
    if isinstance(before, EnumTypeInfo) and isinstance(after, EnumTypeInfo):
        return _enum_changes(before, after, where)
    if type_text(before) != type_text(after):
        raise _no_way(before, after, where)
    return []


def _basic_changes(before: BasicTypeInfo, after: BasicTypeInfo, where: str) -> list[str]:
    old, new = before.basic_type, after.basic_type
    if old is new:
        return []
    is_wider_int = old in _WIDER and new in _WIDER and _WIDER.index(old) < _WIDER.index(new)
    if is_wider_int or (old, new) == (BasicType.FLOAT, BasicType.DOUBLE):
        return [f"{where} is widened from {old.name} to {new.name}"]
    raise _no_way(before, after, where)


def _positional_changes(
    before: TupleTypeInfo | RowTypeInfo, after: TupleTypeInfo | RowTypeInfo, where: str
) -> list[str]:
    old, new = before.get_field_types(), after.get_field_types()
    if len(old) != len(new):
        raise _IncompatibleError(
            f"{where} had {len(old)} fields without names and now has {len(new)}; only named fields can be "
            f"added and removed (Types.ROW_NAMED, or a dataclass)"
        )
    changes: list[str] = []
    for index, (old_field, new_field) in enumerate(zip(old, new, strict=True)):
        changes += type_changes(old_field, new_field, f"field {index} of {where}")
    return changes


def _class_changes(before: ClassTypeInfo, after: ClassTypeInfo, where: str) -> list[str]:
    if before.kind is not after.kind:
        raise _no_way(before, after, where)
    moved = _moved_class(before.class_name, after.class_name, where)
    return moved + _field_changes(before.fields, after.fields, where)


def _enum_changes(before: EnumTypeInfo, after: EnumTypeInfo, where: str) -> list[str]:
    moved = _moved_class(before.class_name, after.class_name, where)
    gone = [name for name in before.member_names if name not in after.member_names]
    if gone:
        raise _IncompatibleError(
            f"{where} may be {', '.join(gone)}, which {after.class_name} no longer has; keep these members"
        )
    return moved


def _moved_class(before: str, after: str, where: str) -> list[str]:
    if before == after:
        return []
    if before.rpartition(".")[2] != after.rpartition(".")[2]:
        raise _IncompatibleError(f"{where} was of class {before} and is now of class {after}")
    return [f"the class of {where} moved from {before} to {after}"]


def _row_fields(row: RowTypeInfo) -> tuple[ClassField, ...]:
    named = zip(row.get_field_names(), row.get_field_types(), strict=True)
    return tuple(ClassField(name, field_type, is_optional=True) for name, field_type in named)


def _field_changes(before: tuple[ClassField, ...], after: tuple[ClassField, ...], where: str) -> list[str]:
    old = {field.name: field for field in before}
    new = {field.name: field for field in after}
    kept = [name for name in new if name in old]
    if old and not kept:
        raise _IncompatibleError(
            f"{where} had the fields {', '.join(old)} and now has {', '.join(new) or 'none'}: none is left"
        )
    changes: list[str] = []
    for name, field in new.items():
        if name in old:
            changes += type_changes(old[name].type_info, field.type_info, f"field {name} of {where}")
        elif field.is_optional:
            changes.append(f"field {name} is added to {where}")
        else:
            raise _IncompatibleError(
                f"field {name} is new in {where} and has neither a default nor an optional type"
            )
    changes += [f"field {name} of {where} is removed" for name in old if name not in new]
    if kept != [name for name in old if name in new]:
        changes.append(f"the fields of {where} stand in another order")
    return changes


def _no_way(before: TypeInformation, after: TypeInformation, where: str) -> _IncompatibleError:
    return _IncompatibleError(f"{where} cannot change from {type_text(before)} to {type_text(after)}")


def _declared(schema: Mapping[str, object], name: str) -> object:
    text = schema.get(name)
    return None if text == _UNDECLARED else text


def _incompatible(text: str) -> SchemaChange:
    return SchemaChange(SchemaChangeKind.INCOMPATIBLE, text)
