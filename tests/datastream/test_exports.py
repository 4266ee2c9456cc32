"""The names a program imports: each exists, is listed, and is documented."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

MODULES = [
    "tidegate",
    "tidegate.common",
    "tidegate.datastream",
    "tidegate.datastream.functions",
    "tidegate.datastream.state",
    "tidegate.datastream.state_backend",
    "tidegate.datastream.connectors.base",
    "tidegate.datastream.connectors.datagen",
    "tidegate.datastream.connectors.hybrid_source",
    "tidegate.datastream.connectors.kafka",
    "tidegate.datastream.connectors.number_seq",
    "tidegate.datastream.formats.avro",
    "tidegate.datastream.formats.json",
]

# What programs rely on; a name may join, none may go.
PROMISED = {
    "tidegate": {
        "Configuration", "StreamExecutionEnvironment", "TidegateError", "Types", "WatermarkStrategy",
    },
    "tidegate.datastream": {
        "AggregateFunction", "CheckpointConfig", "CheckpointListener", "CheckpointStorage",
        "CheckpointedFunction", "CheckpointingMode", "DataStream", "DataStreamSink",
        "EmbeddedRocksDBStateBackend", "ExternalizedCheckpointRetention", "FilterFunction",
        "FlatMapFunction", "Function", "HashMapStateBackend", "KeyedProcessFunction", "KeyedStream",
        "KeySelector", "LmdbStateBackend", "MapFunction", "ProcessFunction", "ReduceFunction",
        "FileSystemCheckpointStorage", "FileSystemStateBackend", "JobManagerCheckpointStorage",
        "ListCheckpointed", "MemoryStateBackend", "PredefinedOptions", "StreamOperator",
        "RuntimeContext", "Sink", "SinkFunction", "Source", "StreamExecutionEnvironment",
    },
    "tidegate.datastream.state": {
        "AggregatingState", "AggregatingStateDescriptor", "BroadcastState", "ListState",
        "ListStateDescriptor", "MapState",
        "MapStateDescriptor", "ReducingState", "ReducingStateDescriptor", "ValueState",
        "ValueStateDescriptor",
    },
}  # fmt: skip


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_every_listed_name_exists_once(module: ModuleType) -> None:
    names = module.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(module, name) is not None


def test_every_public_class_is_listed(module: ModuleType) -> None:
    public = {
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and not name.startswith("_") and thing.__module__.startswith("tidegate")
    }
    assert public <= set(module.__all__)


def test_every_listed_class_is_documented_with_its_public_methods(module: ModuleType) -> None:
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.isclass(thing):
            continue
        assert inspect.getdoc(thing), name
        for method_name, method in inspect.getmembers(thing, inspect.isfunction):
            if not method_name.startswith("_"):
                assert inspect.getdoc(method), f"{name}.{method_name}"


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_stay(name: str) -> None:
    assert PROMISED[name] <= set(importlib.import_module(name).__all__)


@pytest.mark.parametrize("name", ["tidegate", "tidegate.common", "tidegate.datastream", "tidegate.state"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    module = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("name", ["tidegate", "tidegate.common", "tidegate.datastream"])
def test_what_is_loaded_on_first_use_is_listed_before(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)


def test_a_name_that_was_loaded_once_is_an_attribute_from_then_on() -> None:
    import tidegate.datastream.data_stream

    module = tidegate.datastream.data_stream
    assert module.KeyedStream is vars(module)["KeyedStream"]
