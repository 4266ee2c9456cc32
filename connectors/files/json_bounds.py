"""Bounds on what lines of JSON may expand to: how deeply they are nested, and how many columns they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

_SAMPLE_BYTES = 16 << 10
_MOST_CELLS = 50_000_000
"""Rows times columns where types are inferred; each takes up to eight bytes."""
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


def check_breadth(block: bytes, schema_of: Callable[[bytes], pa.Schema]) -> None:
    """Raise `ValueError` for lines that name too many different fields for a table of them.

    Four megabytes of lines with a new field each would become a table of hundreds of gigabytes.

    Args:
        block: Whole lines, of which a table with inferred types is to be made.
        schema_of: The schema that is inferred from some of them.
    """
    columns: set[str] = set()
    rows, start = max(1, block.count(b"\n")), 0
    while start < len(block):
        end = block.find(b"\n", start + _SAMPLE_BYTES) + 1 or len(block)
        lines, start = block[start:end], end
        if not lines.isspace():
            columns.update(_columns_of(schema_of(lines)))
        if len(columns) * rows > _MOST_CELLS:
            raise ValueError(
                f"the first {rows} lines have {len(columns)} or more different fields, too many to infer "
                f"types; give JsonLinesFormat a schema"
            )


def _columns_of(schema: pa.Schema) -> Iterator[str]:
    ahead = [(field.name, field.type) for field in schema]
    while ahead:
        path, kind = ahead.pop()
        yield path
        parts = [kind.field(number) for number in range(kind.num_fields)]
        ahead.extend((f"{path}/{field.name}", field.type) for field in parts)
