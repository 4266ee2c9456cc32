"""Codecs that users write for types of their own, and the registry of them."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from ..errors import ConfigurationError

__all__ = ["TypeCodec", "register_type_codec", "registered_codec"]

T = TypeVar("T")


class TypeCodec(ABC, Generic[T]):
    """Turns the values of one Python type into bytes and back.

    A codec travels with the job, so it must be picklable. Snapshots hold its bytes in a binary column,
    and its name: change the name when the encoding changes.

    Attributes:
        name: a short text, unique in the job.
        python_type: the class whose instances it takes; None leaves that to `encode`.
        immutable: whether values cannot change in place. State then needs no private copies of them.
    """

    name: str
    python_type: type[T] | None = None
    immutable: bool = False

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """The bytes of a value, which is never None."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """The value that `encode` gave `data` for."""


class _UuidCodec(TypeCodec[UUID]):
    name = "uuid"
    python_type = UUID
    immutable = True

    def encode(self, value: UUID) -> bytes:
        return value.bytes

    def decode(self, data: bytes) -> UUID:
        return UUID(bytes=data)


class _TimedeltaCodec(TypeCodec[timedelta]):
    """Days, seconds and microseconds, little-endian: a timedelta in microseconds exceeds 64 bits."""

    name = "timedelta"
    python_type = timedelta
    immutable = True
    _struct = struct.Struct("<iii")

    def encode(self, value: timedelta) -> bytes:
        return self._struct.pack(value.days, value.seconds, value.microseconds)

    def decode(self, data: bytes) -> timedelta:
        return timedelta(*self._struct.unpack(data))


_registry: dict[type[Any], TypeCodec[Any]] = {UUID: _UuidCodec(), timedelta: _TimedeltaCodec()}


def register_type_codec(python_type: type[T], codec: TypeCodec[T]) -> None:
    """Use `codec` wherever `Types.of` meets `python_type`, also as a field of a dataclass.

    The registry belongs to the process: register at import time of the module that defines the type.
    Registering a type again replaces its codec.

    Raises:
        ConfigurationError: when the arguments are not a class and a codec with a name.
    """
    if not isinstance(python_type, type):
        raise ConfigurationError(f"register_type_codec needs a class, got {python_type!r}")
    if not isinstance(codec, TypeCodec) or not getattr(codec, "name", None):
        raise ConfigurationError(
            f"register_type_codec needs an instance of a TypeCodec with a name, got {codec!r}"
        )
    _registry[python_type] = codec


def registered_codec(python_type: type[Any]) -> TypeCodec[Any] | None:
    """The codec registered for exactly this type, or None."""
    return _registry.get(python_type)
