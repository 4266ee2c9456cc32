"""Types of user-written classes: dataclasses, pydantic models, enums, and types with a codec of their own.

Such a type names the class in its text, so that a snapshot can be read where the class is not: then
`python_class` (or `codec`) is None, and the values are rows, names or bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..errors import ConfigurationError
from .declared_types import TypeInformation, name_text, type_text
from .type_codecs import TypeCodec

__all__ = ["ClassField", "ClassKind", "ClassTypeInfo", "CustomTypeInfo", "EnumTypeInfo", "class_name_of"]


class ClassKind(Enum):
    """How a class declares its fields; the value is what `repr` prints."""

    DATACLASS = "DataclassTypeInfo"
    PYDANTIC = "PydanticTypeInfo"


@dataclass(frozen=True)
class ClassField:
    """One field of a class.

    Attributes:
        is_optional: whether the field has a default or may be None, so that older values may lack it.
    """

    name: str
    type_info: TypeInformation
    is_optional: bool = False


@dataclass(frozen=True, repr=False)
class ClassTypeInfo(TypeInformation):
    """A dataclass or a pydantic model, field by field. Obtain one from `Types.DATACLASS` or `.PYDANTIC`.

    Attributes:
        class_name: module and qualified name, as in `package.module.Class`.
        python_class: None where the type was read from a snapshot; its values are then named rows.
    """

    kind: ClassKind
    class_name: str
    fields: tuple[ClassField, ...]
    python_class: type[Any] | None = None

    def get_field_names(self) -> list[str]:
        """Returns the names of the fields, in the order of the class."""
        return [each.name for each in self.fields]

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields, in the order of the class."""
        return [each.type_info for each in self.fields]

    def __repr__(self) -> str:
        named = ", ".join(f"{each.name}: {each.type_info!r}" for each in self.fields)
        return f"{self.kind.value}({self.class_name}: {named})"

    def _text(self) -> str:
        fields = (
            f"{name_text(each.name)}{'?' if each.is_optional else ''}: {type_text(each.type_info)}"
            for each in self.fields
        )
        return f"{self.kind.name}({_class_name_text(self.class_name)}; {', '.join(fields)})"


@dataclass(frozen=True, repr=False, init=False)
class EnumTypeInfo(TypeInformation):
    """A member of an `enum.Enum`, stored by its name.

    Attributes:
        member_names: the names of all members, aliases left out.
        python_class: None where the type was read from a snapshot; its values are then the names.
    """

    class_name: str
    member_names: tuple[str, ...]
    python_class: type[Enum] | None

    def __init__(
        self, class_name: str, member_names: Sequence[str], python_class: type[Enum] | None = None
    ) -> None:
        object.__setattr__(self, "class_name", class_name)
        object.__setattr__(self, "member_names", tuple(member_names))
        object.__setattr__(self, "python_class", python_class)

    def __repr__(self) -> str:
        return f"EnumTypeInfo({self.class_name})"

    def _text(self) -> str:
        return f"ENUM({_class_name_text(self.class_name)}; {', '.join(map(name_text, self.member_names))})"


@dataclass(frozen=True, repr=False)
class CustomTypeInfo(TypeInformation):
    """Values that a `TypeCodec` turns into bytes. Obtain one from `Types.CUSTOM`.

    Attributes:
        codec_name: `TypeCodec.name`.
        codec: None where the type was read from a snapshot; its values are then the bytes. Two types
            are equal when the names are.
    """

    codec_name: str
    codec: TypeCodec[Any] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"CustomTypeInfo({self.codec_name})"

    def _text(self) -> str:
        return f"CUSTOM({name_text(self.codec_name)})"


def custom_type(codec: TypeCodec[Any]) -> CustomTypeInfo:
    """The type of the values of a codec.

    Raises:
        ConfigurationError: the argument is no codec, or has no name.
    """
    if not isinstance(codec, TypeCodec):
        raise ConfigurationError(f"Types.CUSTOM needs an instance of a TypeCodec, got {codec!r}")
    if not isinstance(codec.name, str) or not codec.name:
        raise ConfigurationError(
            f"the codec {type(codec).__name__} needs a name: a short text that snapshots store, and that "
            f"changes when the encoding does"
        )
    return CustomTypeInfo(codec.name, codec)


def class_name_of(python_class: type[Any]) -> str:
    """Module and qualified name of a class, as type texts give it."""
    return f"{python_class.__module__}.{python_class.__qualname__}"


def _class_name_text(class_name: str) -> str:
    is_plain = all(part.isidentifier() for part in class_name.split("."))
    return class_name if is_plain else json.dumps(class_name)
