"""Plain, aligned text for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone


def table(rows: Sequence[Sequence[object]], indent: str = "  ") -> list[str]:
    """Rows as lines with aligned columns; numbers to the right."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row, cells in zip(texts, rows, strict=True):
        padded = (
            text.rjust(width) if isinstance(cell, int) else text.ljust(width)
            for text, cell, width in zip(row, cells, widths, strict=True)
        )
        lines.append((indent + "  ".join(padded)).rstrip())
    return lines


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
