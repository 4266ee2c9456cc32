"""JSON messages as rows (names of `pyflink.datastream.formats.json`), and as Arrow columns."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...common.errors import ConfigurationError, SerializationError
from ...common.serialization import DeserializationSchema, SerializationSchema
from ...common.type_system.type_conversion import Converter, WrongValueError, converter_of, shortened
from ...common.typeinfo import RowTypeInfo, TypeInformation, Types
from ...common.types import Row


@dataclass(frozen=True)
class JsonRowDeserializationSchema(DeserializationSchema):
    """JSON objects as rows of a declared type. Obtain one from `builder()`.

    Fields that the type does not name are left out, so a producer may add some. A field that is missing is
    `None`, or an error with `fail_on_missing_field`.
    """

    type_info: RowTypeInfo
    fails_on_missing_field: bool = False
    ignores_parse_errors: bool = False

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """What makes a schema."""
        return JsonRowDeserializationSchemaBuilder()

    def deserialize(self, message: bytes) -> Any:
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Row | None]:
        if self.ignores_parse_errors:
            return [self._or_none(message) for message in messages]
        return self._rows(messages)

    def _rows(self, messages: Sequence[bytes]) -> list[Row | None]:
        names = self.type_info.get_field_names()
        try:
            objects = [json.loads(message) for message in messages]
            if set(map(type, objects)) - {dict}:
                raise SerializationError("a message is JSON, but no object")
            if self.fails_on_missing_field:
                self._check_fields(objects, names)
            fields = [tuple(map(found.get, names)) for found in objects]
            return list(self._converter()(fields))
        except RecursionError as error:
            raise SerializationError("a message is JSON that is nested too deeply to be read") from error
        except (ValueError, OverflowError, WrongValueError) as error:
            raise SerializationError(
                f"a message is no JSON object of type {self.type_info}: {error}"
            ) from error

    def _check_fields(self, objects: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
        for found in objects:
            missing = [name for name in names if name not in found]
            if missing:
                raise SerializationError(
                    f"a message lacks the fields {missing}; it has {shortened(sorted(found))}"
                )

    def _converter(self) -> Converter:
        converter = converter_of(self.type_info)
        assert converter is not None, "rows always have one"
        return converter

    def _or_none(self, message: bytes) -> Row | None:
        try:
            return self._rows([message])[0]
        except SerializationError:
            return None

    def get_produced_type(self) -> TypeInformation:
        return self.type_info


class JsonRowDeserializationSchemaBuilder:
    """Makes a `JsonRowDeserializationSchema`; a type is needed."""

    def __init__(self) -> None:
        self._fails, self._ignores = False, False
        self._type_info: TypeInformation | None = None

    def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchemaBuilder:
        """The type of the rows: `Types.ROW_NAMED([...], [...])`."""
        self._type_info = type_info
        return self

    def fail_on_missing_field(self) -> JsonRowDeserializationSchemaBuilder:
        """Take a message without one of the fields as one that cannot be read."""
        self._fails = True
        return self

    def ignore_parse_errors(self) -> JsonRowDeserializationSchemaBuilder:
        """Make no record of a message that cannot be read; nothing counts them."""
        self._ignores = True
        return self

    def build(self) -> JsonRowDeserializationSchema:
        """The schema.

        Raises:
            ConfigurationError: There is no row type.
        """
        return JsonRowDeserializationSchema(_row_type(self._type_info), self._fails, self._ignores)


@dataclass(frozen=True)
class JsonRowSerializationSchema(SerializationSchema):
    """Rows (or tuples) as JSON objects. Obtain one from `builder()`."""

    type_info: RowTypeInfo

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """What makes a schema."""
        return JsonRowSerializationSchemaBuilder()

    def serialize(self, value: Any) -> bytes:
        names = self.type_info.get_field_names()
        fields = list(value)
        if len(fields) != len(names):
            raise SerializationError(f"{shortened(value)} has {len(fields)} fields, the type {len(names)}")
        try:
            return json.dumps(dict(zip(names, fields)), default=_plain).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"{shortened(value)} cannot be written as JSON: {error}") from error


class JsonRowSerializationSchemaBuilder:
    """Makes a `JsonRowSerializationSchema`; a type is needed."""

    def __init__(self) -> None:
        self._type_info: TypeInformation | None = None

    def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchemaBuilder:
        """The type of the rows: `Types.ROW_NAMED([...], [...])`."""
        self._type_info = type_info
        return self

    def build(self) -> JsonRowSerializationSchema:
        """The schema.

        Raises:
            ConfigurationError: There is no row type.
        """
        return JsonRowSerializationSchema(_row_type(self._type_info))


class JsonColumnsSchema(DeserializationSchema):
    """JSON objects as Arrow columns, a whole batch at a time: several times faster than rows.

    Fields that the schema does not name are left out, those that are missing are null.

    Args:
        schema: A `pyarrow.Schema`.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def deserialize(self, message: bytes) -> Any:
        batch = self.deserialize_batch([message])
        return tuple(column[0].as_py() for column in batch.columns)

    def deserialize_batch(self, messages: Sequence[bytes]) -> Any:
        import pyarrow as pa
        import pyarrow.json as pj

        data = b"\n".join(messages)
        options = pj.ParseOptions(
            explicit_schema=self._schema, newlines_in_values=True, unexpected_field_behavior="ignore"
        )
        try:
            # In one block, so that the table is one batch.
            reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
            table = pj.read_json(pa.BufferReader(data), reading, options)
            batch = table.select(self._schema.names).combine_chunks().to_batches()[0]
        except (pa.ArrowException, IndexError) as error:
            raise SerializationError(f"a message is no JSON object of {self._schema}: {error}") from error
        if len(batch) != len(messages):
            raise SerializationError("a message is not one JSON object")
        return batch

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()


def _row_type(type_info: TypeInformation | None) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigurationError(
            f"a JSON schema needs a row type, such as Types.ROW_NAMED(['id'], [Types.LONG()]), not "
            f"{type_info!r}"
        )
    return type_info


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
