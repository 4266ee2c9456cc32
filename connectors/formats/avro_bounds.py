"""Bounds on what an Avro record may expand to, checked before it is decoded.

Two things in a record cost far more than the bytes that declare them: an array of items that take no bytes
(five bytes can declare a billion nulls), and a record within a record within a record, of which each takes
a byte and a frame of the decoder's stack, which has no guard. Schemas that allow neither are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...common.errors import SerializationError

MAX_DEPTH = 256
"""How deeply records may be nested, where the schema sets no bound by itself."""

MAX_EMPTY_ITEMS = 65_536
"""How many items without bytes a record may have."""

_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS = ("int", "long", "enum")
_LENGTHS = ("bytes", "string")
_RECORDS = ("record", "error")
_NAMED = (*_RECORDS, "enum", "fixed")
_LONGEST_VARINT = 10


class AvroBounds:
    """Checks the records of one schema.

    Args:
        schema: As the records were written, parsed by fastavro.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._names: dict[str, Any] = {}
        self._is_needed = False
        self._look_at(schema, frozenset())

    def check(self, data: bytes, start: int) -> None:
        """Check the record that begins at an offset.

        Raises:
            SerializationError: It expands too far, or ends too soon.
        """
        if self._is_needed:
            _Walk(self._names, data, start).run(self._schema)

    def _look_at(self, schema: Any, around: frozenset[str]) -> None:
        """Collect the named types of a schema, and find out whether its records need the check."""
        kind, schema = _resolved(schema, self._names)
        if kind in _RECORDS:
            if schema["name"] in around:
                self._is_needed = True
                return
            around |= {schema["name"]}
        if kind in _NAMED:
            self._names[schema["name"]] = schema
        for part in _parts_of(kind, schema):
            self._look_at(part, around)
        if kind == "array" and _takes_no_bytes(schema["items"], self._names):
            self._is_needed = True


class _Items(NamedTuple):
    """Items of a block that are still to be read."""

    kinds: tuple[Any, ...]
    left: int


class _Blocks(NamedTuple):
    """A collection whose next block is to be read."""

    kinds: tuple[Any, ...]


class _End(NamedTuple):
    """The end of a record."""


class _Walk:
    """Passes over one record without making anything of it; a stack of its own holds what is to come."""

    def __init__(self, names: Mapping[str, Any], data: bytes, at: int) -> None:
        self._names = names
        self._data = data
        self._at = at
        self._depth = 0
        self._empty_items = 0

    def run(self, schema: Any) -> None:
        ahead = [schema]
        while ahead:
            ahead.extend(self._next(ahead.pop()))

    def _next(self, schema: Any) -> Iterator[Any]:
        """Read what comes next. Yields what is to be read after it, last first."""
        if isinstance(schema, _Items):
            if schema.left > 1:
                yield schema._replace(left=schema.left - 1)
            yield from schema.kinds
        elif isinstance(schema, _Blocks):
            yield from self._block(schema)
        elif isinstance(schema, _End):
            self._depth -= 1
        else:
            yield from self._value(*_resolved(schema, self._names))

    def _value(self, kind: str, schema: Any) -> Iterator[Any]:
        if kind in _RECORDS:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise SerializationError(f"a message nests Avro records more than {MAX_DEPTH} deep")
            yield _End()
            yield from (field["type"] for field in reversed(schema["fields"]))
        elif kind == "union":
            yield self._branch(schema)
        elif kind == "array":
            yield _Blocks((schema["items"],))
        elif kind == "map":
            yield _Blocks((schema["values"], "string"))
        elif kind in _VARINTS:
            self._varint()
        elif kind in _LENGTHS:
            self._skip(self._varint())
        else:
            self._skip(schema["size"] if kind == "fixed" else _FIXED_SIZES[kind])

    def _branch(self, branches: Any) -> Any:
        branch = self._varint()
        if not 0 <= branch < len(branches):
            raise SerializationError(f"a message names branch {branch} of an Avro union of {len(branches)}")
        return branches[branch]

    def _block(self, blocks: _Blocks) -> Iterator[Any]:
        count = self._varint()
        if count < 0:
            count = -count
            self._varint()
        if not count:
            return
        yield blocks
        if len(blocks.kinds) == 1 and _takes_no_bytes(blocks.kinds[0], self._names):
            self._empty_items += count
            if self._empty_items > MAX_EMPTY_ITEMS:
                raise SerializationError(
                    f"a message declares {self._empty_items} Avro items that take no bytes; at most "
                    f"{MAX_EMPTY_ITEMS} are read"
                )
        elif count > len(self._data) - self._at:
            raise SerializationError(
                f"a message declares an Avro block of {count} items and has {len(self._data) - self._at} "
                f"bytes left"
            )
        else:
            yield _Items(blocks.kinds, count)

    def _varint(self) -> int:
        result = 0
        for position in range(_LONGEST_VARINT):
            if self._at >= len(self._data):
                break
            byte = self._data[self._at]
            self._at += 1
            result |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
        raise SerializationError("a message ends in the middle of an Avro record")

    def _skip(self, size_bytes: int) -> None:
        self._at += size_bytes
        if size_bytes < 0 or self._at > len(self._data):
            raise SerializationError("a message ends in the middle of an Avro record")


def _resolved(schema: Any, names: Mapping[str, Any]) -> tuple[str, Any]:
    """The kind of a schema, and the schema itself instead of its name."""
    while True:
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema not in names:
                return schema, {}
            schema = names[schema]
        elif isinstance(schema["type"], str) and schema["type"] not in names:
            return schema["type"], schema
        else:
            schema = schema["type"]


def _parts_of(kind: str, schema: Any) -> list[Any]:
    if kind in _RECORDS:
        return [field["type"] for field in schema["fields"]]
    if kind == "union":
        return list(schema)
    return [schema[part] for part in ("items", "values") if part in schema]


def _takes_no_bytes(schema: Any, names: Mapping[str, Any]) -> bool:
    kind, schema = _resolved(schema, names)
    if kind in _RECORDS:
        return all(_takes_no_bytes(field["type"], names) for field in schema["fields"])
    return kind == "null" or (kind == "fixed" and schema["size"] == 0)
