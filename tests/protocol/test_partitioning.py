"""Which subtasks an edge connects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.ids import ChannelId
from tidegate.protocol.partitioning import Partitioning, channels_of_edge, connected_subtasks

PARALLELISM = st.integers(min_value=1, max_value=40)


@given(up=PARALLELISM, down=PARALLELISM)
def test_rescale_connects_everybody_and_the_wider_side_exactly_once(up: int, down: int) -> None:
    channels = channels_of_edge(3, Partitioning.RESCALE, up, down)
    upstream = Counter(channel.upstream_index for channel in channels)
    downstream = Counter(channel.downstream_index for channel in channels)
    assert set(upstream) == set(range(up))
    assert set(downstream) == set(range(down))
    wider = downstream if down >= up else upstream
    narrower = upstream if down >= up else downstream
    assert set(wider.values()) == {1}
    assert max(narrower.values()) - min(narrower.values()) <= 1


@pytest.mark.parametrize("partitioning", [Partitioning.HASH, Partitioning.REBALANCE, Partitioning.BROADCAST])
def test_a_shuffle_connects_everybody_with_everybody(partitioning: Partitioning) -> None:
    channels = channels_of_edge(7, partitioning, 2, 3)
    assert channels == [ChannelId(7, up, down) for up in range(2) for down in range(3)]


def test_forward_connects_equal_indexes() -> None:
    assert channels_of_edge(0, Partitioning.FORWARD, 3, 3) == [
        ChannelId(0, index, index) for index in range(3)
    ]
    assert connected_subtasks(Partitioning.FORWARD, 2, 3, 3) == range(2, 3)


def test_ids_read_as_edge_and_direction() -> None:
    assert str(ChannelId(4, 0, 2)) == "e4:0->2"
