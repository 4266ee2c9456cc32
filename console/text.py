"""Sizes, times and names from outside, for people and their terminals."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime, timezone


def printable(text: str) -> str:
    """Text from outside for a terminal: what would steer it, or hide or reorder text, becomes an escape.

    Names of jobs and operators, paths and log lines may hold anything. Line ends and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """The same for a JSON document, which stays the same document."""
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def size(size_bytes: int) -> str:
    """Bytes for people."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def moment(time_ms: int) -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(time_ms / 1_000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
