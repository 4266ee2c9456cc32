"""The broadcast state pattern: rules that all subtasks see beside a stream that is spread over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import (
    BroadcastProcessFunction,
    HashMapStateBackend,
    KeyedBroadcastProcessFunction,
    LmdbStateBackend,
    RuntimeContext,
)
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.testing.harness_forms import KeyedBroadcastHarness

from .jobs import environment

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHER = MapStateDescriptor("other", Types.STRING(), Types.LONG())


class Tell(BroadcastProcessFunction):
    """Gives every broadcast record with its subtask, and every other record with what is known then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        rules = ctx.get_broadcast_state(RULES)
        known = {name: rules.get(name) for name in rules}
        assert sorted(known) == sorted(rules.keys())
        assert sorted(known.items()) == sorted(rules.items())
        assert rules.is_empty() == (not known)
        assert ctx.current_processing_time() > 0
        assert ctx.current_watermark() < 0
        yield "element", value, "a" in rules, ctx.timestamp()

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        name, limit = value
        ctx.get_broadcast_state(RULES).put(name, limit)
        yield "rule", name, ctx.get_broadcast_state(RULES).get(name), self.index


def test_every_subtask_gets_every_broadcast_record_and_each_other_record_comes_once() -> None:
    env = environment(parallelism=3)
    rules = env.from_collection([("a", 1), ("b", 2)]).broadcast(RULES)
    results = list(
        env.from_collection(range(9)).rebalance().connect(rules).process(Tell()).execute_and_collect()
    )
    told = sorted(result[1:] for result in results if result[0] == "rule")
    assert told == [(name, limit, index) for name, limit in (("a", 1), ("b", 2)) for index in range(3)]
    assert sorted(result[1] for result in results if result[0] == "element") == list(range(9))


class Limits(KeyedBroadcastProcessFunction):
    """Counts per key, and gives what is over the newest limit for a key when its timer fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        self.count.update((self.count.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10)
        assert ctx.get_current_key() == value[0]
        return None

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any]:
        limit = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        yield ctx.get_current_key(), self.count.value(), limit, timestamp, ctx.time_domain().name


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_keyed_stream_has_state_timers_and_the_rules(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    rules = env.from_collection([("a", 1), ("b", 2), ("a", 5)]).broadcast(RULES)
    keyed = env.from_collection([("a", 3), ("b", 4), ("a", 30)]).key_by(lambda pair: pair[0], Types.STRING())
    results = sorted(keyed.connect(rules).process(Limits()).execute_and_collect())
    assert results == [("a", 33, 5, 10, "EVENT_TIME"), ("b", 4, 2, 10, "EVENT_TIME")]


def test_several_maps_may_be_broadcast() -> None:
    class Both(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> None:
            return None

        def process_broadcast_element(
            self, value: Any, ctx: BroadcastProcessFunction.Context
        ) -> Iterable[Any]:
            ctx.get_broadcast_state(RULES).put("n", value)
            ctx.get_broadcast_state(OTHER).put("n", value * 10)
            yield ctx.get_broadcast_state(RULES).get("n"), ctx.get_broadcast_state(OTHER).get("n")

    env = environment()
    stream = env.from_collection([1]).connect(env.from_collection([2]).broadcast(RULES, OTHER))
    assert list(stream.process(Both()).execute_and_collect()) == [(2, 20)]


COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = MapStateDescriptor("seen", Types.LONG(), Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())


class Reset(KeyedBroadcastProcessFunction):
    """A broadcast record asks what every key has, and resets the counts of some."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_map_state(SEEN)
        self.names = runtime_context.get_list_state(NAMES)

    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value, 1)
        self.names.add(str(value))
        if value % 10 == 9:
            self.count.clear()

    def process_broadcast_element(
        self, value: int, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[Any]:
        found: dict[Any, list[Any]] = {}

        def tell(key: Any, state: Any) -> None:
            found.setdefault(key, [0, 0, 0])[0] = state.value()
            state.update(100)

        def put(key: Any, place: int, what: Any) -> None:
            if key in found:
                found[key][place] = what

        ctx.apply_to_keyed_state(COUNT, tell)
        ctx.apply_to_keyed_state(SEEN, lambda key, state: put(key, 1, len(list(state.keys()))))
        ctx.apply_to_keyed_state(NAMES, lambda key, state: put(key, 2, list(state.get())))
        yield value, sorted(found.items())


@pytest.mark.parametrize("backend", [HashMapStateBackend(), LmdbStateBackend()])
def test_a_broadcast_record_reaches_the_state_of_every_key(backend: Any) -> None:
    with KeyedBroadcastHarness(Reset(), abs, RULES, state_backend=backend) as harness:
        harness.process_elements([0, 1, 9, 1])
        harness.snapshot()
        harness.process_elements([12, 29])
        harness.process_broadcast_element(1)
        first = [(0, [1, 1, ["0"]]), (1, [2, 1, ["1", "1"]]), (12, [1, 1, ["12"]])]
        assert harness.take_output() == [(1, first)]
        harness.process_elements([1])
        harness.process_broadcast_element(2)
        second = [(0, [100, 1, ["0"]]), (1, [101, 1, ["1", "1", "1"]]), (12, [100, 1, ["12"]])]
        assert harness.take_output() == [(2, second)]


class Misuse(BroadcastProcessFunction):
    def __init__(self, read: Any = None, write: Any = None) -> None:
        self.read, self.write = read, write

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> None:
        if self.read is not None:
            self.read(ctx)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        if self.write is not None:
            self.write(ctx)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            Misuse(lambda ctx: ctx.get_broadcast_state(RULES).put("a", 1)),
            "'rules' was written from process_element",
        ),
        (
            Misuse(lambda ctx: ctx.get_broadcast_state(RULES).put_all({"a": 1})),
            "write it in process_broadcast_e",
        ),
        (Misuse(lambda ctx: ctx.get_broadcast_state(RULES).remove("a")), "was written from"),
        (Misuse(lambda ctx: ctx.get_broadcast_state(RULES).clear()), "was written from"),
        (
            Misuse(lambda ctx: ctx.get_broadcast_state(OTHER)),
            r"no broadcast state 'other', but rules; name it in",
        ),
        (Misuse(None, lambda ctx: ctx.get_broadcast_state(OTHER)), "no broadcast state 'other', but rules"),
        (Misuse(None, lambda ctx: 1 // 0), r"process_broadcast_element\(\) raised ZeroDivisionError"),
    ],
)
def test_misuse_fails_with_what_to_do(function: Misuse, message: str) -> None:
    env = environment()
    stream = env.from_collection([1]).connect(env.from_collection([2]).broadcast(RULES))
    with pytest.raises(JobExecutionError, match=message):
        list(stream.process(function).execute_and_collect())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda s: s.connect(s.broadcast(RULES)).process(Limits()),
            "not keyed, so process.. takes a Broadcast",
        ),
        (
            lambda s: s.key_by(abs).connect(s.broadcast(RULES)).process(Tell()),
            "is keyed, so .*KeyedBroadcast",
        ),
        (lambda s: s.broadcast(ListStateDescriptor("a")), "takes MapStateDescriptors, not ListState"),
        (lambda s: s.broadcast(RULES, RULES), "have one name"),
        (lambda s: s.key_by(abs).broadcast(RULES), r"broadcast\(\) cannot change that"),
    ],
)
def test_what_cannot_be_broadcast_is_refused(write: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write(environment().from_collection([1]))
