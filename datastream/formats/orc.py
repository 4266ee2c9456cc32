"""ORC, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.formats.parquet_rows import OrcBulkWriters

__all__ = ["OrcBulkWriters"]
