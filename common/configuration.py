"""Settings by key (name of `pyflink.common.configuration`)."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TypeVar

from .config_options import BOOLEAN, BYTES, FLOAT, INTEGER, STRING, ConfigOption, value_text

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """A set of settings, each a key with a value.

    Values are read by the type that is asked for, so a number may be set as text and the other way
    round. Reading a value as a type that it does not have raises ConfigurationError, which names
    the key, the value and an example.

    Args:
        other: settings to start with; they are copied.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, object] = {} if other is None else dict(other._values)

    @staticmethod
    def from_dict(map: Mapping[str, object]) -> Configuration:
        """Make a configuration of these settings.

        Args:
            map: keys with values; a value that is no text is kept as it is.
        """
        configuration = Configuration()
        configuration._values.update(map)
        return configuration

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """Split the text of a list option.

        Args:
            value: a YAML list (`[a, b]`, or lines that begin with `- `), or parts with semicolons between.

        Returns:
            The parts as text; none for an empty text or None.
        """
        text = (value or "").strip()
        if text.startswith("[") and text.endswith("]"):
            parts = text[1:-1].split(",")
        elif text.startswith("- "):
            parts = [line.strip().removeprefix("- ") for line in text.splitlines()]
        else:
            parts = text.split(";")
        return [part.strip().strip("'\"") for part in parts if part.strip()]

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option, or its default where it is not set.

        Raises:
            ConfigurationError: the value does not have the option's type, or is out of its bounds.
        """
        for key in (option.key, *option.deprecated_keys):
            if key in self._values:
                return option.read(key, self._values[key])
        return option.default

    def set(self, option: ConfigOption[T], value: T) -> Configuration:
        """Set an option.

        Returns:
            This configuration.

        Raises:
            ConfigurationError: the value does not have the option's type, or is out of its bounds.
        """
        self._values[option.key] = option.read(option.key, value)
        return self

    def get_string(self, key: str, default_value: str) -> str:
        """Return a value as text, or the default where the key is not set."""
        return STRING.read(key, self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a text; returns this configuration."""
        self._values[key] = value
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Return a value as an integer, or the default where the key is not set."""
        return INTEGER.read(key, self._values[key]) if key in self._values else default_value

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an integer; returns this configuration."""
        self._values[key] = INTEGER.read(key, value)
        return self

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return a value as a truth value, or the default where the key is not set."""
        return BOOLEAN.read(key, self._values[key]) if key in self._values else default_value

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a truth value; returns this configuration."""
        self._values[key] = BOOLEAN.read(key, value)
        return self

    def get_float(self, key: str, default_value: float) -> float:
        """Return a value as a number, or the default where the key is not set."""
        return FLOAT.read(key, self._values[key]) if key in self._values else default_value

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number; returns this configuration."""
        self._values[key] = FLOAT.read(key, value)
        return self

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return a value as bytes, or the default where the key is not set."""
        if key not in self._values:
            return default_value
        return bytearray(BYTES.read(key, self._values[key]))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes; their text is Base64. Returns this configuration."""
        self._values[key] = BYTES.read(key, value)
        return self

    def key_set(self) -> builtins.set[str]:
        """Return the keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether the key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Unset a key; returns whether it was set."""
        if key not in self._values:
            return False
        del self._values[key]
        return True

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all settings of another configuration.

        Args:
            other: where the settings come from; it wins where both set a key.
            prefix: put before every key that is taken over.

        Returns:
            This configuration.
        """
        for key, value in other._values.items():
            self._values[(prefix or "") + key] = value
        return self

    def add_all_to_dict(self, target_dict: dict[str, object]) -> None:
        """Put every setting into a dict, with the value as it was set."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return every setting as text."""
        return {key: value_text(value) for key, value in self._values.items()}

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Configuration) else False

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={text}" for key, text in self.to_dict().items()) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self})"
