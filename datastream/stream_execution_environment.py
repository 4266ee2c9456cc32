"""The entry point of every program (PyFlink's `StreamExecutionEnvironment`)."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..common.configuration import Configuration
from ..common.errors import ConfigurationError, GraphError
from ..common.job_id import JobID
from ..common.options.options import DeploymentOptions, ExecutionOptions, PipelineOptions
from ..common.typeinfo import TypeInformation
from ..common.watermark_strategy import WatermarkStrategy
from ..connectors.collection import CollectionSource
from ..connectors.socket_source import SocketTextSource
from ..coordinator.control.finished_job import FinishedJob
from ..coordinator.control.job_client import JobClient, JobHandle
from ..coordinator.deployment.validation import prepare_start
from ..coordinator.spec import JobSpec
from ..operators.checkpointed import CheckpointedFunction, ListCheckpointed
from ..operators.sources.enumerators import Boundedness
from ..operators.sources.source_function import ParallelSourceFunction, SourceFunction, SourceFunctionOperator
from ..operators.sources.sources import Source, SourceOperator
from ..operators.typed_output import declared_records
from ..protocol.ids import JobId
from ..protocol.scheduling.execution_plan import execution_plan
from ..protocol.scheduling.plan import JobGraph, StreamGraph, build_job_graph
from ..telemetry import OtlpSettings
from .cached_data_stream import Cache
from .data_stream import DataStream
from .dependencies import check_local_python
from .execution_mode import RuntimeExecutionMode
from .job_console import console_beside
from .settings.default_settings import warn_about_overridden
from .settings.environment_settings import EnvironmentSettings
from .settings.job_settings import job_settings
from .settings.spark_settings import spark_settings
from .stop_signals import StopSignals, stop_action
from .submission import offer, submitted
from .transformation import (
    Input,
    Transformation,
    build_stream_graph,
    require_uids,
    upstream_first,
    user_line,
    warn_about_generated_uids,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ..coordinator.local_job import LocalJob

DEFAULT_JOB_NAME = "Tidegate Streaming Job"


class StreamExecutionEnvironment(EnvironmentSettings):
    """Collects the operators of one job and runs it."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._transformations: list[Transformation] = []
        self._caches: list[Cache] = []
        self._job_caches: list[Cache] = []

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """A new environment with these settings, which go before those of `tidegate run`."""
        return StreamExecutionEnvironment(configuration)

    # ------------------------------------------------------------ sources

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """A stream of the records of a collection, in order, from one subtask.

        Args:
            collection: The records.
            type_info: Their type. They are brought to it at once; an integer that is too large for it keeps
                its low bits, as in PyFlink.

        Raises:
            OutputTypeError: A record has another type.
        """
        if type_info is not None:
            where = f"from_collection() ({user_line()})"
            collection = declared_records(list(collection), type_info, where)
        stream = self.from_source(
            CollectionSource(collection), WatermarkStrategy.no_watermarks(), "Collection", type_info
        )
        stream.transformation.operator.keeps_type = True
        return stream

    def from_arrow(
        self,
        data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        timestamp_column: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        batch_rows: int | None = None,
        source_name: str = "Arrow",
    ) -> DataStream:
        """A stream of Arrow data that the driver holds, in Arrow batches (see `docs/guide/columns.md`).

        The rows are cut into one range per subtask; order holds within a range.

        Args:
            data: A pyarrow Table, a RecordBatch, or RecordBatches of one schema.
            timestamp_column: Column with each row's event time: integers in milliseconds, or timestamps.
            watermark_strategy: How watermarks follow from event times; none without one.
            batch_rows: The most rows of a batch; 65,536 if not given.
            source_name: Name of the operator.
        """
        from ..connectors.arrow_source import DEFAULT_BATCH_ROWS, ArrowSource

        source = ArrowSource(data, timestamp_column, DEFAULT_BATCH_ROWS if batch_rows is None else batch_rows)
        strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
        stream = self.from_source(source, strategy, source_name)
        stream.transformation.columns = source.schema
        return stream

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of the records of a source."""
        if not isinstance(source, Source):
            raise ConfigurationError(
                f"from_source() takes a Source, not {type(source).__name__}; derive it from "
                f"tidegate.datastream.Source"
            )
        source.check_methods()
        transformation = Transformation(
            source_name,
            SourceOperator(source, watermark_strategy),
            highest_parallelism=source.max_source_parallelism(),
            is_source=True,
            is_coordinated=source.is_enumerated or watermark_strategy.alignment is not None,
            is_bounded=source.get_boundedness() is Boundedness.BOUNDED,
            colocation_group=source.colocation_group(),
            output_type=type_info,
        )
        self.register(transformation)
        return DataStream(self, [Input(transformation)])

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream:
        """A stream of the lines that a server sends; for trying things out, since a socket cannot replay.

        Args:
            hostname: Of the server.
            port: Of the server.
            delimiter: What separates two records.
            max_retry: How often in a row to connect anew; 0 for never, -1 for ever.
        """
        return self.add_source(SocketTextSource(hostname, port, delimiter, max_retry), "Socket Stream")

    def add_source(
        self,
        source_func: SourceFunction,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of the records that a source function emits.

        It runs in one subtask, unless it is a `ParallelSourceFunction`.
        """
        is_parallel = isinstance(source_func, ParallelSourceFunction)
        transformation = Transformation(
            source_name,
            SourceFunctionOperator(source_func),
            highest_parallelism=None if is_parallel else 1,
            is_source=True,
            is_stateful=isinstance(source_func, (CheckpointedFunction, ListCheckpointed)),
            is_bounded=False,
            output_type=type_info,
        )
        self.register(transformation)
        return DataStream(self, [Input(transformation)])

    def from_spark(
        self, build: Callable[[Any], Any], order_by: list[str], source_name: str = "Spark"
    ) -> DataStream:
        """A stream of the rows of a Spark DataFrame, as tuples, in one order on every run.

        Args:
            build: Makes the DataFrame from a SparkSession; must give the same rows on every call.
            order_by: Plain columns to sort by; together they must tell any two rows apart. A restored job
                asks Spark for the rows behind the last one it had emitted.
            source_name: Name of the operator.
        """
        from ..spark_bridge.source import SparkSource

        source = SparkSource(build, order_by, spark_settings(self._configuration))
        return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name)

    @property
    def configuration(self) -> Configuration:
        """All settings; changes take effect on the next execution."""
        return self._configuration

    def register(self, transformation: Transformation) -> None:
        """Remember an operator; streams call it."""
        self._transformations.append(transformation)

    def register_cache(self, cache: Cache) -> None:
        """Remember a cached stream; streams call it."""
        self._caches.append(cache)
        self.register(cache.transformation)

    def close(self) -> None:
        """Remove what cached streams keep. Jobs that run go on."""
        for cache in self._caches:
            cache.clear()

    # ------------------------------------------------------------ execution

    def get_stream_graph(self, job_name: str | None = None) -> StreamGraph:
        """The graph of all operators so far; they stay registered."""
        name = job_name or self._configuration.get(PipelineOptions.NAME) or DEFAULT_JOB_NAME
        if not self._transformations:
            raise GraphError("the job has no operators; add a source and a sink before execute()")
        maximum = self.get_max_parallelism()
        return build_stream_graph(
            name,
            self._transformations,
            self.get_parallelism(),
            None if maximum == -1 else maximum,
            {name: group.slot_resources() for name, group in self._slot_sharing_groups.items()},
        )

    def get_execution_plan(self) -> str:
        """The operators so far and how records travel between them, as JSON (see `docs/guide/plan.md`)."""
        return json.dumps(execution_plan(self._job_graph(self.get_stream_graph())), indent=2)

    def _job_graph(self, graph: StreamGraph) -> JobGraph:
        shares = self._configuration.get(DeploymentOptions.SLOT_SHARE_PROCESS)
        return build_job_graph(graph, self.is_chaining_enabled(), share_processes=shares)

    def execute(self, job_name: str | None = None) -> FinishedJob:
        """Run the job and wait for its end, or not, if `execution.attached` is false.

        SIGINT and SIGTERM do meanwhile with the job what `tidegate.on-stop-signal` says; then the program
        ends.

        Raises:
            ConfigurationError: The job cannot run as written; nothing was started.
            JobExecutionError: The job failed.
        """
        spec = self._job_spec(job_name)
        action = stop_action(self._configuration, spec.settings.trigger is not None)
        is_attached = self._configuration.get(DeploymentOptions.ATTACHED)
        if self._is_local:
            self._check_outlives(is_attached and action != "detach", "it runs in its driver's process")
            job = self._local_job(spec)
            client = self._started(spec, job)
            with StopSignals(client, action):
                job.run()
                return client.result()
        if not is_attached or action == "detach":
            self._check_outlives(not _is_ray_embedded(), "its Ray is embedded in its driver; set RAY_ADDRESS")
        client = self._started(spec, _submit_to_ray(spec))
        if not is_attached:
            return client.detached()
        with StopSignals(client, action):
            return client.result()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job and return at once."""
        spec = self._job_spec(job_name)
        if not self._is_local:
            return self._started(spec, _submit_to_ray(spec))
        job = self._local_job(spec)
        job.start()
        return self._started(spec, job)

    @property
    def _is_local(self) -> bool:
        return self._configuration.get(DeploymentOptions.TARGET) == "local"

    def _started(self, spec: JobSpec, handle: JobHandle) -> JobClient:
        client = JobClient(JobID(spec.job_id), handle)
        self._fill_caches(client)
        submitted(client)
        return client

    def _check_outlives(self, is_possible: bool, why_not: str) -> None:
        if not is_possible:
            raise ConfigurationError(
                f"the job cannot go on without its driver ({DeploymentOptions.ATTACHED.key}: false, or "
                f"{DeploymentOptions.ON_STOP_SIGNAL.key}: detach): {why_not}"
            )

    def _local_job(self, spec: JobSpec) -> LocalJob:
        # Here and not above: a driver on Ray must not pay for importing what runs a job.
        from ..coordinator.local_job import LocalJob

        beside = console_beside(self._configuration)
        return LocalJob(spec, OtlpSettings.from_environment(os.environ), beside)

    def _prepare_caches(self) -> list[Cache]:
        """The caches that the next job needs, each as its writer or as a source."""
        for cache in self._caches:
            cache.prepare()
        needed = {id(entry) for entry in upstream_first(self._transformations)}
        return [cache for cache in self._caches if id(cache.transformation) in needed]

    def _fill_caches(self, client: JobClient) -> None:
        for cache in self._job_caches:
            cache.produced_by(client)

    def _is_batch(self) -> bool:
        mode = RuntimeExecutionMode[self._configuration.get(ExecutionOptions.RUNTIME_MODE)]
        sources = [entry for entry in upstream_first(self._transformations) if entry.is_source]
        unbounded = [source for source in sources if not source.is_bounded]
        if mode is RuntimeExecutionMode.BATCH and unbounded:
            raise ConfigurationError(
                f"{unbounded[0]} may never end, so the job cannot run in batch mode; use a source that says "
                f"it ends (get_boundedness), or RuntimeExecutionMode.STREAMING"
            )
        return mode is not RuntimeExecutionMode.STREAMING and not unbounded

    def _job_spec(self, job_name: str | None) -> JobSpec:
        self._job_caches = self._prepare_caches()
        graph = self.get_stream_graph(job_name)
        if not self._configuration.get(PipelineOptions.AUTO_GENERATE_UIDS):
            require_uids(graph)
        warn_about_overridden(self._configuration)
        settings = job_settings(
            self._configuration,
            self._restart_strategy(),
            self._state_backend,
        )
        settings = replace(
            settings,
            files=self.carried_files(),
            python=self.python_environment(),
            is_batch=self._is_batch(),
        )
        if self._job_caches and not settings.is_batch:
            raise ConfigurationError(
                f"{self._job_caches[0].transformation} caches a stream, which ends in batch mode only; call "
                f"set_runtime_mode(RuntimeExecutionMode.BATCH)"
            )
        spec = JobSpec(JobId(uuid.uuid4().hex), self._job_graph(graph), settings)
        offer(spec)
        if self._is_local:
            check_local_python(settings.python)
        spec = prepare_start(spec, self._is_local)
        if settings.trigger is not None:
            warn_about_generated_uids(graph)
        self._transformations = []
        return spec


def _submit_to_ray(spec: JobSpec) -> JobHandle:
    # Here and not above: a local job must not pay for importing Ray.
    from ..actors.deployment import submit

    return submit(spec, OtlpSettings.from_environment(os.environ))


def _is_ray_embedded() -> bool:
    from ..actors.deployment import is_embedded

    return is_embedded()
