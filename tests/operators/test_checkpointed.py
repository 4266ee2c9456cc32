"""Functions that take part in checkpoints: when they are called, what they get, what their errors do."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, StateError, UserCodeError
from tidegate.common.typeinfo import Types
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.operators.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from tidegate.operators.elementwise import FilterOperator, FlatMapOperator, MapOperator, ProcessOperator
from tidegate.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from tidegate.operators.keyed.keyed import KeyedProcessOperator, KeyedReduceOperator
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.operators.sinks import Sink, SinkFunctionOperator, SinkOperator, SinkWriter
from tidegate.operators.sources.sources import Source, SourceOperator, SourceReader
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import CheckpointId

from .harness import OperatorUnderTest

calls: list[Any] = []
"""What the functions here were called with; operators are pickled, so it cannot be an attribute."""


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


class Counting(MapFunction, CheckpointedFunction):
    """Numbers the records of its subtask; the number is operator state."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        calls.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id()))
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.state)
        self._reach("initialize")

    def open(self, runtime_context: RuntimeContext) -> None:
        calls.append("open")

    def map(self, value: Any) -> Any:
        self.count += 1
        return value, self.count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        calls.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self._reach("snapshot")
        self.state.update([self.count])

    def _reach(self, moment: str) -> None:
        if moment == self.failing:
            raise ValueError("no more paper")


def test_a_checkpointed_function_is_initialised_before_it_is_opened_and_asked_before_a_snapshot() -> None:
    test = OperatorUnderTest(MapOperator(Counting())).open()
    assert test.process(["a", "b"]) == [("a", 1), ("b", 2)]
    snapshot = test.checkpoint(7)
    assert calls == [("initialize", False, None), "open", ("snapshot", 7, 0)]
    again = OperatorUnderTest(MapOperator(Counting()), restored=snapshot).open()
    assert calls[3] == ("initialize", True, 7)
    assert again.process(["c"]) == [("c", 3)]


def test_a_failing_snapshot_state_is_an_error_of_the_snapshot() -> None:
    test = OperatorUnderTest(MapOperator(Counting("snapshot"))).open()
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): snapshot_state\(\) raised ValueError: no more"):
        test.checkpoint(1)


def test_a_failing_initialisation_names_the_operator_and_the_function_is_not_closed() -> None:
    test = OperatorUnderTest(MapOperator(Counting("initialize")))
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): initialize_state\(\) raised ValueError"):
        test.open()
    test.operator.close()


# ---------------------------------------------------------------- list checkpointed


class Positions(FlatMapFunction, ListCheckpointed):
    def __init__(self) -> None:
        self.items: list[Any] = []

    def flat_map(self, value: Any) -> Any:
        self.items.append(value)
        return list(self.items)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        calls.append((checkpoint_id, timestamp))
        return self.items

    def restore_state(self, state: list[Any]) -> None:
        calls.append(state)
        self.items = state


def test_a_list_checkpointed_function_hands_its_items_out_and_gets_them_back() -> None:
    test = OperatorUnderTest(FlatMapOperator(Positions())).open()
    test.process([1, 2])
    snapshot = test.checkpoint(3)
    assert snapshot.lists[0].item_count == 2
    again = OperatorUnderTest(FlatMapOperator(Positions()), restored=snapshot).open()
    assert calls == [(3, 0), [1, 2]]
    assert again.process([3]) == [1, 2, 3]


def test_a_function_cannot_be_both() -> None:
    class Both(Positions, CheckpointedFunction):  # type: ignore[misc]
        def initialize_state(self, context: FunctionInitializationContext) -> None: ...

    with pytest.raises(ConfigurationError, match="Both is both a CheckpointedFunction and a ListCheckp"):
        FlatMapOperator(Both())


# ---------------------------------------------------------------- listeners


class Listener(CheckpointListener):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        calls.append(("aborted", checkpoint_id))


class ListeningMap(MapFunction, Listener):
    def map(self, value: Any) -> Any: ...


class ListeningFlatMap(FlatMapFunction, Listener):
    def flat_map(self, value: Any) -> Any: ...


class ListeningFilter(FilterFunction, Listener):
    def filter(self, value: Any) -> Any: ...


class ListeningProcess(ProcessFunction, Listener):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any: ...


class ListeningKeyedProcess(KeyedProcessFunction, Listener):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any: ...


class ListeningReduce(ReduceFunction, Listener):
    def reduce(self, value1: Any, value2: Any) -> Any: ...


class ListeningSinkFunction(SinkFunction, Listener):
    def invoke(self, value: Any) -> None: ...


