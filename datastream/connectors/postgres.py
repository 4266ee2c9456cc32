"""PostgreSQL, beside the other connectors' import paths. Needs `pip install 'tidegate[postgres]'`."""

from __future__ import annotations

from ...connectors.postgres.errors import PostgresConnectorError
from ...connectors.postgres.flushing import PostgresAppendSink, PostgresUpsertSink
from ...connectors.postgres.sink import PostgresSink
from ...connectors.postgres.source import PostgresSource

__all__ = [
    "PostgresAppendSink",
    "PostgresConnectorError",
    "PostgresSink",
    "PostgresSource",
    "PostgresUpsertSink",
]
