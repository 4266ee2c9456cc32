"""File source and file sink, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.file_errors import FileConnectorError
from ...connectors.file_sink import FileSink
from ...connectors.file_source import FileSource

__all__ = ["FileConnectorError", "FileSink", "FileSource"]
