"""Stops in any order with acknowledgements, failures, ends of input and restarts: what must always hold."""

from __future__ import annotations

import random

import pytest
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SavepointTarget, SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId

SOURCE, SINK = SubtaskId("source", 0), SubtaskId("sink", 0)
KINDS = [SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT, SnapshotKind.STOP, SnapshotKind.FINAL]
TARGET = SavepointTarget("savepoints")


class Job:
    """A coordinator whose tasks, storage and clock do what a seed says."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        policy = TriggerPolicy(interval_ms=10, timeout_ms=40, tolerable_failures=1_000)
        self.core = core.CheckpointCoordinator(policy, 1)
        self.now_ms = 0
        self.attempt = 0
        self.writing: list[CheckpointId] = []
        self.kinds: dict[CheckpointId, SnapshotKind] = {}
        self.asked: dict[int, SnapshotKind] = {}
        self.answers: dict[int, core.AnswerRequest] = {}
        self.has_ended = False
        self.ended: set[SubtaskId] = set()
        self.is_draining = False
        self.must_restart = False

    def start(self) -> None:
        self.attempt += 1
        self.ended, self.is_draining, self.must_restart = set(), False, False
        tasks = frozenset({SOURCE, SINK})
        self.handle(core.TasksRunning(Attempt(self.attempt), tasks, frozenset({SOURCE}), 0))

    def handle(self, event: core.CheckpointEvent) -> None:
        commands = self.core.handle(event, self.now_ms)
        self.core.validate()
        for command in commands:
            self.perform(command)

    def perform(self, command: core.CheckpointCommand) -> None:
        if isinstance(command, core.TriggerSubtasks) and command.is_new:
            assert not self.has_ended, "triggered after the last checkpoint"
            assert not self.must_restart, "triggered in tasks that cannot go on"
            kind = command.barrier.kind
            assert not self.is_draining or kind is SnapshotKind.FINAL, "a checkpoint while the sources end"
            assert kind is not SnapshotKind.FINAL or self.ended == {SOURCE, SINK}
            self.kinds[command.barrier.checkpoint_id] = kind
        elif isinstance(command, core.DrainSources):
            assert not self.core.pending, "sources end while a checkpoint is under way"
            self.is_draining = True
        elif isinstance(command, core.UndoDrain):
            assert self.is_draining
            self.must_restart = True
        elif isinstance(command, core.WriteManifest):
            self.writing.append(command.checkpoint_id)
        elif isinstance(command, core.NotifyComplete):
            assert self.kinds[command.checkpoint_id] is not SnapshotKind.SAVEPOINT
            self.has_ended |= self.kinds[command.checkpoint_id].ends_job
        elif isinstance(command, core.AnswerRequest):
            assert command.request_id not in self.answers, "answered twice"
            self.answers[command.request_id] = command

    def step(self) -> None:
        self.now_ms += self.random.randrange(8)
        attempt = Attempt(self.attempt)
        choice = self.random.randrange(12)
        if self.must_restart or choice == 0:
            self.handle(core.TasksStopped())
            self.writing.clear()
            self.start()
        elif choice <= 2:
            self.request(self.random.choice(KINDS))
        elif choice == 3:
            self.handle(core.TimePassed())
        elif choice == 4 and (self.is_draining or self.random.random() < 0.1):
            task = SINK if SOURCE in self.ended else SOURCE
            self.ended.add(task)
            self.handle(core.SubtaskInputEnded(attempt, task))
        elif choice <= 6 and self.writing:
            written = self.writing.pop(0)
            failed = self.random.random() < 0.2
            self.handle(core.ManifestFailed(written, "full") if failed else core.ManifestWritten(written))
        elif self.core.pending:
            checkpoint_id = self.random.choice(sorted(self.core.pending))
            task = self.random.choice([SOURCE, SINK])
            if self.random.random() < 0.05 and checkpoint_id not in self.writing:
                self.handle(core.SubtaskDeclined(attempt, task, checkpoint_id, "full"))
            else:
                self.handle(core.SubtaskAcknowledged(attempt, task, checkpoint_id, core.Acknowledgement({})))

    def request(self, kind: SnapshotKind) -> None:
        number = len(self.asked) + 1
        self.asked[number] = kind
        target = None if kind is SnapshotKind.CHECKPOINT else TARGET
        self.handle(core.CheckpointRequested(core.RequestId(number), kind, savepoint=target))


@pytest.mark.parametrize("seed", range(200))
def test_a_stop_ends_the_job_or_leaves_it_running_and_every_request_is_answered(seed: int) -> None:
    job = Job(seed)
    job.start()
    for _ in range(150):
        if job.has_ended:
            break
        job.step()
    if not job.has_ended:
        job.handle(core.TasksStopped(core.AbortReason.SHUT_DOWN))
    assert job.answers.keys() == job.asked.keys()
    for number, answer in job.answers.items():
        if answer.checkpoint_id is not None and job.asked[number].ends_job:
            assert job.has_ended, "a stop that succeeded left the job running"
