"""What a stream can do with Spark: run a stage on each epoch, or end in Spark."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..common.time import Duration
from ..operators.base import StreamOperator
from .data_stream_sink import DataStreamSink
from .settings.job_settings import listen_rule
from .settings.operator_settings import OperatorSettings
from .settings.spark_settings import epoch_limits, spark_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from .data_stream import DataStream

_Settings = TypeVar("_Settings", bound=OperatorSettings)


class SparkMethods(OperatorSettings):
    """The methods of `DataStream` that need Spark."""

    @abstractmethod
    def _then(self, name: str, operator: StreamOperator) -> DataStream:
        """The stream behind an operator that reads this one."""

    @abstractmethod
    def _end(self, name: str, operator: StreamOperator) -> DataStreamSink:
        """The sink that reads this stream."""

    def spark_stage(
        self,
        func: Callable[[Any], Any] | str,
        schema: pa.Schema,
        input_schema: pa.Schema | None = None,
        max_epoch_records: int = 500_000,
        interval: Duration | None = None,
        configs: Mapping[str, str] | None = None,
        max_concurrent_epochs: int = 1,
    ) -> DataStream:
        """Run the records of every epoch through one Spark job.

        Args:
            func: Takes a Spark DataFrame of an epoch's records and returns one with the results. Or a query
                of Spark SQL, in which `{epoch}` is the table of the records.
            schema: Arrow schema of the results, which leave in Arrow batches; with one subtask, in the
                DataFrame's order.
            input_schema: Arrow schema of the records; needed where they are plain tuples whose columns
                should have names and fixed types.
            max_epoch_records: An epoch with this number of records ends at once.
            interval: An epoch ends after this time from its first record, as soon as Spark can run it; by
                default after 1 s. Watermarks wait for the records before them and end no epoch.
            configs: Settings of Spark SQL for this stage alone, which then has temporary views of its own.
            max_concurrent_epochs: How many epochs Spark runs at once. Their results leave in order.

        Returns:
            The results. `set_parallelism(n)` gives the stage several subtasks, which share each epoch; it has
            one by default.
        """
        from ..spark_bridge.stage import SparkQuery, SparkStageOperator, StageSettings

        settings = StageSettings(
            spark_settings(self._env.configuration),
            input_schema,
            epoch_limits(self._env.configuration, max_epoch_records, interval, max_concurrent_epochs),
            dict(configs or {}),
            listen_rule(self._env.configuration),
        )
        function = SparkQuery(func) if isinstance(func, str) else func
        stream = self._then("SparkStage", SparkStageOperator(function, schema, settings)).set_parallelism(1)
        stream.transformation.is_coordinated = True
        return self._in_spark(stream.disable_chaining())

    def foreach_epoch(
        self, func: Callable[[Any, int], None], input_schema: pa.Schema | None = None
    ) -> DataStreamSink:
        """End the stream in a function that Spark runs on the records of every epoch, once it is complete.

        Args:
            func: Takes a Spark DataFrame of an epoch's records and the epoch's number, which rises. After a
                failure it may be called again with the same records and the same number: it has to notice,
                for example by overwriting what it wrote under that number.
            input_schema: As for `spark_stage`.
        """
        from ..spark_bridge.sink import FunctionTarget

        return self._end_in_spark("ForeachEpoch", FunctionTarget(func), input_schema)

    def sink_to_spark(
        self, writer: Callable[[Any], Any], path: str, input_schema: pa.Schema | None = None
    ) -> DataStreamSink:
        """Write every epoch with Spark, exactly once: as a directory that appears with its checkpoint.

        Args:
            writer: Takes a Spark DataFrame of an epoch's records and returns its writer, such as
                `lambda df: df.write.format("parquet").partitionBy("day")`.
            path: Where the directories `epoch=…` are made: any address that Spark can write to, where a
                rename is atomic (a local or shared disk, HDFS). Read all of it with `spark.read`.
            input_schema: As for `spark_stage`.
        """
        from ..spark_bridge.sink import DirectoryTarget

        target = DirectoryTarget(writer, path if "://" in path else os.path.abspath(path))
        return self._end_in_spark("SparkSink", target, input_schema)

    def _end_in_spark(self, name: str, target: Any, input_schema: pa.Schema | None) -> DataStreamSink:
        from ..spark_bridge.sink import SparkSink, SparkSinkOperator

        configuration = self._env.configuration
        sink = SparkSink(target, input_schema, spark_settings(configuration), listen_rule(configuration))
        return self._in_spark(
            self._end(name, SparkSinkOperator(sink)).force_non_parallel().disable_chaining()
        )

    def _in_spark(self, stream: _Settings) -> _Settings:
        """In the process that owns the job's Spark session."""
        from ..spark_bridge.source import COLOCATION_GROUP

        stream.transformation.colocation_group = COLOCATION_GROUP
        return stream
