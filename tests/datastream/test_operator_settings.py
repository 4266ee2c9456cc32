"""What can be set on operators: types, descriptions, buffer timeouts, slot sharing groups, former uids."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment
from tidegate.protocol.scheduling.plan import SlotResources, StreamNode, build_job_graph

from .jobs import environment


def nodes(env: StreamExecutionEnvironment) -> dict[str, StreamNode]:
    return {node.name: node for node in env.get_stream_graph().nodes.values()}


def test_a_stream_knows_its_type() -> None:
    env = environment()
    stream = env.from_collection([1], Types.INT())
    assert stream.get_type() == Types.INT()
    assert stream.filter(bool).get_type() == stream.key_by(abs).get_type() == Types.INT()
    assert stream.rebalance().get_type() == stream.key_by(abs).sum().get_type() == Types.INT()
    assert stream.map(lambda value: value).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert stream.map(str, Types.STRING()).get_type() == Types.STRING()
    assert stream.flat_map(str, Types.STRING()).get_type() == Types.STRING()
    assert stream.get_execution_config().get_parallelism() == 1


def test_settings_reach_the_graph() -> None:
    env = environment()
    stream = env.from_collection([1]).map(abs).name("A").set_description("makes it positive")
    sink = stream.set_buffer_timeout(5).add_sink(print).name("B").set_description("shows it")
    sink.set_max_parallelism(16).set_uid_hash("0123456789abcdef")
    found = nodes(env)
    assert (found["A"].description, found["B"].description) == ("makes it positive", "shows it")
    assert (found["A"].buffer_timeout_ms, found["B"].buffer_timeout_ms) == (5, None)
    assert (found["B"].max_parallelism, found["B"].previous_uids) == (16, ("0123456789abcdef",))


def test_an_operator_of_another_buffer_timeout_gives_the_same_results() -> None:
    for timeout_ms in (-1, 0, 7):
        env = environment(parallelism=2).set_buffer_timeout(-1)
        stream = env.from_collection(range(1_000)).rebalance().map(abs).set_buffer_timeout(timeout_ms)
        assert sorted(stream.execute_and_collect()) == list(range(1_000))


def test_the_environment_knows_its_buffer_timeout() -> None:
    env = environment()
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(7).get_buffer_timeout() == 7
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert env.set_buffer_timeout(0).get_buffer_timeout() == 0
    with pytest.raises(ConfigurationError, match="-2 ms"):
        env.set_buffer_timeout(-2)


# ---------------------------------------------------------------- slot sharing


def test_a_slot_sharing_group_is_inherited_from_inputs_that_agree() -> None:
    env = environment()
    left = env.from_collection([1]).slot_sharing_group("fast")
    right = env.from_collection([2]).name("Right").slot_sharing_group("slow")
    left.map(abs).name("Behind").union(right).map(abs).name("Both").add_sink(print).name("End")
    groups = {name: node.slot_sharing_group for name, node in nodes(env).items()}
    expected = {"Collection": "fast", "Behind": "fast", "Right": "slow", "Both": "default", "End": "default"}
    assert groups == expected


def test_operators_of_different_groups_do_not_share_a_task() -> None:
    env = environment()
    env.from_collection([1]).map(abs).slot_sharing_group("other").add_sink(print)
    tasks = build_job_graph(env.get_stream_graph()).tasks
    assert [(task.name, task.slot_sharing_group) for task in tasks] == [
        ("Collection", "default"),
        ("Map -> Sink", "other"),
    ]


def test_the_resources_of_a_group_reach_the_graph_however_it_is_made_known() -> None:
    group = (
        SlotSharingGroup.builder("big")
        .set_cpu_cores(2)
        .set_task_heap_memory_mb(100)
        .set_managed_memory_mb(28)
        .set_external_resource("gpu", 1)
        .build()
    )
    expected = {"big": SlotResources(2.0, 128 << 20, (("gpu", 1.0),))}
    env = environment()
    env.from_collection([1]).slot_sharing_group(group)
    assert env.get_stream_graph().slots == expected
    env = environment().register_slot_sharing_group(SlotSharingGroup.builder("big").build())
    env.register_slot_sharing_group(group).from_collection([1]).slot_sharing_group("big")
    assert env.get_stream_graph().slots == expected
    other = SlotSharingGroup.builder("big").set_cpu_cores(1).set_task_heap_memory_mb(1).build()
    with pytest.raises(ConfigurationError, match="'big' is registered with other resources"):
        env.register_slot_sharing_group(other)


def test_a_group_says_what_was_set() -> None:
    heap, further, managed = (MemorySize.of_mebi_bytes(size) for size in (100, 200, 300))
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.0).set_external_resource("gpu", 1.0)
    builder.set_task_heap_memory(heap).set_task_off_heap_memory(further).set_managed_memory(managed)
    group = builder.build()
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.0)
    assert (group.get_task_heap_memory(), group.get_task_off_heap_memory()) == (heap, further)
    assert (group.get_managed_memory(), group.get_external_resources()) == (managed, {"gpu": 1.0})
    assert group == builder.build()
    assert len({group, builder.build()}) == 1
    empty = SlotSharingGroup.builder("e").build()
    assert (empty.get_cpu_cores(), empty.get_task_heap_memory(), empty.get_external_resources()) == (
        None,
        None,
        {},
    )


def test_memory_sizes_compare_and_convert() -> None:
    size = MemorySize((5 << 40) + 1)
    units = (size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes())
    assert units == ((5 << 40) + 1, 5 << 30, 5 << 20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (5 << 10, 5)
    assert MemorySize(1) < size
    assert MemorySize(1) <= MemorySize(1)
    assert str(MemorySize(8)) == "8 bytes"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda b: b.set_cpu_cores(1).build(), "both set_cpu_cores"),
        (lambda b: b.set_task_heap_memory_mb(1).build(), "both set_cpu_cores"),
        (lambda b: b.set_external_resource("gpu", 1).build(), "both set_cpu_cores"),
        (lambda b: b.set_cpu_cores(0), "CPU cores must be more than 0, not 0"),
        (lambda b: b.set_task_heap_memory(MemorySize(0)), "heap memory must be more than 0"),
        (lambda b: b.set_external_resource("gpu", 0), "'gpu' must be more than 0"),
        (lambda b: MemorySize(-1), "not -1"),
        (lambda b: SlotSharingGroup.builder(""), "non-empty name"),
    ],
)
def test_a_group_that_cannot_be_is_refused(write: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write(SlotSharingGroup.builder("g"))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.set_buffer_timeout(-2), "buffer timeout is -2 ms"),
        (lambda s: s.slot_sharing_group(""), "a SlotSharingGroup or its name"),
        (lambda s: s.slot_sharing_group(3), "not 3"),
        (lambda s: s.set_uid_hash("my-uid"), "no generated uid"),
        (
            lambda s: s.get_execution_environment().register_slot_sharing_group("a"),
            "takes a SlotSharingGroup",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(write: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write(environment().from_collection([1]))
