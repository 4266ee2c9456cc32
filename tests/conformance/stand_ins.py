"""What PyFlink's tests find in place of its test utilities and of their Java parts."""

from __future__ import annotations

import datetime
import importlib
import shutil
import struct
import tempfile
import threading
import unittest
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tidegate.common import Configuration, Row
from tidegate.common.errors import JobExecutionError
from tidegate.common.watermark_generators import WatermarkGenerator, WatermarkOutput
from tidegate.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from tidegate.datastream import MapFunction, RuntimeExecutionMode, SinkFunction, StreamExecutionEnvironment


class MissingNameError(AttributeError):
    """A test uses a name that PyFlink has and `tidegate` has not."""


class _MissingType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return missing(f"{cls.__name__}.{name}")

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise MissingNameError(f"there is no {cls.__missing__}")


def missing(path: str) -> Any:
    """A placeholder that may be named, subclassed and read from, but not used."""
    return _MissingType(path, (), {"__missing__": path})


def imported(module: str, name: str) -> Any:
    """What `from module import name` gives in PyFlink, from `tidegate`."""
    path = "tidegate" + module.removeprefix("pyflink")
    try:
        return getattr(importlib.import_module(path), name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("tidegate"):
            raise
    except AttributeError:
        pass
    return missing(f"{path}.{name}")


def utility(module: str, name: str) -> Any:
    """The stand-in for a utility of PyFlink's tests."""
    found = globals().get(name)
    return missing(f"{module}.{name}") if found is None else found


# ---------------------------------------------------------------- settings


class EnvSettings(Configuration):
    """The settings of an environment under the names that Java's and Python's classes have."""

    def __init__(self, configuration: Configuration) -> None:
        self._values = configuration._values

    def setString(self, key: str, value: str) -> None:
        self.set_string(key, value)


def settings_of(env: Any) -> EnvSettings:
    return EnvSettings(env.configuration)


def local_settings() -> Configuration:
    """Every environment that a test makes runs its jobs in this process."""
    return Configuration().set_string("execution.target", "local")


# ---------------------------------------------------------------- test cases


class PyFlinkTestCase(unittest.TestCase):
    tempdir: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.tempdir = tempfile.mkdtemp(prefix="conformance")

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.tempdir, ignore_errors=True)

    @classmethod
    def assert_equals(cls, actual: Any, expected: Any) -> None:
        assert sorted(actual) == sorted(expected)


class _SharedEnvironment(PyFlinkTestCase):
    """PyFlink makes one environment per class; what one test sets, the next one finds."""

    env: StreamExecutionEnvironment
    mode = RuntimeExecutionMode.STREAMING

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.env = StreamExecutionEnvironment.get_execution_environment()
        cls.env.set_parallelism(2)
        cls.env.set_runtime_mode(cls.mode)


class PyFlinkStreamingTestCase(_SharedEnvironment):
    pass


class PyFlinkBatchTestCase(_SharedEnvironment):
    mode = RuntimeExecutionMode.BATCH


class PythonAPICompletenessTestCase:
    """Compares a Python class with a Java class."""

    def test_completeness(self) -> None:
        raise NotImplementedError


def on_windows() -> bool:
    return False


def run_with_config(config_dict: dict[str, str]) -> Callable[[Any], Any]:
    """Runs a test with these settings, and puts back what there was."""

    def decorator(test: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            settings = settings_of(self.env)
            before = settings.to_dict()
            for key, value in config_dict.items():
                settings.set_string(key, value)
            try:
                return test(self, *args, **kwargs)
            finally:
                for key in config_dict:
                    if key in before:
                        settings.set_string(key, before[key])
                    else:
                        settings.remove_config(key)

        run.__name__ = test.__name__
        return run

    return decorator


# Raised by PyFlink where a job fails.
Py4JJavaError = JobExecutionError


# ---------------------------------------------------------------- the sink that collects

_collected: dict[int, list[Any]] = {}
_numbers = iter(range(1 << 30))
_lock = threading.Lock()


class DataStreamTestSinkFunction(SinkFunction):
    """Collects a stream in this process, as Java objects would print it."""

    def __init__(self) -> None:
        self.number = next(_numbers)

    def invoke(self, value: Any, *context: Any) -> None:
        collect(self.number, value)

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        with _lock:
            values = _collected.pop(self.number, [])
        if not is_python_object:
            return [java_text(value) for value in values]
        return [str(value) for value in values] if stringify else values

    def clear(self) -> None:
        with _lock:
            _collected.pop(self.number, None)


def collect(number: int, value: Any) -> None:
    with _lock:
        _collected.setdefault(number, []).append(value)


def java_text(value: Any) -> str:
    """What `toString` of the Java object for a value gives."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Row):
        signs = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}
        return f"{signs[value.get_row_kind().name]}[{', '.join(map(java_text, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(java_text, value))})"
    if isinstance(value, (list, bytes, bytearray)):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_text(k)}={java_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
        return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"
    if isinstance(value, datetime.time):
        return f"{value:%H:%M:%S}"
    return str(value)


def _float_text(value: float) -> str:
    """Shortest text of a number; one that fits 32 bits is taken for a Java float."""
    try:
        is_single = struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        is_single = False
    if is_single:
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
                return repr(float(text))
    return repr(value)


# ---------------------------------------------------------------- Java classes of PyFlink's tests


class PartitionCustomTestMapFunction(MapFunction):
    """Checks that a record's second field chose the subtask it came to."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        if value[1] % self.count != self.subtask:
            raise ValueError(f"{value!r} came to subtask {self.subtask} of {self.count}")
        return value


class PerElementWatermarkGenerator(WatermarkGenerator):
    """A watermark with the event time of every record."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Nothing is left to say."""


_JAVA = {
    "org.apache.flink.api.common.eventtime.WatermarkStrategy.forGenerator": WatermarkStrategy.for_generator,
    "org.apache.flink.python.util.PartitionCustomTestMapFunction": PartitionCustomTestMapFunction,
    "org.apache.flink.streaming.api.functions.python.eventtime"
    ".PerElementWatermarkGenerator.getSupplier": PerElementWatermarkGenerator,
}


class _JavaPackage:
    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        return _JAVA.get(path) or _JavaPackage(path)


class _Gateway:
    jvm = _JavaPackage()


def get_gateway() -> _Gateway:
    return _Gateway()


class SecondColumnTimestampAssigner(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])
