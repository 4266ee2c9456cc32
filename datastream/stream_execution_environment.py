"""The entry point of every program (PyFlink's `StreamExecutionEnvironment`)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..common.configuration import Configuration
from ..common.errors import ConfigurationError, GraphError
from ..common.execution_config import ExecutionConfig
from ..common.job_id import JobID
from ..common.options import (
    CheckpointingOptions,
    CoreOptions,
    DeploymentOptions,
    ExecutionOptions,
    PipelineOptions,
)
from ..common.restart_strategy import (
    FallbackRestartStrategyConfiguration,
    RestartStrategyConfiguration,
    restart_strategy_from,
)
from ..common.time import Duration
from ..common.typeinfo import TypeInformation
from ..common.watermark_strategy import WatermarkStrategy
from ..connectors.collection import CollectionSource
from ..coordinator.job_client import JobClient, JobExecutionResult, JobHandle
from ..coordinator.local_job import LocalJob
from ..coordinator.spec import JobSpec
from ..coordinator.validation import validate_before_start
from ..operators.checkpointed import CheckpointedFunction, ListCheckpointed
from ..operators.source_function import ParallelSourceFunction, SourceFunction, SourceFunctionOperator
from ..operators.sources import Source, SourceOperator
from ..protocol.elements import CheckpointingMode
from ..protocol.ids import JobId
from ..protocol.plan import StreamGraph, build_job_graph
from ..state.backend import StateBackend
from ..telemetry import OtlpSettings
from .checkpoint_config import CheckpointConfig
from .data_stream import DataStream
from .default_settings import current_defaults, warn_about_overridden
from .job_settings import job_settings
from .spark_settings import spark_settings
from .submission import offer
from .transformation import (
    Input,
    Transformation,
    build_stream_graph,
    warn_about_generated_uids,
)

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_JOB_NAME = "Tidegate Streaming Job"


class StreamExecutionEnvironment:
    """Collects the operators of one job and runs it."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(current_defaults())
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._transformations: list[Transformation] = []
        self._restart: RestartStrategyConfiguration | None = None
        self._state_backend: StateBackend | None = None
        self._chaining = True

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """A new environment with these settings, which go before those of `tidegate run`."""
        return StreamExecutionEnvironment(configuration)

    # ------------------------------------------------------------ settings

    def configure(self, configuration: Configuration) -> None:
        """Add settings; they replace earlier ones with the same key."""
        self._configuration.add_all(configuration)

    def get_config(self) -> ExecutionConfig:
        """Execution settings with getters and setters."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Checkpoint settings with getters and setters."""
        return CheckpointConfig(self._configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Parallelism of every operator that sets none itself."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Parallelism of every operator that sets none itself."""
        return self._configuration.get(CoreOptions.DEFAULT_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Number of key groups of every operator that sets none itself."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups, or -1 where it follows from the parallelism."""
        return self._configuration.get(PipelineOptions.MAX_PARALLELISM)

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every `interval` milliseconds."""
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints, -1 when they are off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly-once or at-least-once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Flink's newer name of `get_checkpointing_mode`."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether barriers may also overtake records where the order of records matters."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Longest time for which a record waits for its batch to fill; 0 sends at once."""
        if timeout_millis < 0:
            raise ConfigurationError(f"the buffer timeout is {timeout_millis} ms; it cannot be negative")
        self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))
        return self

    def get_buffer_timeout(self) -> int:
        """Longest time in milliseconds for which a record waits for its batch to fill."""
        return self._configuration.get(ExecutionOptions.BUFFER_TIMEOUT).to_millis()

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> StreamExecutionEnvironment:
        """What follows a failure."""
        self._restart = restart_strategy_configuration
        return self

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Where keyed state lives."""
        self._state_backend = state_backend
        return self

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Where savepoints are made if none is named when they are triggered."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints are made if none is named when they are triggered."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Give every operator a task of its own."""
        self._chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators may share a task."""
        return self._chaining

    # ------------------------------------------------------------ sources

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """A stream of the records of a collection, in order, from one subtask."""
        return self.from_source(
            CollectionSource(collection), WatermarkStrategy.no_watermarks(), "Collection", type_info
        )

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
        transformation = Transformation(
            source_name,
            SourceOperator(source, watermark_strategy),
            highest_parallelism=source.max_source_parallelism(),
            is_source=True,
            is_coordinated=source.is_enumerated or watermark_strategy.alignment is not None,
            colocation_group=source.colocation_group(),
        )
        self.register(transformation)
        return DataStream(self, [Input(transformation)])

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
        )
        self.register(transformation)
        return DataStream(self, [Input(transformation)])

    def from_spark(
        self, build: Callable[[Any], Any], order_by: list[str], source_name: str = "Spark"
    ) -> DataStream:
        """A stream of the rows of a Spark DataFrame, as tuples, in one order on every run.

        Args:
            build: Makes the DataFrame from a SparkSession; must give the same rows on every call.
            order_by: Columns to sort by; together they must tell any two rows apart.
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
        )

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the job and wait for its end.

        Raises:
            ConfigurationError: The job cannot run as written; nothing was started.
            JobExecutionError: The job failed.
        """
        spec = self._job_spec(job_name)
        if self._configuration.get(DeploymentOptions.TARGET) == "local":
            job = LocalJob(spec, OtlpSettings.from_environment(os.environ))
            client = JobClient(JobID(spec.job_id), job)
            job.run()
            return client.result()
        client = JobClient(JobID(spec.job_id), _submit_to_ray(spec))
        try:
            return client.result()
        except KeyboardInterrupt:
            client.close()
            raise

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job and return at once."""
        spec = self._job_spec(job_name)
        handle: JobHandle
        if self._configuration.get(DeploymentOptions.TARGET) == "local":
            job = LocalJob(spec, OtlpSettings.from_environment(os.environ))
            job.start()
            handle = job
        else:
            handle = _submit_to_ray(spec)
        return JobClient(JobID(spec.job_id), handle)

    def _restart_strategy(self) -> RestartStrategyConfiguration:
        if self._restart is None or isinstance(self._restart, FallbackRestartStrategyConfiguration):
            return restart_strategy_from(self._configuration)
        return self._restart

    def _job_spec(self, job_name: str | None) -> JobSpec:
        graph = self.get_stream_graph(job_name)
        warn_about_overridden(self._configuration)
        settings = job_settings(
            self._configuration,
            self._restart_strategy(),
            self._state_backend,
        )
        spec = JobSpec(JobId(uuid.uuid4().hex), build_job_graph(graph, self._chaining), settings)
        offer(spec)
        validate_before_start(spec)
        if settings.trigger is not None:
            warn_about_generated_uids(graph)
        self._transformations = []
        return spec


def _submit_to_ray(spec: JobSpec) -> JobHandle:
    # Here and not above: a local job must not pay for importing Ray.
    from ..coordinator.ray_deployment import submit

    return submit(spec, OtlpSettings.from_environment(os.environ))
