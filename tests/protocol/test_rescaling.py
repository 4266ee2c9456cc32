"""Another parallelism for a job graph: what changes together, and what cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.scheduling.execution_graph import build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import (
    Chaining,
    JobGraph,
    StreamEdge,
    StreamGraph,
    StreamNode,
    build_job_graph,
)
from tidegate.protocol.scheduling.rescaling import (
    ALL_OPERATORS,
    RescaleError,
    highest_parallelism,
    parallelism_of,
    rescaled,
)


def job(**changed: object) -> JobGraph:
    """A source limited to one subtask; parse and clean chained; count by key; a sink of its own behind it."""
    nodes = {
        1: StreamNode(
            1, "Read", "read", b"", 1, 12, is_source=True, highest_parallelism=1, stays_single=True
        ),
        2: StreamNode(2, "Parse", "parse", b"", 2, 12),
        3: StreamNode(3, "Clean", "clean", b"", 2, 12),
        4: StreamNode(4, "Count", "count", b"", 2, 12),
        5: StreamNode(5, "Write", "write", b"", 2, 12, chaining=Chaining.NEVER),
    }
    for node in nodes.values():
        node.defined_at = f"job.py:{node.node_id}"
    for name, value in changed.items():
        uid, _, field = name.partition("_")
        node = next(node for node in nodes.values() if node.uid == uid)
        setattr(node, field, value)
    edges = [
        StreamEdge(0, 1, 2, Partitioning.REBALANCE),
        StreamEdge(1, 2, 3, Partitioning.FORWARD),
        StreamEdge(2, 3, 4, Partitioning.HASH),
        StreamEdge(3, 4, 5, Partitioning.FORWARD),
    ]
    return build_job_graph(StreamGraph("job", nodes, edges))


def test_one_operator_changes_alone() -> None:
    graph = job()
    changed = rescaled(graph, {"parse": 3})
    assert parallelism_of(changed) == {"read": 1, "parse": 3, "clean": 3, "count": 2, "write": 2}
    assert parallelism_of(graph)["parse"] == 2, "the graph that runs was changed"
    assert [task.parallelism for task in changed.tasks] == [1, 3, 2, 2]
    assert len(build_execution_graph(changed).subtasks) == 8


def test_forward_exchanges_join_tasks() -> None:
    assert parallelism_of(rescaled(job(), {"write": 4})) == {
        "read": 1,
        "parse": 2,
        "clean": 2,
        "count": 4,
        "write": 4,
    }


def test_a_name_will_do_where_only_one_operator_has_it() -> None:
    assert parallelism_of(rescaled(job(), {"Count": 5}))["count"] == 5
    with pytest.raises(RescaleError, match=r"2 operators are called 'Count'.*'count', 'write'"):
        rescaled(job(write_name="Count"), {"Count": 5})


def test_everything_is_what_was_not_limited() -> None:
    assert parallelism_of(rescaled(job(), {ALL_OPERATORS: 5})) == {
        "read": 1,
        "parse": 5,
        "clean": 5,
        "count": 5,
        "write": 5,
    }
    mixed = rescaled(job(parse_highest_parallelism=3), {ALL_OPERATORS: 5, "count": 4})
    assert parallelism_of(mixed) == {"read": 1, "parse": 3, "clean": 3, "count": 4, "write": 4}


def test_what_went_down_to_one_may_come_back() -> None:
    low = rescaled(job(), {ALL_OPERATORS: 1})
    assert parallelism_of(rescaled(low, {ALL_OPERATORS: 2})) == parallelism_of(job())


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"nobody": 2}, "no operator with uid or name 'nobody'; there is: 'Read' .uid read., 'Parse'"),
        ({"read": 2}, r"operator 'Read' .job.py:1. can only run with parallelism 1, not 2"),
        ({"count": 13}, r"operator 'Count' .job.py:4. has max parallelism 12, .* set_max_parallelism"),
        ({"write": 13}, "operator 'Count'.*max parallelism 12"),
        ({ALL_OPERATORS: 13}, "operator 'Parse'.*max parallelism 12"),
        ({"count": 0}, "whole number from 1 on, got 0"),
        ({"count": True}, "whole number from 1 on, got True"),
        ({"parse": 3, "clean": 4}, "'Parse'.*and operator 'Clean'.*change together.*3 and 'Clean' 4"),
    ],
)
def test_what_cannot_be_says_why(wanted: dict[str, int], problem: str) -> None:
    with pytest.raises(RescaleError, match=problem):
        rescaled(job(), wanted)


def test_a_job_in_which_nothing_may_change_says_so() -> None:
    limited = job(parse_stays_single=True, count_stays_single=True)
    with pytest.raises(RescaleError, match="every operator of the job is limited to one subtask"):
        rescaled(limited, {ALL_OPERATORS: 2})


def test_the_highest_parallelism_is_that_of_the_narrowest_that_may_change() -> None:
    assert highest_parallelism(job(read_max_parallelism=2)) == 12
    assert highest_parallelism(job(write_max_parallelism=5)) == 5


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_rescaling_again_and_again_is_rescaling_once(steps: list[int]) -> None:
    graph = job()
    for number in steps:
        graph = rescaled(graph, {"count": number})
    once = rescaled(job(), {"count": steps[-1]})
    assert graph == once
    for edge in graph.edges:
        source, target = graph.task_of_node(edge.source_id), graph.task_of_node(edge.target_id)
        is_forward = edge.partitioning is Partitioning.FORWARD
        assert not is_forward or source.parallelism == target.parallelism
