"""A bound on how deeply lines of JSON may be nested."""

from __future__ import annotations

import numpy as np

_NEWLINE = 10
_MOST_NESTED = 1_000
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as the numbers 1 and -1 of a byte."""
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[{]}"))


def check_depth(block: bytes) -> None:
    """Raise `ValueError` for JSON that is nested too deeply.

    Where Arrow infers types, each level takes a frame of its stack, which has no guard; where it passes over
    fields, its time grows with the square of the depth.
    """
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    bounds = np.concatenate(([0], ends, [len(block)]))
    for number in np.flatnonzero(np.diff(bounds) > _MOST_NESTED).tolist():
        line = block[bounds[number] : bounds[number + 1]]
        if line.count(b"[") + line.count(b"{") > _MOST_NESTED and _depth(line) > _MOST_NESTED:
            raise ValueError(f"a line is nested more than {_MOST_NESTED} deep; drop such lines")


def _depth(line: bytes) -> int:
    # Without escaped quotes, every second part between quotes is a text.
    plain = b"".join(line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    structure = np.frombuffer(plain.translate(_STEPS, _NOT_STRUCTURE), np.int8)
    return int(np.cumsum(structure, dtype=np.int64).max()) if structure.size else 0
