"""From calls to graphs: names, uids, lines, parallelism, and functions that cannot travel."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, GraphError, SerializationError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamNode, build_job_graph

from .jobs import RunningSum, environment


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def program(env: StreamExecutionEnvironment) -> None:
    left = env.from_collection([1, 2])
    right = env.from_collection([3]).map(str).map(int)
    keyed = left.union(right).key_by(lambda value: value % 2)
    keyed.process(RunningSum()).name("Sums").add_sink(print)
    left.map(str).add_sink(print).uid("by hand")


def uids(env: StreamExecutionEnvironment) -> list[str]:
    program(env)
    return [node.uid for node in env.get_stream_graph().nodes.values()]


def named(env: StreamExecutionEnvironment, name: str) -> StreamNode:
    (found,) = (node for node in env.get_stream_graph().nodes.values() if node.name == name)
    return found


def test_two_builds_of_a_program_give_the_same_uids() -> None:
    first = uids(environment())
    assert uids(environment()) == first
    assert len(set(first)) == len(first) == 8
    assert "by hand" in first


def test_uids_do_not_depend_on_the_parallelism() -> None:
    assert uids(environment(parallelism=3)) == uids(environment())


def test_an_operator_behind_does_not_change_the_uids_before_it() -> None:
    env = environment()
    program(env)
    env.from_collection([9]).map(abs).add_sink(print)
    longer = [node.uid for node in env.get_stream_graph().nodes.values()]
    assert longer[:8] == uids(environment())


def test_one_uid_for_two_operators_is_refused_with_both_lines() -> None:
    env = environment()
    stream = env.from_collection([1]).map(str).uid("same"); first = line()  # noqa: E702  # fmt: skip
    stream.map(int).uid("same").add_sink(print); second = line()  # noqa: E702  # fmt: skip
    with pytest.raises(GraphError, match=rf"test_graph.py:{first}.*test_graph.py:{second}"):
        env.execute()


def test_previous_uids_reach_the_graph() -> None:
    env = environment()
    stream = env.from_collection([1]).map(str).uid("new", previously="old")
    stream.add_sink(print).uid("sink", previously=["newer", "older"])
    previous = {node.uid: node.previous_uids for node in env.get_stream_graph().nodes.values()}
    assert (previous["new"], previous["sink"]) == (("old",), ("newer", "older"))


@pytest.mark.parametrize("previously", ["", "new", [""], ["old", "new"]])
def test_a_previous_uid_is_another_one(previously: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="uid"):
        environment().from_collection([1]).uid("new", previously=previously)


def test_a_stateful_operator_without_uid_is_named_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(tmp_path)
    program(env)
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        env.execute()
    (warning,) = (r for r in caplog.records if "has no uid()" in r.getMessage())
    assert "operator 'Sums' (test_graph.py:" in warning.getMessage()


def unpicklable(kind: str) -> Callable[[Any], Any]:
    lock = threading.Lock()
    return lambda value: (lock, value, kind)


def test_a_function_that_cannot_be_sent_names_operator_and_line() -> None:
    env = environment()
    env.from_collection([1]).map(unpicklable("map")).name("Locked").add_sink(print); where = line()  # noqa: E702  # fmt: skip
    expected = rf"operator 'Locked' \(test_graph.py:{where}\): its function cannot be sent.*open\(\)"
    with pytest.raises(SerializationError, match=expected):
        env.execute()


def test_a_key_selector_that_cannot_be_sent_names_the_keyed_operator() -> None:
    env = environment()
    env.from_collection([1]).key_by(unpicklable("key")).process(RunningSum()).name("Sums").add_sink(print)
    with pytest.raises(SerializationError, match=r"operator 'Sums' \(test_graph.py:\d+\): its "):
        env.execute()


def test_a_source_of_records_that_cannot_be_sent_names_its_line() -> None:
    env = environment()
    env.from_collection([threading.Lock()]).add_sink(print); where = line()  # noqa: E702  # fmt: skip
    with pytest.raises(SerializationError, match=rf"'Collection' \(test_graph.py:{where}\)"):
        env.execute()


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(GraphError, match="no operators"):
        environment().execute()


def test_parallelism_above_the_maximum_is_refused() -> None:
    env = environment(parallelism=4)
    env.from_collection([1]).map(str).set_max_parallelism(2).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"Map \(test_graph.py:\d+\).*max parallelism 2"):
        env.execute()


def test_forward_to_another_parallelism_is_refused() -> None:
    env = environment()
    env.from_collection([1]).forward().map(str).set_parallelism(2).add_sink(print)
    with pytest.raises(GraphError, match=r"use rebalance\(\)"):
        env.execute()


def test_operators_take_parallelism_from_themselves_their_source_or_the_environment() -> None:
    env = environment(parallelism=3)
    env.set_max_parallelism(60)
    env.from_collection([1]).map(str).name("own").set_parallelism(2).set_max_parallelism(30).map(int).name(
        "default"
    ).force_non_parallel().map(str).name("environment").add_sink(print)
    assert named(env, "Collection").parallelism == 1
    own, default, last = (named(env, name) for name in ("own", "default", "environment"))
    assert (own.parallelism, own.max_parallelism) == (2, 30)
    assert default.parallelism == 1
    assert (last.parallelism, last.max_parallelism) == (3, 60)


def test_streams_are_forwarded_where_the_parallelism_is_equal_and_rebalanced_where_not() -> None:
    env = environment(parallelism=2)
    env.from_collection([1]).map(str).map(int).add_sink(print)
    graph = env.get_stream_graph("named")
    assert graph.job_name == "named"
    assert [edge.partitioning for edge in graph.edges] == [
        Partitioning.REBALANCE,
        Partitioning.FORWARD,
        Partitioning.FORWARD,
    ]
    assert [task.name for task in build_job_graph(graph).tasks] == ["Collection", "Map -> Map -> Sink"]


def test_chains_end_where_the_user_says() -> None:
    env = environment()
    env.from_collection([1]).map(str).name("a").start_new_chain().map(int).name("b").disable_chaining().map(
        str
    ).name("c").add_sink(print)
    tasks = [task.name for task in build_job_graph(env.get_stream_graph()).tasks]
    assert tasks == ["Collection", "a", "b", "c -> Sink"]


def test_a_job_without_generated_uids_names_every_operator_that_has_none() -> None:
    env = environment()
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).uid("source").map(str).name("forgotten").add_sink(print)
    message = r"no uid\(\) on operator 'forgotten' \(test_graph.*'Sink'.*pipeline\.auto-generate-uids"
    with pytest.raises(GraphError, match=message):
        env.execute()
