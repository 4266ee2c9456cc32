"""The forms of dataclasses and of pydantic models: structs of their fields.

Instances are made as unpickling makes them: `__init__`, `__post_init__` and validators do not run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from ...common.errors import StateMigrationError
from ...common.type_system.class_types import ClassKind, ClassTypeInfo
from ...common.type_system.type_inference import is_missing
from ...common.types import Row
from .composite_layouts import RowLayout, StructLayout
from .value_layouts import ValueLayout, checked


def class_layout(type_info: ClassTypeInfo, fields: list[ValueLayout]) -> StructLayout:
    """The form of a class; of rows where the class is unknown."""
    names = type_info.get_field_names()
    if type_info.python_class is None:
        return _UnknownClassLayout(tuple(names), names, fields)
    return ClassLayout(type_info.kind, type_info.python_class, names, fields)


class _UnknownClassLayout(RowLayout):
    """Rows for instances of a class that is not here. They may have more or fewer names than the class."""

    def parts(self, value: Any) -> Iterable[Any] | None:
        if type(value) is not Row or value._fields is None:
            return super().parts(value)
        by_name = value.as_dict()
        return [by_name.get(name) for name in self._names]


class ClassLayout(StructLayout):
    """Instances of exactly one class; those with more or fewer attributes are encoded by themselves.

    The encoding is a row of their attributes, so that it can be read without the class.
    """

    def __init__(
        self, kind: ClassKind, python_class: type[Any], names: list[str], fields: list[ValueLayout]
    ) -> None:
        self._class = python_class
        self._has_dict = not _has_slots(python_class)
        self._is_pydantic = kind is ClassKind.PYDANTIC
        super().__init__(names, fields, _getter(names), self._maker(names))
        is_frozen = not self._is_pydantic and python_class.__dataclass_params__.frozen
        self.immutable = is_frozen and all(layout.immutable for layout in fields)

    def are_whole(self, values: list[Any]) -> bool:
        if set(map(type, values)) != {self._class}:
            return False
        if self._has_dict and set(map(len, map(vars, values))) != {len(self._names)}:
            return False
        return not (self._is_pydantic and any(v.__pydantic_private__ or v.__pydantic_extra__ for v in values))

    def parts(self, value: Any) -> Iterable[Any] | None:
        if type(value) is not self._class:
            return None
        return [getattr(value, name, None) for name in self._names]

    def to_encoded(self, value: Any) -> Any:
        layouts = dict(zip(self._names, self._fields))
        found = fields_of_instance(value, self._names)
        found |= vars(value) if self._has_dict else {}
        if self._is_pydantic:
            found |= (value.__pydantic_extra__ or {}) | (value.__pydantic_private__ or {})
        parts = {
            name: layouts[name].to_encoded(part) if name in layouts and part is not None else part
            for name, part in found.items()
        }
        return Row(**parts)

    def from_encoded(self, data: Any) -> Any:
        if type(data) is not Row or data._fields is None:
            return checked(self, data)
        layouts = dict(zip(self._names, self._fields))
        parts = {
            name: layouts[name].from_encoded(part) if name in layouts and part is not None else part
            for name, part in data.as_dict().items()
        }
        if self._is_pydantic:
            return _model(self._class, self._names, parts)
        instance = object.__new__(self._class)
        for name, part in parts.items():
            object.__setattr__(instance, name, part)
        return instance

    def _maker(self, names: list[str]) -> Callable[[Any], Any]:
        python_class = self._class
        if self._is_pydantic:
            return _model_maker(python_class, names)
        new = object.__new__
        if self._has_dict:

            def make(parts: Any) -> Any:
                instance = new(python_class)
                instance.__dict__.update(zip(names, parts))
                return instance

            return make
        put = object.__setattr__

        def make_slotted(parts: Any) -> Any:
            instance = new(python_class)
            for name, part in zip(names, parts):
                put(instance, name, part)
            return instance

        return make_slotted


def default_of(type_info: ClassTypeInfo, name: str) -> Any:
    """The value that a field gets which older values lack: its default, or None.

    Raises:
        StateMigrationError: when the default factory fails.
    """
    if type_info.python_class is None:
        return None
    try:
        return _declared_default(type_info, name)
    except Exception as error:
        raise StateMigrationError(
            f"the default of the field {name!r} of {type_info.class_name}, which stored values do not have, "
            f"cannot be made: {error}; give the field a plain default"
        ) from error


def _declared_default(type_info: ClassTypeInfo, name: str) -> Any:
    python_class: Any = type_info.python_class
    if type_info.kind is ClassKind.PYDANTIC:
        field = python_class.model_fields[name]
        return None if field.is_required() else field.get_default(call_default_factory=True)
    (found,) = (field for field in dataclasses.fields(python_class) if field.name == name)
    factory: Any = found.default_factory
    if not is_missing(factory):
        return factory()
    return None if is_missing(found.default) else found.default


def fields_of_instance(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """The fields that an instance, or a row of the same fields, has."""
    if isinstance(value, Row):
        return value.as_dict()
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _model(python_class: Any, names: list[str], parts: dict[str, Any]) -> Any:
    """A model with attributes that it declares, private ones and extra ones."""
    declared = {name: part for name, part in parts.items() if name in names}
    private = {name: part for name, part in parts.items() if name in python_class.__private_attributes__}
    extra = {name: part for name, part in parts.items() if name not in declared and name not in private}
    instance = python_class.__new__(python_class)
    instance.__setstate__(
        {
            "__dict__": declared,
            "__pydantic_extra__": extra if python_class.model_config.get("extra") == "allow" else None,
            "__pydantic_fields_set__": {*declared, *extra},
            "__pydantic_private__": private if python_class.__private_attributes__ else None,
        }
    )
    return instance


def _model_maker(python_class: Any, names: list[str]) -> Callable[[Any], Any]:
    new = python_class.__new__
    has_extra = python_class.model_config.get("extra") == "allow"
    has_private = bool(python_class.__private_attributes__)

    def make(parts: Any) -> Any:
        instance = new(python_class)
        instance.__setstate__(
            {
                "__dict__": dict(zip(names, parts)),
                "__pydantic_extra__": {} if has_extra else None,
                "__pydantic_fields_set__": set(names),
                "__pydantic_private__": {} if has_private else None,
            }
        )
        return instance

    return make


def _getter(names: list[str]) -> Callable[[Any], Any]:
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda value: (one(value),)
    return attrgetter(*names)


def _has_slots(python_class: type[Any]) -> bool:
    return any("__slots__" in base.__dict__ for base in python_class.__mro__[:-1])
