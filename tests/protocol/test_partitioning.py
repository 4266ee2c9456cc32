"""Which subtasks an edge connects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.ids import ChannelId
from tidegate.protocol.scheduling.partitioning import Partitioning, connected_subtasks

PARALLELISM = st.integers(min_value=1, max_value=40)


def connections(partitioning: Partitioning, up: int, down: int) -> list[tuple[int, int]]:
    """All pairs of connected subtasks, as the upstream ones see them."""
    return [
        (index, other) for index in range(up) for other in connected_subtasks(partitioning, index, up, down)
    ]


@given(partitioning=st.sampled_from(Partitioning), up=PARALLELISM, down=PARALLELISM)
def test_both_ends_see_the_same_connections(partitioning: Partitioning, up: int, down: int) -> None:
    if partitioning is Partitioning.FORWARD:
        down = up
    from_below = [
        (other, index) for index in range(down) for other in connected_subtasks(partitioning, index, down, up)
    ]
    assert sorted(from_below) == connections(partitioning, up, down)


@given(up=PARALLELISM, down=PARALLELISM)
def test_rescale_connects_everybody_and_the_wider_side_exactly_once(up: int, down: int) -> None:
    channels = connections(Partitioning.RESCALE, up, down)
    upstream = Counter(sender for sender, _ in channels)
    downstream = Counter(receiver for _, receiver in channels)
    assert set(upstream) == set(range(up))
    assert set(downstream) == set(range(down))
    wider = downstream if down >= up else upstream
    narrower = upstream if down >= up else downstream
    assert set(wider.values()) == {1}
    assert max(narrower.values()) - min(narrower.values()) <= 1


@pytest.mark.parametrize("partitioning", [Partitioning.HASH, Partitioning.REBALANCE, Partitioning.BROADCAST])
def test_a_shuffle_connects_everybody_with_everybody(partitioning: Partitioning) -> None:
    assert connections(partitioning, 2, 3) == [(up, down) for up in range(2) for down in range(3)]


def test_forward_connects_equal_indexes() -> None:
    assert connections(Partitioning.FORWARD, 3, 3) == [(index, index) for index in range(3)]
    assert connected_subtasks(Partitioning.FORWARD, 2, 3, 3) == range(2, 3)


def test_ids_read_as_edge_and_direction() -> None:
    assert str(ChannelId(4, 0, 2)) == "e4:0->2"
