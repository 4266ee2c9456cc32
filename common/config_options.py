"""Typed configuration options and the texts that their values are written as.

The texts are Flink's: durations such as `10 s` or `5 min`, sizes such as `20kb` (powers of 1,024),
maps such as `key1:value1,key2:value2`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from .errors import ConfigurationError
from .time import Duration

__all__ = ["ConfigOption", "ConfigOptions", "ConfigType", "value_text"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_NANOS_BY_UNIT = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "min": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "µs": 1_000,
    "ns": 1,
}
_DURATION_UNITS = {
    "d": ("d", "day", "days"),
    "h": ("h", "hour", "hours"),
    "min": ("min", "m", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "milli", "millis", "millisecond", "milliseconds", ""),
    "µs": ("µs", "micro", "micros", "microsecond", "microseconds"),
    "ns": ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
}
_NANOS_BY_NAME = {name: _NANOS_BY_UNIT[unit] for unit, names in _DURATION_UNITS.items() for name in names}
_BYTES_BY_NAME = {
    name: 1024**power
    for power, names in enumerate(
        (
            ("b", "bytes", ""),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for name in names
}


def value_text(value: object) -> str:
    """Write a value as the text that reads back as the same value.

    Args:
        value: a value of any option type.

    Returns:
        The text.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        value = Duration.of_timedelta(value)
    if isinstance(value, Duration):
        return _duration_text(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return ",".join(f"{_map_word(key)}:{_map_word(word)}" for key, word in value.items())
    return str(value)


def _duration_text(duration: Duration) -> str:
    nanos = duration.to_nanos()
    if nanos == 0:
        return "0 ms"
    unit = next(unit for unit, size in _NANOS_BY_UNIT.items() if nanos % size == 0)
    return f"{nanos // _NANOS_BY_UNIT[unit]} {unit}"


def _map_word(word: object) -> str:
    text = str(word)
    return "'" + text.replace("'", "''") + "'" if re.search(r"[,:'\s]", text) or not text else text


def _size_text(size: object) -> str:
    """`20 kb` for 20,480."""
    if not isinstance(size, int):
        raise TypeError(f"{size!r} is not a size")
    units = [(1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")]
    return next((f"{size // unit} {name}" for unit, name in units if size and size % unit == 0), str(size))


@dataclass(frozen=True)
class ConfigType(Generic[T_co]):
    """One type of option: how a stored value is read.

    Args:
        noun: what a value is called in an error, for example "a duration".
        example: a text that is accepted, quoted in errors.
        convert: turns a stored value into the option's; raises ValueError where it cannot.
        text: writes a value for people, in a text that reads back as the same value.
    """

    noun: str
    example: str
    convert: Callable[[object], T_co]
    text: Callable[[object], str] = value_text

    def read(self, key: str, stored: object) -> T_co:
        """Convert a stored value.

        Args:
            key: the option's key, for the error.
            stored: a text, or a value that was set from Python.

        Returns:
            The value.

        Raises:
            ConfigurationError: the value does not have this type.
        """
        try:
            return self.convert(stored)
        except ValueError:
            raise ConfigurationError(
                f"{key} is set to {stored!r}, which is not {self.noun}; "
                f"write for example {key}: {self.example}"
            ) from None


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key, the type of its value, its default and its bounds. `ConfigOptions.key` builds one as in Flink.

    Args:
        key: the key.
        type: how a value is read.
        default: the value where none is set.
        deprecated_keys: older keys, which are read where the own key is not set.
        least: the least value, None for no bound.
        most: the greatest value, None for no bound.
        hint: why a value out of bounds is refused, or what to do instead; the error ends with it.
    """

    key: str
    type: ConfigType[T]
    default: T
    deprecated_keys: tuple[str, ...] = ()
    least: T | None = None
    most: T | None = None
    hint: str = ""

    def with_deprecated_keys(self, *deprecated_keys: str) -> ConfigOption[T]:
        """Return the option, which is also read under older keys where its own is not set."""
        return replace(self, deprecated_keys=deprecated_keys)

    def read(self, key: str, stored: object) -> T:
        """Convert a stored value, and check it.

        Args:
            key: the key under which it is stored, for the error.
            stored: a text, or a value that was set from Python.

        Raises:
            ConfigurationError: the value does not have the option's type, or is out of bounds.
        """
        value = self.type.read(key, stored)
        self._check_bounds(key, value)
        return value

    def _check_bounds(self, key: str, value: Any) -> None:
        for is_outside, word, bound in (
            (self.least is not None and value < self.least, "least", self.least),
            (self.most is not None and value > self.most, "most", self.most),
        ):
            if is_outside:
                hint = f"; {self.hint}" if self.hint else ""
                raise ConfigurationError(
                    f"{key} is {self.type.text(value)}; it must be at {word} {self.type.text(bound)}{hint}"
                )


@dataclass(frozen=True)
class _TypedOptionBuilder(Generic[T]):
    key: str
    type: ConfigType[T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """Return the option, with the value that holds where none is set."""
        return ConfigOption(self.key, self.type, value)

    def no_default_value(self) -> ConfigOption[T | None]:
        """Return the option; it reads as None where no value is set."""
        return ConfigOption[T | None](self.key, self.type, None)


@dataclass(frozen=True)
class _OptionBuilder:
    key: str

    def boolean_type(self) -> _TypedOptionBuilder[bool]:
        """The option is true or false."""
        return _TypedOptionBuilder(self.key, BOOLEAN)

    def int_type(self) -> _TypedOptionBuilder[int]:
        """The option is an integer."""
        return _TypedOptionBuilder(self.key, INTEGER)

    def float_type(self) -> _TypedOptionBuilder[float]:
        """The option is a number."""
        return _TypedOptionBuilder(self.key, FLOAT)

    def string_type(self) -> _TypedOptionBuilder[str]:
        """The option is a text."""
        return _TypedOptionBuilder(self.key, STRING)

    def duration_type(self) -> _TypedOptionBuilder[Duration]:
        """The option is an amount of time; a number without unit counts milliseconds."""
        return _TypedOptionBuilder(self.key, DURATION)

    def memory_type(self) -> _TypedOptionBuilder[int]:
        """The option is a size, read in bytes; a number without unit counts bytes."""
        return _TypedOptionBuilder(self.key, MEMORY)

    def map_type(self) -> _TypedOptionBuilder[Mapping[str, str]]:
        """The option is a map from text to text."""
        return _TypedOptionBuilder(self.key, MAP)

    def choice_type(self, *choices: str) -> _TypedOptionBuilder[str]:
        """The option is one of these texts; case, `-` and `_` make no difference when it is read.

        Args:
            choices: the accepted texts in the spelling in which the option reads.
        """
        return _TypedOptionBuilder(self.key, choice(*choices))


class ConfigOptions:
    """Builds options.

    >>> ConfigOptions.key("state.backend.type").string_type().default_value("hashmap").key
    'state.backend.type'
    """

    @staticmethod
    def key(key: str) -> _OptionBuilder:
        """Start an option with this key."""
        return _OptionBuilder(key)


def _to_boolean(stored: object) -> bool:
    if isinstance(stored, bool):
        return stored
    word = str(stored).strip().lower()
    if word not in ("true", "false"):
        raise ValueError(word)
    return word == "true"


def _to_integer(stored: object) -> int:
    if isinstance(stored, int) and not isinstance(stored, bool):
        return stored
    return int(_text(stored))


def _to_float(stored: object) -> float:
    if isinstance(stored, int | float) and not isinstance(stored, bool):
        return float(stored)
    return float(_text(stored))


def _to_bytes(stored: object) -> bytes:
    if isinstance(stored, bytes | bytearray):
        return bytes(stored)
    return base64.b64decode(_text(stored), validate=True)


def _to_duration(stored: object) -> Duration:
    if isinstance(stored, timedelta):
        stored = Duration.of_timedelta(stored)
    if not isinstance(stored, Duration):
        return Duration.of_nanos(_measure(stored, _NANOS_BY_NAME))
    if stored.to_nanos() < 0:
        raise ValueError(stored)
    return stored


def _to_bytes_size(stored: object) -> int:
    return _measure(stored, _BYTES_BY_NAME)


def _measure(stored: object, sizes: Mapping[str, int]) -> int:
    """Read `<integer> <unit>`, or a bare integer, whose unit is the empty name."""
    text = str(stored) if type(stored) is int else _text(stored)
    match = re.fullmatch(r"(\d+)\s*([a-zµ]*)", text.strip().lower())
    if match is None or match[2] not in sizes:
        raise ValueError(stored)
    return int(match[1]) * sizes[match[2]]


def _to_map(stored: object) -> Mapping[str, str]:
    if isinstance(stored, Mapping):
        return {str(key): str(word) for key, word in stored.items()}
    text = _text(stored).strip()
    entries: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _MAP_ENTRY.match(text, position)
        if match is None:
            raise ValueError(stored)
        entries[_unquoted(match[1])] = _unquoted(match[2])
        position = match.end()
    return entries


_MAP_ENTRY = re.compile(r"\s*('(?:[^']|'')*'|[^,:']+):('(?:[^']|'')*'|[^,:']+)(?:,(?=.)|$)")


def _unquoted(word: str) -> str:
    return word[1:-1].replace("''", "'") if word.startswith("'") else word.strip()


def _text(stored: object) -> str:
    if not isinstance(stored, str):
        raise ValueError(stored)
    return stored


def choice(*choices: str) -> ConfigType[str]:
    """The type of an option that is one of these texts; case, `-` and `_` make no difference."""
    by_folded = {_folded(choice): choice for choice in choices}

    def convert(stored: object) -> str:
        folded = _folded(str(stored))
        if folded not in by_folded:
            raise ValueError(stored)
        return by_folded[folded]

    return ConfigType(f"one of {', '.join(choices)}", choices[0], convert)


def _folded(text: str) -> str:
    return re.sub(r"[-_\s]", "", text).lower()


BOOLEAN = ConfigType("a truth value", "true", _to_boolean)
INTEGER = ConfigType("an integer", "4", _to_integer)
FLOAT = ConfigType("a number", "1.5", _to_float)
STRING = ConfigType("a text", "text", value_text)
BYTES = ConfigType("bytes in Base64", "AAEC", _to_bytes)
DURATION = ConfigType("a duration", "10 s (units: d, h, min, s, ms, µs, ns)", _to_duration)
MEMORY = ConfigType("a size", "20kb (units: b, kb, mb, gb, tb)", _to_bytes_size, _size_text)
MAP = ConfigType("a map", "key1:value1,key2:value2", _to_map)
