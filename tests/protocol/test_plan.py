"""The three graphs: what is refused, what is chained, and how subtasks are wired."""

from __future__ import annotations

import pytest
from tidegate.common.errors import ConfigurationError, GraphError
from tidegate.protocol.ids import ChannelId, SubtaskId
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

FORWARD = Partitioning.FORWARD


def node(node_id: int, name: str, parallelism: int = 1, **changed: object) -> StreamNode:
    settings = {
        "max_parallelism": 128,
        "is_source": node_id == 1,
        "defined_at": f"job.py:{node_id}",
        **changed,
    }
    uid = str(settings.pop("uid", f"uid-{node_id}"))
    return StreamNode(node_id, name, uid, b"", parallelism, **settings)  # type: ignore[arg-type]


def graph(nodes: list[StreamNode], edges: list[tuple[int, int, Partitioning]]) -> StreamGraph:
    """Edges as (from, to, partitioning), numbered from 0."""
    stream_edges = [StreamEdge(number, *edge) for number, edge in enumerate(edges)]
    return StreamGraph("job", {each.node_id: each for each in nodes}, stream_edges)


def chains(job: JobGraph) -> list[str]:
    return [task.name for task in job.tasks]


# ---------------------------------------------------------------- refused


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="no operators"):
        StreamGraph("job").validate()


def test_a_cycle_is_refused_and_its_operators_are_named_with_their_lines() -> None:
    looped = graph(
        [node(1, "numbers"), node(2, "plus"), node(3, "minus")],
        [(1, 2, FORWARD), (2, 3, FORWARD), (3, 2, FORWARD)],
    )
    with pytest.raises(GraphError, match=r"cycle.*'plus' \(job.py:2\).*'minus' \(job.py:3\)"):
        looped.validate()


def test_one_uid_for_two_operators_is_refused() -> None:
    doubled = graph([node(1, "a", uid="same"), node(2, "b", uid="same")], [(1, 2, FORWARD)])
    with pytest.raises(GraphError, match=r"'same' is used by operator 'a' \(job.py:1\) and by operator 'b'"):
        doubled.validate()


@pytest.mark.parametrize("uid", ["a", "b"])
def test_a_previous_uid_belongs_to_one_operator(uid: str) -> None:
    first = node(1, "first", uid="a", previous_uids=("old",))
    second = node(2, "second", uid="b", previous_uids=("old" if uid == "b" else "a",))
    claimed = "old" if uid == "b" else "a"
    with pytest.raises(GraphError, match=rf"uid '{claimed}' is claimed by .*'first'.* by operator 'second'"):
        graph([first, second], [(1, 2, FORWARD)]).validate()


def test_forward_between_unequal_parallelism_is_refused() -> None:
    uneven = graph([node(1, "a", 2), node(2, "b", 3)], [(1, 2, FORWARD)])
    with pytest.raises(GraphError, match=r"parallelism 2 to .*'b'.* parallelism 3; .*rebalance\(\)"):
        uneven.validate()


def test_an_operator_without_input_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'lonely' \(job.py:2\) has no input"):
        graph([node(1, "a"), node(2, "lonely")], []).validate()


def test_parallelism_above_its_maximum_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"a \(job.py:1\).*parallelism 5 .*max parallelism 4"):
        graph([node(1, "a", 5, max_parallelism=4)], []).validate()


# ---------------------------------------------------------------- chained


def test_forward_edges_chain_into_one_task() -> None:
    job = build_job_graph(
        graph([node(1, "a"), node(2, "b"), node(3, "c")], [(1, 2, FORWARD), (2, 3, FORWARD)])
    )
    assert chains(job) == ["a -> b -> c"]
    assert job.edges == []
    (task,) = job.tasks
    assert task.head.name == "a"
    assert task.is_source
    assert [edge.edge_id for edge in task.chained] == [0, 1]


