"""Sizes and times for people."""

from __future__ import annotations

from datetime import datetime, timezone


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
