"""File source and file sink, by PyFlink's import path."""

from __future__ import annotations

from ...common.absent_names import refusal
from ...connectors.files.avro_format import AvroFormat
from ...connectors.files.compaction import FileCompactor, FileCompactStrategy
from ...connectors.files.errors import FileConnectorError
from ...connectors.files.formats import ArrowFormat, FileFormat, ParquetFormat
from ...connectors.files.orc_format import OrcFormat
from ...connectors.files.parts import OutputFileConfig
from ...connectors.files.policies import BucketAssigner, RollingPolicy
from ...connectors.files.sink import FileSink, FileSinkBuilder, StreamingFileSink
from ...connectors.files.source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    StreamFormat,
)
from ...connectors.files.text_formats import CsvFormat, JsonLinesFormat, TextLineFormat

__all__ = [
    "ArrowFormat",
    "AvroFormat",
    "BucketAssigner",
    "BulkFormat",
    "CsvFormat",
    "FileCompactStrategy",
    "FileCompactor",
    "FileConnectorError",
    "FileEnumeratorProvider",
    "FileFormat",
    "FileSink",
    "FileSinkBuilder",
    "FileSource",
    "FileSourceBuilder",
    "JsonLinesFormat",
    "OrcFormat",
    "OutputFileConfig",
    "ParquetFormat",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
    "TextLineFormat",
]

__getattr__ = refusal(__name__)