@pytest.mark.parametrize(
    "second",
    [
        node(2, "b", chaining=Chaining.HEAD),
        node(2, "b", chaining=Chaining.NEVER),
        node(2, "b", max_parallelism=64),
        node(2, "b", colocation_group="spark"),
    ],
)
def test_what_must_not_chain_becomes_a_task_of_its_own(second: StreamNode) -> None:
    job = build_job_graph(graph([node(1, "a"), second], [(1, 2, FORWARD)]))
    assert chains(job) == ["a", "b"]
    assert [edge.edge_id for edge in job.edges] == [0]


def test_a_head_starts_a_chain_that_others_join_and_a_loner_lets_nobody_join() -> None:
    edges = [(1, 2, FORWARD), (2, 3, FORWARD)]
    head = graph([node(1, "a"), node(2, "b", chaining=Chaining.HEAD), node(3, "c")], edges)
    assert chains(build_job_graph(head)) == ["a", "b -> c"]
    loner = graph([node(1, "a"), node(2, "b", chaining=Chaining.NEVER), node(3, "c")], edges)
    assert chains(build_job_graph(loner)) == ["a", "b", "c"]


@pytest.mark.parametrize("partitioning", [p for p in Partitioning if p is not FORWARD])
def test_only_forward_edges_chain(partitioning: Partitioning) -> None:
    job = build_job_graph(graph([node(1, "a"), node(2, "b")], [(1, 2, partitioning)]))
    assert chains(job) == ["a", "b"]


def test_an_operator_with_two_inputs_is_not_chained() -> None:
    nodes = [node(1, "a"), node(2, "b", is_source=True), node(3, "union")]
    job = build_job_graph(graph(nodes, [(1, 3, FORWARD), (2, 3, FORWARD)]))
    assert chains(job) == ["a", "b", "union"]


def test_a_stream_used_twice_chains_into_a_tree() -> None:
    nodes = [node(1, "a"), node(2, "b"), node(3, "c"), node(4, "d")]
    job = build_job_graph(graph(nodes, [(1, 2, FORWARD), (1, 3, FORWARD), (2, 4, FORWARD)]))
    assert chains(job) == ["a -> b -> c -> d"]


def test_chaining_can_be_switched_off() -> None:
    job = build_job_graph(graph([node(1, "a"), node(2, "b")], [(1, 2, FORWARD)]), chaining_enabled=False)
    assert chains(job) == ["a", "b"]


# ---------------------------------------------------------------- wired


def test_subtasks_are_wired_to_both_ends_of_every_channel() -> None:
    job = build_job_graph(graph([node(1, "a", 2), node(2, "b", 3)], [(1, 2, Partitioning.HASH)]))
    execution = build_execution_graph(job)
    assert len(execution.subtasks) == 5
    assert execution.sources == {SubtaskId("task-1", 0), SubtaskId("task-1", 1)}
    outputs = [out for each in execution.subtasks.values() for out in each.outputs]
    sent = [channel for out in outputs for channel in out.channels]
    assert len(sent) == 2 * 3
    for channel in sent:
        sender = execution.subtasks[execution.sender_of(channel)]
        assert channel in sender.outputs[0].channels
        receiver = execution.subtasks[execution.receiver_of(channel)]
        position = [entry.channel for entry in receiver.inputs].index(channel)
        assert receiver.upstream_of(position) == sender.subtask_id
    (out,) = execution.subtasks[SubtaskId("task-1", 1)].outputs
    assert out.channels == tuple(ChannelId(0, 1, index) for index in range(3))
    assert (out.downstream_parallelism, out.downstream_max_parallelism) == (3, 128)


def test_inputs_are_ordered_by_operator_input() -> None:
    nodes = {1: node(1, "a"), 2: node(2, "b", is_source=True), 3: node(3, "both")}
    second_first = [StreamEdge(0, 1, 3, FORWARD, input_index=1), StreamEdge(1, 2, 3, FORWARD, input_index=0)]
    execution = build_execution_graph(build_job_graph(StreamGraph("job", nodes, second_first)))
    inputs = execution.subtasks[SubtaskId("task-3", 0)].inputs
    assert [entry.input_index for entry in inputs] == [0, 1]
    assert [entry.channel.edge_id for entry in inputs] == [1, 0]
