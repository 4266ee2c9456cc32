"""Reads the fields of a JSON document that came from outside, each with its type and bounds.

Whatever the document holds, the only error is a `CorruptCheckpointError` that names the file and the field.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ...common.errors import CorruptCheckpointError

MAX_INTEGER = (1 << 63) - 1
MAX_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, in milliseconds since the epoch: later ones cannot be shown."""
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_DEPTH = 64
_MAX_DIGITS = 20
_SHOWN = 80


def parse_json(body: bytes) -> Any:
    """Parse JSON from outside.

    Numbers are finite, integers have at most 20 digits, texts can be encoded, and nesting is bounded.

    Raises:
        ValueError: It is not such a document.
    """
    try:
        value = json.loads(body, parse_constant=_finite, parse_float=_finite, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if b"\\ud" in body.lower():
        # Half of a character: the parser takes it, and no file and no answer can hold it.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_document(body: bytes, file: str) -> Fields:
    """Parse the JSON object of a file.

    Raises:
        CorruptCheckpointError: It is not JSON, no object, nested too deeply, or holds a number that is not
            finite.
    """
    try:
        value = parse_json(body)
    except ValueError as error:
        raise CorruptCheckpointError(
            f"{file} is damaged: its content is not a JSON document ({error}). Restore another checkpoint"
        ) from error
    return Fields(value, file, "")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:_SHOWN]} is not a finite number")
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"{text[:_MAX_DIGITS]}… is not an integer of 64 bits")
    return int(text)


class Fields:
    """One JSON object.

    Args:
        value: What the document has in this place.
        file: Path of the document, for errors.
        place: Path in the document, such as `operators[0].subtasks[1]`; empty for its root.
    """

    def __init__(self, value: object, file: str, place: str) -> None:
        self._file = file
        self._place = place
        if not isinstance(value, dict):
            self._fail(None, f"is {_shown(value)}, not an object")
        self._values: Mapping[str, Any] = value

    def has(self, name: str) -> bool:
        """Whether there is a field of this name."""
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self._get(name, default)
        if not isinstance(value, str):
            self._fail(name, f"is {_shown(value)}, not a text")
        return value

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        """A text that is one of some."""
        value = self.text(name)
        if value not in allowed:
            self._fail(name, f"is {_shown(value)}, not one of {', '.join(allowed)}")
        return value

    def sha256(self, name: str, may_be_empty: bool = False) -> str:
        """A SHA-256 in hexadecimal digits. It names local copies of files, so it must be nothing else."""
        value = self.text(name)
        if not (may_be_empty and not value) and not _SHA256.fullmatch(value):
            self._fail(name, f"is {_shown(value)}, not a SHA-256 in hexadecimal digits")
        return value

    def integer(self, name: str, least: int = 0, most: int = MAX_INTEGER) -> int:
        """A number without fraction, within bounds."""
        return self._integer(name, self._get(name), least, most)

    def integers(self, name: str) -> list[int]:
        """A list of numbers without fraction, none of them negative."""
        return [self._integer(name, value, 0, MAX_INTEGER) for value in self._list(name)]

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            self._fail(name, "is not a list of texts")
        return values

    def time_ms(self, name: str) -> int:
        """A moment, in milliseconds since the epoch."""
        return self.integer(name, 0, MAX_TIME_MS)

    def pair(self, name: str, least: int = 0, most: int = MAX_INTEGER) -> tuple[int, int]:
        """Two numbers without fraction, within bounds."""
        values = self._list(name)
        if len(values) != 2:
            self._fail(name, f"has {len(values)} numbers, not 2")
        first, second = (self._integer(name, value, least, most) for value in values)
        return first, second

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._get(name)
        if not isinstance(value, bool):
            self._fail(name, f"is {_shown(value)}, not true or false")
        return value

    def data(self, name: str) -> bytes | None:
        """Bytes in Base64, `None` where there is no such field."""
        value = self._values.get(name)
        if value is None:
            return None
        try:
            return base64.b64decode(value, validate=True)
        except (ValueError, TypeError):
            self._fail(name, "is not Base64")

    def child(self, name: str) -> Fields:
        """An object in this one."""
        return Fields(self._get(name), self._file, self._path(name))

    def children(self, name: str) -> list[Fields]:
        """A list of objects."""
        values = self._list(name)
        return [Fields(value, self._file, f"{self._path(name)}[{n}]") for n, value in enumerate(values)]

    def plain(self, name: str) -> dict[str, Any]:
        """An object whose content has no fixed form."""
        value = self._get(name)
        if not isinstance(value, dict):
            self._fail(name, f"is {_shown(value)}, not an object")
        self._check_depth(name, value, _MAX_DEPTH)
        return value

    def schema(self, name: str) -> dict[str, object]:
        """An object of texts and simple values."""
        value = self.plain(name)
        for key, one in value.items():
            if one is not None and not isinstance(one, (str, int, float)):
                self._fail(f"{name}.{key}", f"is {_shown(one)}, not a simple value")
        return value

    def schemas(self, name: str) -> dict[str, dict[str, object]]:
        """An object of such objects."""
        every = self.child(name)
        return {key: every.schema(key) for key in self.plain(name)}

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise `CorruptCheckpointError` for a field.

        Args:
            name: Of the field.
            problem: A predicate, such as `is below zero`.
        """
        self._fail(name, problem)

    def _get(self, name: str, default: Any = None) -> Any:
        if name not in self._values and default is None:
            self._fail(name, "is missing")
        return self._values.get(name, default)

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        if not isinstance(value, list):
            self._fail(name, f"is {_shown(value)}, not a list")
        return value

    def _integer(self, name: str, value: object, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self._fail(name, f"is {_shown(value)}, not an integer")
        if not least <= value <= most:
            self._fail(name, f"is {_shown(value)}, not between {least} and {most}")
        return value

    def _check_depth(self, name: str, value: object, depth: int) -> None:
        if not depth:
            self._fail(name, f"is nested more than {_MAX_DEPTH} deep")
        if isinstance(value, (dict, list)):
            for one in value.values() if isinstance(value, dict) else value:
                self._check_depth(name, one, depth - 1)

    def _path(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def _fail(self, name: str | None, problem: str) -> NoReturn:
        place = self._place if name is None else self._path(name)
        field = f"its field {place[:400]!a}" if place else "its content"
        raise CorruptCheckpointError(
            f"{self._file} is damaged, or no release wrote it: {field} {problem}. Restore another checkpoint"
        )


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
