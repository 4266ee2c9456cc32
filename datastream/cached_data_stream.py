"""Streams whose records are kept for later jobs of the environment."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from typing import TYPE_CHECKING

from ..common.job_status import JobStatus
from ..common.options.options import DeploymentOptions
from ..connectors.cache import CacheOperator, CacheSource
from ..operators.sources.sources import SourceOperator
from .data_stream import DataStream
from .transformation import Input, Transformation

if TYPE_CHECKING:
    from ..coordinator.control.job_client import JobClient
    from .stream_execution_environment import StreamExecutionEnvironment


class Cache:
    """An operator that is a writer in one job and, when that job has finished, the source of later ones.

    Args:
        stream: Whose records to keep.
        root: Directory for caches, found by all processes of the jobs.
    """

    def __init__(self, stream: DataStream, root: str) -> None:
        self._inputs = stream.inputs
        self._root = root
        self._directory: str | None = None
        self._producer: JobClient | None = None
        self.transformation = Transformation("Cache", self._writer(), stream.inputs)
        self.transformation.output_type = stream.known_type()

    def prepare(self) -> None:
        """Before a job is built: read what is there, or write it anew."""
        node = self.transformation
        if self._is_filled() and self._directory is not None:
            node.operator, node.inputs = SourceOperator(CacheSource(self._directory)), []
        else:
            self.clear()
            node.operator, node.inputs = self._writer(), list(self._inputs)
        node.is_source = not node.inputs

    def produced_by(self, client: JobClient) -> None:
        """A job was started that writes the records, unless it reads them."""
        if not self.transformation.is_source:
            self._producer = client

    def clear(self) -> None:
        """Remove the records; the next job makes them again."""
        directory, self._directory, self._producer = self._directory, None, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def _is_filled(self) -> bool:
        producer = self._producer
        return producer is not None and producer.get_job_status().result() is JobStatus.FINISHED

    def _writer(self) -> CacheOperator:
        self._directory = os.path.join(self._root, uuid.uuid4().hex)
        return CacheOperator(self._directory)


class CachedDataStream(DataStream):
    """A stream whose records the first job that needs them keeps for later ones. Made by `cache()`."""

    def __init__(self, env: StreamExecutionEnvironment, cache: Cache) -> None:
        super().__init__(env, [Input(cache.transformation)])
        self._cache = cache

    @property
    def transformation(self) -> Transformation:
        """The operator that keeps the records has nothing to be set."""
        raise self._no_operator("a cached stream")

    def invalidate(self) -> None:
        """Forget the records: the next job makes them again, and keeps them again."""
        self._cache.clear()


def cache_of(stream: DataStream) -> Cache:
    """A new cache of a stream's records, where the environment keeps caches."""
    configuration = stream.get_execution_environment().configuration
    chosen = configuration.get(DeploymentOptions.CACHE_DIR)
    return Cache(stream, chosen or os.path.join(tempfile.gettempdir(), "tidegate", "caches"))