class ListeningWriter(SinkWriter, Listener):
    def write_batch(self, values: list[Any]) -> None: ...


class ListeningSink(Sink):
    def create_writer(self) -> SinkWriter:
        return ListeningWriter()


class ListeningReader(SourceReader, Listener):
    def poll(self, max_records: int) -> Batch | None: ...

    def snapshot_state(self) -> list[Any]:
        return []


class ListeningSource(Source):
    def create_splits(self, parallelism: int) -> list[Any]:
        return []

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return ListeningReader()


class Identity:
    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    "operator",
    [
        MapOperator(ListeningMap()),
        FlatMapOperator(ListeningFlatMap()),
        FilterOperator(ListeningFilter()),
        ProcessOperator(ListeningProcess()),
        KeyedProcessOperator(ListeningKeyedProcess(), Identity()),
        KeyedProcessOperator(ListeningMap(), Identity(), method="map"),
        KeyedReduceOperator(ListeningReduce(), Identity()),
        SinkFunctionOperator(ListeningSinkFunction()),
        SinkOperator(ListeningSink()),
        SourceOperator(ListeningSource()),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_any_function_hears_what_becomes_of_checkpoints(operator: Any) -> None:
    test = OperatorUnderTest(operator).open()
    test.complete(1)
    test.operator.notify_checkpoint_aborted(CheckpointId(2))
    assert calls == [("complete", 1), ("aborted", 2)]
    test.operator.close()


class Deaf(ListeningMap):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        raise ValueError("what?")

    notify_checkpoint_aborted = notify_checkpoint_complete


def test_an_exception_in_a_notification_names_the_operator() -> None:
    test = OperatorUnderTest(MapOperator(Deaf())).open()
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): notify_checkpoint_complete\(\) raised Val"):
        test.complete(1)
    with pytest.raises(UserCodeError, match=r"notify_checkpoint_aborted\(\) raised ValueError: what"):
        test.operator.notify_checkpoint_aborted(CheckpointId(1))


class BufferingWriter(SinkWriter, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("buffer", Types.STRING()))
        self.buffer = self.state.get()
        calls.append(list(self.buffer))

    def write_batch(self, values: list[Any]) -> None:
        self.buffer += values

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.buffer)


class BufferingSink(Sink):
    def create_writer(self) -> SinkWriter:
        return BufferingWriter()


def test_a_sink_writer_may_keep_operator_state() -> None:
    test = OperatorUnderTest(SinkOperator(BufferingSink())).open()
    test.process(["a", "b"])
    OperatorUnderTest(SinkOperator(BufferingSink()), restored=test.checkpoint(1)).open()
    assert calls == [[], ["a", "b"]]


# ---------------------------------------------------------------- the stores of the contexts


class Rules(KeyedProcessFunction, CheckpointedFunction):
    """Keyed state and broadcast state, both declared in `initialize_state`."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))
        self.rules = context.get_operator_state_store().get_broadcast_state(
            MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        name, step = value
        self.count.update((self.count.value() or 0) + step)
        self.rules.put(name, step)
        yield name, self.count.value(), sorted(self.rules.items())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if calls == ["read keyed state"]:
            self.count.value()


def first(value: Any) -> Any:
    return value[0]


def test_keyed_and_broadcast_state_can_be_declared_in_initialize_state() -> None:
    operator = KeyedProcessOperator(Rules(), first, Types.STRING())
    test = OperatorUnderTest(operator, parallelism=1).open()
    assert test.process([("a", 1), ("b", 2)]) == [("a", 1, [("a", 1)]), ("b", 2, [("a", 1), ("b", 2)])]
    again = OperatorUnderTest(operator, test.checkpoint(1), parallelism=1).open()
    assert again.process([("a", 5)]) == [("a", 6, [("a", 5), ("b", 2)])]


def test_keyed_state_in_snapshot_state_has_no_key() -> None:
    test = OperatorUnderTest(KeyedProcessOperator(Rules(), first, Types.STRING())).open()
    calls.append("read keyed state")
    with pytest.raises(StateError, match="key"):
        test.operator.snapshot_state(CheckpointBarrier(CheckpointId(1), 0))


class KeyedWithoutKeys(Counting):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        context.get_keyed_state_store().get_state(ValueStateDescriptor("count"))


def test_keyed_state_without_a_key_by_is_refused() -> None:
    with pytest.raises(StateError, match=r"Totals \(1/2\): keyed state can only be used on a keyed stream"):
        OperatorUnderTest(MapOperator(KeyedWithoutKeys())).open()
