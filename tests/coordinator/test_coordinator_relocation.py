"""A coordinator on a node that is being drained takes a checkpoint and is started on another node."""

from __future__ import annotations

from tidegate.coordinator.coordinator_relocation import CoordinatorRelocation
from tidegate.protocol import task_events as events

from .fakes import TOTALS, FakeCluster, job_spec


class Node:
    """Where the coordinator runs."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.is_drained = False
        self.left = 0
        self.relocation = CoordinatorRelocation(cluster.coordinator, lambda: self.is_drained, self.leave)

    def leave(self) -> None:
        self.left += 1


def test_it_leaves_when_the_checkpoint_that_it_asked_for_is_complete() -> None:
    cluster = FakeCluster().run()
    node = Node(cluster)
    assert not node.relocation.tick()
    node.is_drained = True
    assert node.relocation.tick()
    assert len(cluster.mails(events.TriggerCheckpoint)) == 1
    assert node.left == 0
    cluster.acknowledge()
    node.relocation.tick()
    assert node.left == 1


def test_it_waits_for_a_restart_and_leaves_at_the_latest_after_half_a_minute() -> None:
    cluster = FakeCluster().run()
    node = Node(cluster)
    node.is_drained = True
    cluster.fail(TOTALS[0], "its process died")
    node.relocation.tick()
    assert node.left == 0
    assert cluster.mails(events.TriggerCheckpoint) == []
    cluster.time_ms += 30_000
    node.relocation.tick()
    assert node.left == 1


def test_a_job_without_checkpoints_stays_since_it_would_not_survive() -> None:
    cluster = FakeCluster(job_spec(trigger=None, checkpoint_dir=None)).run()
    node = Node(cluster)
    node.is_drained = True
    assert not node.relocation.tick()
    assert node.left == 0
