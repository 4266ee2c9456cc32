"""The checkpoint coordinator against a model: random acknowledgements, failures, restarts and time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId

SUBTASKS = [SubtaskId("source", 0), SubtaskId("map", 0), SubtaskId("map", 1)]
SOURCES = frozenset(SUBTASKS[:1])
TIMEOUT_MS = 50
ANY_SUBTASK = st.sampled_from([*SUBTASKS, SubtaskId("foreign", 0)])
AGE = st.integers(min_value=0, max_value=3)
"""How far behind the newest id an event's checkpoint is."""


class CheckpointModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.attempt: int | None = None
        self.attempts = 0
        self.newest_id = 0
        self.acknowledged: dict[int, set[SubtaskId]] = {}
        """Pending checkpoints and who acknowledged them."""
        self.deadlines: dict[int, int] = {}
        self.writing: set[int] = set()
        self.ended: set[int] = set()
        self.input_ended: set[SubtaskId] = set()
        self.final_completed = False
        self.failures = 0
        self.job_failed = False
        self.requests = 0
        self.waiting: dict[int, SnapshotKind] = {}
        """Requests that have no answer yet."""
        self.is_over = False
        self.savepoints: set[int] = set()
        self.newest_completed = 0
        self.cleaning = 0

    @initialize(
        interval=st.sampled_from([None, 10, 25]),
        concurrent=st.integers(min_value=1, max_value=3),
        tolerable=st.integers(min_value=0, max_value=2),
    )
    def start(self, interval: int | None, concurrent: int, tolerable: int) -> None:
        self.policy = TriggerPolicy(interval, 0, TIMEOUT_MS, concurrent, tolerable)
        self.coordinator = core.CheckpointCoordinator(self.policy, 1)

    def handle(self, event: core.CheckpointEvent) -> None:
        for command in self.coordinator.handle(event, self.now_ms):
            self.perform(command)
        self.coordinator.validate()

    def perform(self, command: core.CheckpointCommand) -> None:
        if isinstance(command, core.TriggerSubtasks):
            self.triggered(command)
        elif isinstance(command, core.WriteManifest):
            assert self.acknowledged[command.checkpoint_id] == set(SUBTASKS)
            assert set(command.acknowledgements) == set(SUBTASKS)
            self.writing.add(command.checkpoint_id)
        elif isinstance(command, core.NotifyComplete):
            assert command.checkpoint_id == self.newest_completed
            assert command.checkpoint_id not in self.savepoints, "nobody commits on a savepoint"
            assert set(command.subtasks) == set(SUBTASKS)
            assert set(self.acknowledged) <= set(range(command.checkpoint_id, self.newest_id + 1)) | (
                self.savepoints
            ), "an older checkpoint was not subsumed"
        elif isinstance(command, core.NotifyAborted):
            self.aborted(command)
        elif isinstance(command, core.AnswerRequest):
            self.answered(command)
        elif isinstance(command, core.RegisterFiles):
            assert command.is_pending == (command.checkpoint_id in self.acknowledged)
        elif isinstance(command, core.FailJob):
            assert self.failures > self.policy.tolerable_failures
            self.job_failed, self.failures = True, 0

    def aborted(self, command: core.NotifyAborted) -> None:
        assert not command.reason.is_pre_flight
        is_expired = command.reason is core.AbortReason.EXPIRED
        assert not is_expired or command.checkpoint_id not in self.writing
        is_savepoint = command.checkpoint_id in self.savepoints
        assert not (is_savepoint and command.reason is core.AbortReason.SUBSUMED)
        self.end(command.checkpoint_id)
        counts = command.reason.counts_as_failure and (command.reason.is_decline or not is_savepoint)
        if counts and command.checkpoint_id > self.newest_completed and not self.job_failed:
            self.failures += 1

    def answered(self, command: core.AnswerRequest) -> None:
        kind = self.waiting.pop(command.request_id)
        assert (command.checkpoint_id is None) == (command.reason is not None)
        if command.checkpoint_id is not None:
            assert command.checkpoint_id in self.ended
            is_savepoint = command.checkpoint_id in self.savepoints
            assert is_savepoint == (kind is SnapshotKind.SAVEPOINT)

    def triggered(self, command: core.TriggerSubtasks) -> None:
        checkpoint_id = command.barrier.checkpoint_id
        assert self.attempt is not None
        if not command.is_new:
            (subtask,) = command.subtasks
            assert subtask in self.input_ended
            assert subtask not in self.acknowledged[checkpoint_id]
            return
        assert checkpoint_id == self.newest_id + 1, "ids are given once, in order"
        assert set(command.subtasks) == SOURCES | self.input_ended
        is_final = command.barrier.kind is SnapshotKind.FINAL
        assert is_final == (self.input_ended == set(SUBTASKS))
        assert not self.final_completed
        assert not self.job_failed, "the job fails already"
        assert is_final or self.cleaning <= self.policy.max_concurrent, "deletions lag behind"
        if command.barrier.kind is SnapshotKind.SAVEPOINT:
            self.savepoints.add(checkpoint_id)
            assert SnapshotKind.SAVEPOINT in self.waiting.values()
        self.newest_id = checkpoint_id
        self.acknowledged[checkpoint_id] = set()
        self.deadlines[checkpoint_id] = self.now_ms + TIMEOUT_MS

    def end(self, checkpoint_id: int) -> None:
        assert checkpoint_id not in self.ended, "a checkpoint ends once"
        del self.acknowledged[checkpoint_id]
        self.writing.discard(checkpoint_id)
        self.ended.add(checkpoint_id)

    @rule(delay=st.integers(min_value=0, max_value=10))
    def running(self, delay: int) -> None:
        if self.attempt is None:
            self.attempts += 1
            self.attempt = self.attempts
            self.input_ended, self.final_completed = set(), False
            self.job_failed = self.is_over = False
            subtasks = frozenset(SUBTASKS)
            self.handle(core.TasksRunning(Attempt(self.attempts), subtasks, SOURCES, delay))

    @rule(reason=st.sampled_from([core.AbortReason.RESTARTED, core.AbortReason.SHUT_DOWN]))
    def stopped(self, reason: core.AbortReason) -> None:
        self.attempt = None
        self.is_over = reason is core.AbortReason.SHUT_DOWN
        self.handle(core.TasksStopped(reason))
        assert not self.acknowledged
        assert not (self.is_over and self.waiting), "a request is left without an answer"

    @rule(passed=st.integers(min_value=1, max_value=30))
    def time(self, passed: int) -> None:
        self.now_ms += passed
        self.handle(core.TimePassed())
        for checkpoint_id in set(self.acknowledged) - self.writing:
            assert self.deadlines[checkpoint_id] > self.now_ms, "expired but still pending"

    @rule(kind=st.sampled_from([SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT]), is_forced=st.booleans())
    def request(self, kind: SnapshotKind, is_forced: bool) -> None:
        self.requests += 1
        self.waiting[self.requests] = kind
        is_forced &= kind is SnapshotKind.SAVEPOINT
        before = set(self.savepoints)
        can_start = (
            self.attempt is not None
            and not self.job_failed
            and self.input_ended != set(SUBTASKS)
            and self.cleaning <= self.policy.max_concurrent
        )
        self.handle(core.CheckpointRequested(core.RequestId(self.requests), kind, is_forced=is_forced))
        if is_forced and can_start:
            assert self.savepoints != before, "a forced savepoint starts at once"
        can_wait = not self.is_over and not (self.attempt is not None and self.final_completed)
        assert can_wait or self.requests not in self.waiting, "refused at once"

    @rule(count=st.integers(min_value=0, max_value=5))
    def old_ones_wait_to_be_deleted(self, count: int) -> None:
        self.cleaning = count
        self.handle(core.CleaningCounted(count))

    @invariant()
    def why_and_when_agree(self) -> None:
        if self.newest_id or self.attempts:
            obstacle = self.coordinator.obstacle(self.now_ms)
            assert obstacle is None or obstacle.is_pre_flight
            is_due = self.coordinator.next_due_ms() <= self.now_ms
            expired = any(
                self.deadlines[known] <= self.now_ms for known in set(self.acknowledged) - self.writing
            )
            assert is_due == (expired or obstacle is None)

    @rule(subtask=ANY_SUBTASK, age=AGE, attempts_ago=st.sampled_from([0, 0, 0, 1]))
    def acknowledge(self, subtask: SubtaskId, age: int, attempts_ago: int) -> None:
        checkpoint_id = self.newest_id - age
        attempt = self.attempts - attempts_ago
        expected = self.expected_result(subtask, checkpoint_id, attempt)
        if expected is core.AcknowledgeResult.SUCCESS:
            self.acknowledged[checkpoint_id].add(subtask)
        before = self.coordinator.counts[expected]
        acknowledgement = core.Acknowledgement({})
        self.handle(
            core.SubtaskAcknowledged(Attempt(attempt), subtask, CheckpointId(checkpoint_id), acknowledgement)
        )
        assert self.coordinator.counts[expected] == before + 1

    def expected_result(self, subtask: SubtaskId, checkpoint_id: int, attempt: int) -> core.AcknowledgeResult:
        if attempt != self.attempt:
            return core.AcknowledgeResult.UNKNOWN
        if checkpoint_id in self.ended:
            return core.AcknowledgeResult.DISCARDED
        if checkpoint_id not in self.acknowledged or subtask not in SUBTASKS:
            return core.AcknowledgeResult.UNKNOWN
        if subtask in self.acknowledged[checkpoint_id]:
            return core.AcknowledgeResult.DUPLICATE
        return core.AcknowledgeResult.SUCCESS

    @rule()
    def everybody_acknowledges(self) -> None:
        """Random single acknowledgements would rarely complete a checkpoint."""
        for subtask in SUBTASKS:
            self.acknowledge(subtask, 0, 0)

    @rule(subtask=st.sampled_from(SUBTASKS), age=AGE, attempts_ago=st.sampled_from([0, 1]))
    def decline(self, subtask: SubtaskId, age: int, attempts_ago: int) -> None:
        attempt = Attempt(self.attempts - attempts_ago)
        known = set(self.acknowledged)
        checkpoint_id = CheckpointId(self.newest_id - age)
        self.handle(core.SubtaskDeclined(attempt, subtask, checkpoint_id, "cause"))
        if attempt != self.attempt:
            assert set(self.acknowledged) == known

    @rule(subtask=st.sampled_from(SUBTASKS))
    def end_of_input(self, subtask: SubtaskId) -> None:
        if self.attempt is not None:
            self.input_ended.add(subtask)
            self.handle(core.SubtaskInputEnded(Attempt(self.attempts), subtask))

    @rule(is_written=st.booleans())
    def manifest(self, is_written: bool) -> None:
        for checkpoint_id in sorted(self.writing):
            pending = self.coordinator.pending[CheckpointId(checkpoint_id)]
            if is_written:
                self.final_completed |= pending.barrier.kind is SnapshotKind.FINAL
                self.end(checkpoint_id)
                self.newest_completed = max(self.newest_completed, checkpoint_id)
                self.failures = 0
                self.handle(core.ManifestWritten(CheckpointId(checkpoint_id)))
            else:
                self.handle(core.ManifestFailed(CheckpointId(checkpoint_id), "cause"))
            return

    @invariant()
    def bounds_hold(self) -> None:
        if self.newest_id or self.attempts:
            assert len(set(self.acknowledged) - self.savepoints) <= self.policy.max_concurrent
            assert set(self.coordinator.pending) == set(self.acknowledged)
            assert self.failures <= self.policy.tolerable_failures


CheckpointModel.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestCheckpointModel = CheckpointModel.TestCase
