"""What the golden scripts drive: each machine takes one line of text and answers in lines of text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tidegate.protocol.checkpoints import alignment
from tidegate.protocol.checkpoints import checkpoint as core
from tidegate.protocol.checkpoints.trigger import NEVER_MS, TriggerPolicy
from tidegate.protocol.elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId


class Machine(Protocol):
    def perform(self, line: str) -> list[str]: ...


class AlignmentMachine:
    """`aligner 2` or `tracker 2`: the barrier handler of a task with two channels.

    `aligner 2 forward=1 limit=500`: no barrier may overtake on channel 1, and at most 500 bytes may wait.
    `announce` says that something has arrived; without it, that its turn has come. A barrier that ends with
    `oldest 7` says that no checkpoint before 7 is under way.
    """

    def __init__(self, handler: alignment.BarrierHandler) -> None:
        self._handler = handler
        self._now_ms = 0

    def perform(self, line: str) -> list[str]:
        words = line.split()
        if words[0] == "time":
            self._now_ms = int(words[1])
            return []
        if words[0] == "barriers":
            # `barriers 1 to 50 on channel 0`: one line for what would fill a page.
            ids = range(int(words[1]), int(words[3]) + 1)
            outcomes = [self.perform(f"barrier {each} on channel {words[6]}") for each in ids]
            return [line for lines in outcomes for line in lines if line != "nothing"] or ["nothing"]
        if words[0] == "due":
            due_ms = self._handler.due_ms
            return ["never" if due_ms is None else f"at {due_ms} ms"]
        commands = self._handler.handle(self._event(words), self._now_ms)
        self._handler.validate()
        return [_alignment_outcome(command) for command in commands] or ["nothing"]

    def _event(self, words: list[str]) -> alignment.AlignmentEvent:
        if words[0] == "barrier":
            return alignment.BarrierReceived(int(words[4]), self._barrier(words))
        if words[0] == "announce":
            return self._announcement(words[1:])
        if words[0] == "buffered":
            return alignment.BytesBuffered(int(words[1]))
        if words[0] == "given":
            return alignment.CheckpointGivenUp(CheckpointId(int(words[2])))
        if words[0] == "clock":
            return alignment.AlignmentTimePassed()
        if words[0] == "cancel":
            return alignment.CancelMarkerReceived(int(words[4]), CheckpointId(int(words[1])))
        if words[0] == "trigger":
            return alignment.CheckpointTriggered(self._barrier(words))
        assert words[:2] == ["end", "of"], words
        return alignment.ChannelEnded(int(words[3]))

    def _announcement(self, words: list[str]) -> alignment.AlignmentEvent:
        if words[0] == "end":
            return alignment.EndAnnounced(int(words[3]))
        if words[0] == "cancel":
            return alignment.CancelMarkerAnnounced(int(words[4]), CheckpointId(int(words[1])))
        channel = int(words[words.index("channel") + 1])
        timeout_ms = int(words[words.index("within") + 1]) if "within" in words else 0
        is_aligned = "aligned" in words
        barrier = replace(
            self._barrier(["announce", *words]), aligned_timeout_ms=None if is_aligned else timeout_ms
        )
        return alignment.BarrierAnnounced(channel, barrier)

    def _barrier(self, words: list[str]) -> CheckpointBarrier:
        oldest = CheckpointId(int(words[words.index("oldest") + 1])) if "oldest" in words else None
        return CheckpointBarrier(CheckpointId(int(words[1])), self._now_ms, oldest_pending=oldest)


def _alignment_outcome(command: alignment.AlignmentCommand) -> str:
    if isinstance(command, alignment.BlockChannel):
        return f"block channel {command.channel}"
    if isinstance(command, alignment.ResumeChannels):
        return f"resume channels {', '.join(map(str, command.channels))}"
    if isinstance(command, alignment.AbortCheckpoint):
        return f"abort {command.checkpoint_id}: {command.reason.value}"
    if isinstance(command, alignment.RecordChannels):
        return f"record channels {', '.join(map(str, command.channels))} before {command.checkpoint_id}"
    if isinstance(command, alignment.FinishRecording):
        return f"finish recording {command.checkpoint_id}"
    return f"take snapshot {command.barrier.checkpoint_id}, first barrier at {command.started_ms} ms"


class CoordinatorMachine:
    """`coordinator interval=100 …`: checkpoints of the subtasks `a#0` (a source), `b#0` and `b#1`.

    `repeat 9 request / decline newest b#0` performs both lines nine times, and tells the last outcome;
    `newest` is the newest checkpoint.
    """

    SUBTASKS = frozenset({SubtaskId("a", 0), SubtaskId("b", 0), SubtaskId("b", 1)})
    SOURCES = frozenset({SubtaskId("a", 0)})

    def __init__(self, settings: dict[str, int]) -> None:
        policy = TriggerPolicy(
            interval_ms=settings.get("interval"),
            min_pause_ms=settings.get("pause", 0),
            timeout_ms=settings.get("timeout", 1_000),
            max_concurrent=settings.get("concurrent", 1),
            tolerable_failures=settings.get("tolerable", 0),
        )
        self._core = core.CheckpointCoordinator(policy, settings.get("first", 1))
        self._now_ms = 0
        self._attempt = Attempt(0)
        self._requests = 0

    def perform(self, line: str) -> list[str]:
        words = line.split()
        if words[0] == "repeat":
            lines = line.split(maxsplit=2)[2].split(" / ") * int(words[1])
            return [self.perform(each) for each in lines][-1]
        if words[0] == "due":
            due_ms = self._core.next_due_ms()
            return ["never" if due_ms == NEVER_MS else "now" if due_ms <= self._now_ms else f"at {due_ms} ms"]
        if words[0] == "why":
            obstacle = self._core.obstacle(self._now_ms)
            return ["one is due" if obstacle is None else f"not now: {obstacle.value}"]
        before = dict(self._core.counts)
        commands = self._core.handle(self._event(words), self._now_ms)
        self._core.validate()
        results = [
            f"is {result.name}" for result, count in self._core.counts.items() if count > before[result]
        ]
        outcomes = [_checkpoint_outcome(command) for command in commands]
        return results + [outcome for outcome in outcomes if outcome] or ["nothing"]

    def _event(self, words: list[str]) -> core.CheckpointEvent:
        handlers: dict[str, Callable[[list[str]], core.CheckpointEvent]] = {
            "running": self._running,
            "stopped": self._stopped,
            "request": self._request,
            "cleaning": lambda words: core.CleaningCounted(int(words[1])),
            "time": self._time,
            "acknowledge": self._acknowledge,
            "decline": self._decline,
            "ended": lambda words: core.SubtaskInputEnded(self._attempt_in(words), _subtask(words[1])),
            "written": lambda words: core.ManifestWritten(CheckpointId(int(words[1]))),
            "failed": lambda words: core.ManifestFailed(CheckpointId(int(words[1])), " ".join(words[2:])),
        }
        return handlers[words[0]](words)

    def _running(self, words: list[str]) -> core.CheckpointEvent:
        self._attempt = Attempt(int(words[2]))
        return core.TasksRunning(self._attempt, self.SUBTASKS, self.SOURCES, int(words[5]))

    def _stopped(self, words: list[str]) -> core.CheckpointEvent:
        return core.TasksStopped(core.AbortReason[words[1]]) if len(words) > 1 else core.TasksStopped()

    def _request(self, words: list[str]) -> core.CheckpointEvent:
        self._requests += 1
        kinds = {"savepoint": SnapshotKind.SAVEPOINT, "stop": SnapshotKind.STOP, "drain": SnapshotKind.FINAL}
        kind = next((kinds[word] for word in words if word in kinds), SnapshotKind.CHECKPOINT)
        target = SavepointTarget("savepoints") if kind.ends_job else None
        timeout_ms = int(words[words.index("within") + 1]) if "within" in words else None
        is_forced = "forced" in words
        return core.CheckpointRequested(core.RequestId(self._requests), kind, timeout_ms, target, is_forced)

    def _time(self, words: list[str]) -> core.CheckpointEvent:
        self._now_ms = int(words[1])
        return core.TimePassed()

    def _acknowledge(self, words: list[str]) -> core.CheckpointEvent:
        return core.SubtaskAcknowledged(
            self._attempt_in(words),
            _subtask(words[2]),
            CheckpointId(int(words[1])),
            core.Acknowledgement({}),
        )

    def _decline(self, words: list[str]) -> core.CheckpointEvent:
        return core.SubtaskDeclined(
            self._attempt_in(words),
            _subtask(words[2]),
            CheckpointId(self._core.next_checkpoint_id - 1 if words[1] == "newest" else int(words[1])),
            "its disk is full",
            core.AbortReason[words[3]] if len(words) == 4 else core.AbortReason.DECLINED,
        )

    def _attempt_in(self, words: list[str]) -> Attempt:
        return Attempt(int(words[words.index("attempt") + 1])) if "attempt" in words else self._attempt


def _subtask(text: str) -> SubtaskId:
    task_id, _, index = text.partition("#")
    return SubtaskId(task_id, int(index))


def _checkpoint_outcome(command: core.CheckpointCommand) -> str | None:
    if isinstance(command, core.RegisterFiles):
        return None if command.is_pending else f"keep the files of {command.subtask} for its next checkpoint"
    if isinstance(command, core.DiscardFiles):
        return "discard its files"
    if isinstance(command, core.DeleteSubsumed):
        # It follows on every manifest that was written.
        return None
    if isinstance(command, core.AnswerRequest):
        return _answer(command)
    if isinstance(command, core.TriggerSubtasks):
        how = "trigger" if command.is_new else "trigger also"
        targets = " ".join(map(str, command.subtasks))
        return f"{how} {command.barrier.kind.value} {command.barrier.checkpoint_id} at {targets}"
    if isinstance(command, core.DrainSources):
        return f"end the sources {' '.join(map(str, command.subtasks))}"
    if isinstance(command, core.UndoDrain):
        return f"start again: {command.cause}"
    if isinstance(command, core.WriteManifest):
        parts = " ".join(map(str, sorted(command.acknowledgements)))
        return f"write manifest {command.checkpoint_id} of {parts}"
    if isinstance(command, core.NotifyComplete):
        return f"notify complete {command.checkpoint_id}"
    if isinstance(command, core.NotifyAborted):
        cause = f" ({command.cause})" if command.cause else ""
        return f"notify aborted {command.checkpoint_id}: {command.reason.value}{cause}"
    return f"fail job: {command.cause}"


def _answer(command: core.AnswerRequest) -> str:
    if command.reason is None:
        return f"answer request {command.request_id}: checkpoint {command.checkpoint_id}"
    cause = f" ({command.cause})" if command.cause else ""
    return f"answer request {command.request_id}: none, {command.reason.value}{cause}"


def machine_of(line: str) -> Machine | None:
    """The machine that a line such as `aligner 2` sets up, `None` for any other line."""
    name, *arguments = line.split()
    if name == "aligner":
        options = {key: int(value) for key, value in (argument.split("=") for argument in arguments[1:])}
        never_overtaken = (options["forward"],) if "forward" in options else ()
        aligner = alignment.BarrierAligner(int(arguments[0]), never_overtaken, options.get("limit"))
        return AlignmentMachine(aligner)
    if name == "tracker":
        return AlignmentMachine(alignment.BarrierTracker(int(arguments[0])))
    if name == "coordinator":
        pairs = (argument.split("=") for argument in arguments)
        return CoordinatorMachine({key: int(value) for key, value in pairs})
    return None
