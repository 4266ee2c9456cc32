"""Values as bytes, for sources and sinks that carry bytes (names of `pyflink.common.serialization`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import SerializationError
from .typeinfo import TypeInformation, Types

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Turns values into bytes."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the bytes of one value.

        Raises:
            SerializationError: it is of a kind that this schema has no bytes for.
        """


class DeserializationSchema(ABC):
    """Turns bytes into values."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the value of one message.

        Raises:
            SerializationError: the message is none that this schema writes.
        """

    def deserialize_batch(self, messages: Sequence[bytes]) -> Any:
        """Return the values of many messages, in order: a list, or an Arrow RecordBatch with a row for each.

        By default it calls `deserialize` for each. Whoever calls it finds out which message is bad by
        calling it again with fewer.
        """
        return list(map(self.deserialize, messages))

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""


@dataclass(frozen=True)
class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text.

    Args:
        charset: name of its encoding.
    """

    charset: str = "UTF-8"

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise SerializationError(f"SimpleStringSchema takes text, not {value!r}; convert it with str()")
        return value.encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        try:
            return bytes(message).decode(self.charset)
        except UnicodeDecodeError as error:
            raise SerializationError(f"a message is no {self.charset} text: {error}") from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> Any:
        if type(self) is not SimpleStringSchema:
            # A subclass may have a deserialize() of its own.
            return super().deserialize_batch(messages)
        try:
            charset = self.charset
            return [message.decode(charset) for message in messages]
        except UnicodeDecodeError as error:
            raise SerializationError(f"a message is no {self.charset} text: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


@dataclass(frozen=True)
class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise SerializationError(f"ByteArraySchema takes bytes, not {value!r}")
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        return bytes(message)

    def deserialize_batch(self, messages: Sequence[bytes]) -> Any:
        return messages if type(self) is ByteArraySchema else super().deserialize_batch(messages)

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


@dataclass(frozen=True)
class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row or a tuple, which must be bytes; for the key of a message.

    Args:
        field_index: position of the field, from 0.
    """

    field_index: int

    def __post_init__(self) -> None:
        if self.field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {self.field_index}")

    def serialize(self, value: Sequence[Any]) -> bytes:
        if len(value) <= self.field_index:
            raise SerializationError(f"{value!r} has no field {self.field_index}")
        field = value[self.field_index]
        if not isinstance(field, (bytes, bytearray)):
            raise SerializationError(f"field {self.field_index} of {value!r} must be bytes; encode it before")
        return bytes(field)


@dataclass(frozen=True)
class BulkWriterFactory:
    """What `FileSink.for_bulk_format` writes: `ParquetBulkWriters`, `CsvBulkWriters` and others make it.

    Attributes:
        file_format: The `FileFormat` of the files.
        schema: Their columns, a `pyarrow.Schema`.
    """

    file_format: Any
    schema: Any


@dataclass(frozen=True)
class Encoder:
    """Writes records to the files of a sink, each as a line. Obtain one from the static methods."""

    charset: str

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return the encoder that writes `str()` of every record."""
        return Encoder(charset_name)

    def encode(self, record: Any) -> bytes:
        """Return the line of a record, with its line feed."""
        return f"{record}\n".encode(self.charset)
