"""The driver takes one event after the other: what one leads to is done before the next is looked at."""

from __future__ import annotations

from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.ids import Attempt, SubtaskId

from .fakes import FakeCluster, UnreliableStorage, job_spec


class SlowManifests(UnreliableStorage):
    """Writing a manifest takes as long as the interval of checkpoints, so the next one is due at once."""

    cluster: FakeCluster | None = None

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if path.startswith("chk-2/") and self.cluster is not None:
            self.cluster.time_ms += 100
        return super().create_exclusive(path, data)


class ObservedCluster(FakeCluster):
    """Remembers which checkpoints were stored when each barrier was sent."""

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: events.TaskMail) -> None:
        if isinstance(mail, events.TriggerCheckpoint):
            stored = [path for path in self.storage.list_files("") if path.startswith("chk-")]
            self.stored_at[mail.barrier.checkpoint_id] = stored
        super().send(attempt, subtask, mail)

    stored_at: dict[int, list[str]]


def observed() -> ObservedCluster:
    storage = SlowManifests("nothing")
    policy = TriggerPolicy(interval_ms=100, timeout_ms=1_000)
    cluster = ObservedCluster(job_spec(trigger=policy, num_retained=1), storage)
    storage.cluster, cluster.stored_at = cluster, {}
    cluster.run()
    return cluster


def test_a_checkpoint_is_settled_before_the_next_one_is_triggered() -> None:
    cluster = observed()
    cluster.complete_checkpoint()
    cluster.complete_checkpoint()
    assert cluster.triggered().checkpoint_id == 3, "it was due when the manifest was written"
    assert cluster.stored_at[3] == ["chk-2/MANIFEST"], "the second was still being settled"


def test_every_command_names_the_event_that_caused_it() -> None:
    cluster = FakeCluster()
    lines: list[str] = []
    cluster.coordinator.observer.on_decision = lambda decision: lines.extend(decision.lines())
    cluster.run()
    cluster.complete_checkpoint()
    running, trigger, *_, written, notify, delete = lines
    assert running == "event 1 TasksRunning()"
    assert trigger == "TriggerSubtasks(checkpoint 1) because of event 2 TimePassed()"
    assert lines[2] == (
        "RegisterFiles(checkpoint 1, subtask task-1#0) because of event 3 "
        "SubtaskAcknowledged(checkpoint 1, subtask task-1#0)"
    )
    assert written.startswith("WriteManifest(checkpoint 1) because of event 5 SubtaskAcknowledged")
    because = "because of event 6 ManifestWritten(checkpoint 1) after event 5"
    assert (notify, delete) == (
        f"NotifyComplete(checkpoint 1) {because}",
        f"DeleteSubsumed(checkpoint 1) {because}",
    )
