"""PyFlink's names that do not exist here, and what to use instead. The guide lists them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

__all__ = ["ABSENT", "refusal", "refuse_absent"]

_STRATEGY = "a `WatermarkStrategy` with a `WatermarkGenerator`"
_JVM = "nothing: it converts objects of the JVM, and no JVM runs"
_TWO_PHASE = "a `TwoPhaseCommitSink` of your own over a Python client"
_SOURCE = "a `Source` of your own over a Python client"
_ASYNC = "a `RichSinkFunction` or an `AsyncFunction` over a Python client"
_AWS = "a `Source` or a `Sink` of your own over boto3"
_CLUSTERS = "a `KafkaSource` for each cluster and `union()`, or a `HybridSource`"

# By module below the root package; the text completes "use …".
ABSENT: Final[dict[str, dict[str, str]]] = {
    "common": {
        "AssignerWithPeriodicWatermarksWrapper": _STRATEGY,
        "InputDependencyConstraint": "nothing: it has no effect in Flink either",
    },
    "common.input_dependency_constraint": {
        "InputDependencyConstraint": "nothing: it has no effect in Flink either"
    },
    "common.io": {"InputFormat": "a `FileSource` or a `Source` of your own"},
    "common.utils": {"JavaObjectWrapper": _JVM},
    "common.watermark_strategy": {"AssignerWithPeriodicWatermarksWrapper": _STRATEGY},
    "datastream": {
        "CustomCheckpointStorage": "`register_scheme` of `tidegate.state.storage.checkpoint_storage`",
        "CustomStateBackend": "`HashMapStateBackend` or `LmdbStateBackend`",
    },
    "datastream.checkpoint_storage": {
        "CustomCheckpointStorage": "`register_scheme` of `tidegate.state.storage.checkpoint_storage`"
    },
    "datastream.connectors.base": {
        "StreamTransformer": "`DataStream.map()` before the sink",
        "SupportsPreprocessing": "`DataStream.map()` before the sink",
    },
    "datastream.connectors.cassandra": dict.fromkeys(
        (
            "CassandraCommitter",
            "CassandraFailureHandler",
            "CassandraSink",
            "ClusterBuilder",
            "ConsistencyLevel",
            "MapperOptions",
        ),
        _ASYNC,
    ),
    "datastream.connectors.dynamic_kafka": {
        **dict.fromkeys(
            (
                "DynamicKafkaSource",
                "DynamicKafkaSourceBuilder",
                "KafkaMetadataService",
                "KafkaStreamSetSubscriber",
                "KafkaStreamSubscriber",
                "SingleClusterTopicMetadataService",
                "StreamPatternSubscriber",
            ),
            _CLUSTERS,
        ),
        "KafkaRecordDeserializationSchema": "the class of this name in `datastream.connectors.kafka`",
    },
    "datastream.connectors.elasticsearch": dict.fromkeys(
        (
            "Elasticsearch6SinkBuilder",
            "Elasticsearch7SinkBuilder",
            "ElasticsearchEmitter",
            "ElasticsearchSink",
            "FlushBackoffType",
        ),
        _ASYNC,
    ),
    "datastream.connectors.file_system": {
        "FileSplitAssignerProvider": "nothing: a split goes to the next reader that is free",
    },
    "datastream.connectors.jdbc": dict.fromkeys(
        ("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"),
        "`PostgresSink`, for other databases a `TwoPhaseCommitSink` of your own",
    ),
    "datastream.connectors.kinesis": dict.fromkeys(
        (
            "FlinkKinesisConsumer",
            "KinesisDeserializationSchema",
            "KinesisFirehoseSink",
            "KinesisFirehoseSinkBuilder",
            "KinesisShardAssigner",
            "KinesisStreamsSink",
            "KinesisStreamsSinkBuilder",
            "PartitionKeyGenerator",
            "WatermarkTracker",
        ),
        _AWS,
    ),
    "datastream.connectors.pulsar": {
        **dict.fromkeys(
            ("PulsarSource", "PulsarSourceBuilder", "RangeGenerator", "StartCursor", "StopCursor"), _SOURCE
        ),
        **dict.fromkeys(
            ("MessageDelayer", "PulsarSink", "PulsarSinkBuilder", "TopicRoutingMode"), _TWO_PHASE
        ),
    },
    "datastream.connectors.rabbitmq": {
        "RMQConnectionConfig": _SOURCE,
        "RMQSink": _ASYNC,
        "RMQSource": _SOURCE,
    },
    "datastream.formats.avro": {"AvroInputFormat": "`FileSource` with an `AvroFormat`"},
    "datastream.functions": {"AsyncFunctionDescriptor": "`AsyncDataStream`"},
    "datastream.state_backend": {"CustomStateBackend": "`HashMapStateBackend` or `LmdbStateBackend`"},
    "datastream.utils": {
        "ResultTypeQueryable": "`DeserializationSchema.get_produced_type()`",
        "convert_to_python_obj": _JVM,
        "create_hadoop_configuration": "`file_system` of `FileSource` and `FileSink`",
        "create_java_properties": _JVM,
        "pickled_bytes_to_python_obj": _JVM,
    },
}


def refuse_absent(module: str, name: str) -> None:
    """Raise the error that names the alternative, if PyFlink has this name and Tidegate does not.

    Args:
        module: Its full name, as `__name__` gives it.
        name: The name that was looked up in it.

    Raises:
        AbsentNameError: The name is one of PyFlink's that do not exist here.
    """
    alternative = ABSENT.get(module.removeprefix("tidegate."), {}).get(name)
    if alternative is not None:
        # Only here: modules that refuse names are imported where no error is needed.
        from .errors import AbsentNameError

        plain = alternative.replace("`", "")
        raise AbsentNameError(
            f"{module}.{name} of PyFlink does not exist in Tidegate; use {plain} "
            f"(docs/guide/coming-from-pyflink.md lists all absent names)"
        )


def refusal(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module of which some of PyFlink's names are absent.

    Args:
        module: Its full name, as `__name__` gives it.
    """

    def refuse(name: str) -> NoReturn:
        refuse_absent(module, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return refuse
