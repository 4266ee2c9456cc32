"""A stage of several subtasks: messages take any time, epochs run again with other results, the job fails.

Each subtask has a source in front of it and a sink after it. A barrier comes through the channel of each
source, or does not come at all, because its checkpoint was given up. The job fails at any moment, and
continues from its latest completed checkpoint with any number of subtasks. Time is virtual.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tidegate.protocol.elements import MAX_WATERMARK_MS, Watermark, WatermarkStatus
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.stages.epoch_leader import EpochLeader, Sent
from tidegate.protocol.stages.epoch_shares import ShareMachine
from tidegate.protocol.stages.epochs import (
    BarrierPassed,
    BarrierReceived,
    CollectResults,
    ControlReceived,
    EmitEpoch,
    EpochLimits,
    ForwardControl,
    InputEnded,
    RecordsGathered,
    RestoredShare,
    ResultsArrived,
    ResultsEmitted,
    RunnerStarted,
    RunReturned,
    SendToLeader,
    ShareCommand,
    ShareEvent,
    SpillRecords,
    StageRestored,
    StartRun,
    StoreShares,
    TimePassed,
    WakeAt,
)

PARTITIONS = 4
RECORDS = 20
"""Of each partition."""
RECORD_BYTES = 10
MOST_IN_FLIGHT = 12
"""Elements of a channel before its source waits."""

Record = tuple[int, int]
"""Partition, and position there, which is also its event time."""
Stored = list[tuple[int, list[Record]]]
"""Records or results with the numbers of their epochs."""


@dataclass
class SubtaskState:
    """What a source, its subtask of the stage and its sink hold at a barrier."""

    positions: dict[int, int]
    began: int
    gathering: int
    records: Stored
    results: Stored
    emitted: list[Record]


@dataclass
class Checkpoint:
    """What all subtasks hold."""

    subtasks: int
    states: dict[int, SubtaskState] = field(default_factory=dict)


class Subtask:
    """Carries out the commands of a machine, reads a channel, and keeps what is emitted."""

    def __init__(self, world: World, index: int, partitions: dict[int, int]) -> None:
        self.world = world
        self.index = index
        self.machine = ShareMachine(world.limits, world.subtasks)
        self.positions = partitions
        """What the source has sent of its partitions."""
        self.channel: deque[Any] = deque()
        self.records: dict[int, list[Record]] = {}
        self.in_memory: dict[int, int] = {}
        """Of the records that are not on local disk, the bytes of each epoch."""
        self.results: dict[int, list[Record]] = {}
        self.unsent: list[Record] = []
        self.emitting: int | None = None
        self.inbox: deque[Any] = deque()
        self.outbox: deque[Any] = deque()
        self.runs: list[tuple[int, int]] = []
        self.wakes: list[int] = []
        self.emitted: list[Record] = []
        self.emitted_epoch = 0
        self.watermark = -1
        self.sent_watermark = -1
        self.source_has_ended = self.input_has_ended = False
        limit = world.limits.memory_bytes
        self.most_in_memory = limit + limit // 4 + RECORD_BYTES
        self.starts_ms = world.now_ms + world.random.randint(0, 40) if index == 0 else None

    # ------------------------------------------------------------ the stage

    def handle(self, event: ShareEvent) -> None:
        for command in self.machine.handle(event, self.world.now_ms):
            self.perform(command)
        self.machine.validate()
        if sum(self.in_memory.values()) > self.most_in_memory:
            self.world.problems.append(f"{sum(self.in_memory.values())} bytes are in memory")

    def perform(self, command: ShareCommand) -> None:
        match command:
            case SendToLeader(message):
                self.outbox.append(message)
            case StartRun(number):
                self._run(number)
            case CollectResults(number, part):
                self.results[number] = list(part)  # type: ignore[call-overload]
                self.in_memory.pop(number, None)
                self.handle(ResultsArrived(number))
            case EmitEpoch(number):
                self.begin_emission(number)
            case ForwardControl(element):
                self._forward(element)
            case WakeAt(timestamp_ms):
                self.wakes.append(timestamp_ms)
            case StoreShares():
                self.store(command)
            case SpillRecords(number):
                self.in_memory.pop(number, None)

    def _run(self, number: int) -> None:
        world = self.world
        ends_ms = world.now_ms + world.random.randint(0, 30)
        self.runs.append((ends_ms, number))
        if world.random.random() < 0.2:
            self.runs.append((ends_ms + world.random.randint(0, 30), number))

    def begin_emission(self, number: int) -> None:
        self.records.pop(number, None)
        self.in_memory.pop(number, None)
        self.emitting = number
        self.unsent = self.results.pop(number)

    def store(self, command: StoreShares) -> None:
        self.state = SubtaskState(
            dict(self.consumed),
            command.began,
            command.gathering,
            [(number, list(self.records[number])) for number in command.numbers],
            [(number, list(self.results[number])) for number in command.held],
            list(self.emitted),
        )
        if command.emitting is not None:
            self.state.results.append((command.emitting, list(self.unsent)))

    def _forward(self, element: Watermark | WatermarkStatus) -> None:
        if isinstance(element, Watermark):
            if element.timestamp_ms <= self.watermark:
                self.world.problems.append(f"the watermark {element.timestamp_ms} follows {self.watermark}")
            self.watermark = element.timestamp_ms

    # ------------------------------------------------------------ what happens

    @property
    def consumed(self) -> dict[int, int]:
        """Positions up to which the stage has taken the records of each partition."""
        waiting = [element for element in self.channel if isinstance(element, tuple)]
        return {
            partition: position - sum(each[0] == partition for each in waiting)
            for partition, position in self.positions.items()
        }

    def read_source(self) -> None:
        """The source sends a record, a watermark, its idleness or its end."""
        world = self.world
        if self.source_has_ended or len(self.channel) >= MOST_IN_FLIGHT:
            return
        open_partitions = [each for each, position in self.positions.items() if position < RECORDS]
        if not open_partitions:
            self.source_has_ended = True
            self.channel += [Watermark(MAX_WATERMARK_MS), "end"]
            return
        kind = world.random.random()
        if kind < 0.7:
            partition = world.random.choice(open_partitions)
            self.channel.append((partition, self.positions[partition]))
            self.positions[partition] += 1
        elif kind < 0.95:
            # The lowest time that can still come, minus 1.
            watermark = min(self.positions[each] for each in open_partitions) - 1
            if watermark > self.sent_watermark:
                self.sent_watermark = watermark
                self.channel.append(Watermark(watermark))

    def take_input(self) -> None:
        """The stage takes elements of its channel."""
        for _ in range(self.world.random.randint(1, 4)):
            if not self.channel or self.machine.is_full:
                return
            element = self.channel.popleft()
            if isinstance(element, tuple):
                number = self.machine.gathering
                self.records.setdefault(number, []).append(element)
                self.in_memory[number] = self.in_memory.get(number, 0) + RECORD_BYTES
                self.handle(RecordsGathered(1, RECORD_BYTES))
            elif isinstance(element, Watermark | WatermarkStatus):
                self.handle(ControlReceived(element))
            elif element == "end":
                self.input_has_ended = True
                self.handle(InputEnded())
            else:
                self.pass_barrier(element)

    def pass_barrier(self, checkpoint_id: CheckpointId) -> None:
        self.handle(BarrierReceived(checkpoint_id))
        self.world.acknowledge(checkpoint_id, self.index, self.state)
        self.handle(BarrierPassed(checkpoint_id))

    def finish_run(self) -> None:
        """A run that is due returns its rows to any subtasks, in any order."""
        world = self.world
        due = [run for run in self.runs if run[0] <= world.now_ms]
        if not due:
            return
        run = world.random.choice(due)
        self.runs.remove(run)
        rows = [row for each in world.tasks for row in each.records.get(run[1], ())]
        world.random.shuffle(rows)
        parts: list[list[Record]] = [[] for _ in world.tasks]
        for row in rows:
            world.random.choice(parts).append(row)
        self.handle(RunReturned(run[1], tuple(parts)))

    def emit(self) -> None:
        """The sink takes some results."""
        number = self.emitting
        if number is None:
            return
        count = self.world.random.randint(1, 4)
        self._check(number, self.unsent[:count])
        self.emitted += self.unsent[:count]
        self.unsent = self.unsent[count:]
        if not self.unsent:
            self.emitting = None
            self.handle(ResultsEmitted(number))

    def _check(self, number: int, rows: list[Record]) -> None:
        late = [row for row in rows if row[1] <= self.watermark]
        if late:
            self.world.problems.append(f"the watermark {self.watermark} overtook the records {late}")
        if number < self.emitted_epoch:
            self.world.problems.append("an epoch was emitted out of order")
        self.emitted_epoch = number

    def wake(self) -> None:
        if self.starts_ms is not None and self.starts_ms <= self.world.now_ms:
            self.starts_ms = None
            self.handle(RunnerStarted())
        due = [wake for wake in self.wakes if wake <= self.world.now_ms]
        self.wakes = [wake for wake in self.wakes if wake > self.world.now_ms]
        for _ in due:
            self.handle(TimePassed())


class World:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.limits = EpochLimits(
            max_records=random.choice((3, 20, 1_000)),
            interval_ms=random.choice((0, 5, 50)),
            max_running=random.choice((1, 2, 3)),
            buffer_bytes=random.choice((50, 100_000)),
            memory_bytes=random.choice((40, 100_000)),
        )
        self.most_checkpoints = random.choice((0, 5, 12, 1_000, 1_000))
        self.barrier_rate = random.choice((0.5, 4))
        self.abort_rate = random.choice((0.0, 0.1, 0.5, 0.5))
        self.now_ms = 0
        self.problems: list[str] = []
        self.failures = self.restored = self.restored_results = self.waits = 0
        self._checkpoints = 0
        self._completed: Checkpoint | None = None
        self._start(random.choice((1, 2, 3, 4)))

    # ------------------------------------------------------------ attempts

    def _start(self, subtasks: int) -> None:
        self.subtasks = subtasks
        self.leader = EpochLeader(subtasks)
        self._pending: dict[CheckpointId, Checkpoint] = {}
        self._triggers: list[tuple[CheckpointId, int]] = []
        positions = dict.fromkeys(range(PARTITIONS), 0)
        for state in [] if self._completed is None else self._completed.states.values():
            positions |= state.positions
        self.tasks = [
            Subtask(self, index, {each: positions[each] for each in positions if each % subtasks == index})
            for index in range(subtasks)
        ]
        self._restore()

    def _restore(self) -> None:
        stored = self._completed
        states = [] if stored is None else [stored.states[index] for index in sorted(stored.states)]
        began = self.last_begun(states)
        gathering = max((state.gathering for state in states), default=1)
        records = self._redistributed([item for state in states for item in state.records])
        results = self._redistributed([item for state in states for item in state.results])
        emitted = [row for state in states for row in state.emitted]
        for task, own, held in zip(self.tasks, records, results, strict=True):
            self.restore_task(task, began, gathering, own, held)
        self.tasks[0].emitted = emitted

    def last_begun(self, states: list[SubtaskState]) -> int:
        """The last epoch that any subtask had begun to emit."""
        return max((state.began for state in states), default=0)

    def _redistributed(self, items: Stored) -> list[Stored]:
        size = -(-len(items) // self.subtasks)
        return [items[size * index : size * (index + 1)] for index in range(self.subtasks)]

    def restore_task(
        self, task: Subtask, began: int, gathering: int, records: Stored, results: Stored
    ) -> None:
        for number, rows in records:
            if number > began:
                task.records.setdefault(number, []).extend(rows)
                task.in_memory[number] = RECORD_BYTES * len(task.records[number])
        held = [row for number, rows in results if number <= began for row in rows]
        if held:
            task.results[began] = held
        self.restored += len(task.records)
        self.restored_results += bool(held)
        shares = [
            RestoredShare(number, len(rows), RECORD_BYTES * len(rows))
            for number, rows in sorted(task.records.items())
        ]
        task.handle(StageRestored(began, gathering, bool(held), shares))

    def _fail(self) -> None:
        self.failures += 1
        self._start(self.random.choice((1, 2, 3, 4)))

    # ------------------------------------------------------------ checkpoints

    def _trigger(self) -> None:
        if self._checkpoints >= self.most_checkpoints or len(self._pending) == 2:
            return
        self._checkpoints += 1
        checkpoint_id = CheckpointId(self._checkpoints)
        self._pending[checkpoint_id] = Checkpoint(self.subtasks)
        self.leader.checkpoint_triggered(checkpoint_id)
        self._triggers += [(checkpoint_id, index) for index in range(self.subtasks)]

    def _send_barrier(self) -> None:
        """A trigger arrives: in order at each subtask."""
        if not self._triggers:
            return
        index = self.random.choice(self._triggers)[1]
        trigger = next(each for each in self._triggers if each[1] == index)
        self._triggers.remove(trigger)
        task = self.tasks[index]
        if task.input_has_ended:
            task.pass_barrier(trigger[0])
        else:
            ending = [each for each in (Watermark(MAX_WATERMARK_MS), "end") if each in task.channel]
            task.channel.insert(len(task.channel) - len(ending), trigger[0])

    def _abort(self) -> None:
        """A checkpoint is given up: some of its barriers are never sent, others are on their way."""
        if self._pending:
            checkpoint_id = self.random.choice(list(self._pending))
            del self._pending[checkpoint_id]
            self._triggers = [each for each in self._triggers if each[0] != checkpoint_id]
            for task in self.tasks:
                if self.random.random() < 0.8 and checkpoint_id in task.channel:
                    task.channel.remove(checkpoint_id)
            self.send(self.leader.checkpoint_aborted(checkpoint_id))

    def acknowledge(self, checkpoint_id: CheckpointId, index: int, state: SubtaskState) -> None:
        if checkpoint_id in self._pending:
            self._pending[checkpoint_id].states[index] = state

    def _complete(self) -> None:
        """The oldest checkpoint that all subtasks have acknowledged, some time later."""
        for checkpoint_id, checkpoint in self._pending.items():
            if len(checkpoint.states) == self.subtasks:
                self._completed = checkpoint
                self._pending = {each: kept for each, kept in self._pending.items() if each > checkpoint_id}
                self._triggers = [each for each in self._triggers if each[0] > checkpoint_id]
                self.send(self.leader.checkpoint_completed(checkpoint_id))
                return

    # ------------------------------------------------------------ messages

    def send(self, messages: list[Sent]) -> None:
        for index, message in messages:
            self.tasks[index].inbox.append(message)

    def _to_leader(self) -> None:
        task = self.random.choice(self.tasks)
        if task.outbox:
            self.send(self.leader.handle(task.index, task.outbox.popleft()))
            self.leader.validate()

    def _from_leader(self) -> None:
        task = self.random.choice(self.tasks)
        if task.inbox:
            task.handle(task.inbox.popleft())

    # ------------------------------------------------------------ steps

    def run(self, failures: bool = True) -> list[str]:
        steps = 0
        while not all(task.machine.is_drained for task in self.tasks) and not self.problems:
            steps += 1
            if steps > 30_000:
                return [*self.problems, "the stage does not end"]
            try:
                self._step(failures and self.failures < 6)
            except (AssertionError, KeyError) as error:
                return [f"{type(error).__name__}: {error}"]
        return self.problems or self._check_end()

    def _check_end(self) -> list[str]:
        expected = [(partition, at) for partition in range(PARTITIONS) for at in range(RECORDS)]
        emitted = sorted(row for task in self.tasks for row in task.emitted)
        if emitted != expected:
            lost, doubled = set(expected) - set(emitted), len(emitted) - len(set(emitted))
            return [f"{len(lost)} records are lost, {doubled} are doubled"]
        if any(task.watermark != MAX_WATERMARK_MS for task in self.tasks):
            return ["the last watermark is missing"]
        return []

    def _step(self, fails: bool) -> None:
        self.now_ms += self.random.randint(0, 2)
        task = self.random.choice(self.tasks)
        actions: list[tuple[Any, float]] = [
            (task.read_source, 6),
            (task.take_input, 6),
            (task.wake, 4),
            (task.emit, 4),
            (self.tasks[0].finish_run, 4),
            (self._to_leader, 10),
            (self._from_leader, 10),
            (self._trigger, 1),
            (self._send_barrier, self.barrier_rate),
            (self._complete, 2),
            (self._abort, self.abort_rate),
            (self._fail, 0.2 if fails else 0),
        ]
        self.waits += task.machine._awaits_barrier
        self.random.choices([each for each, _ in actions], [weight for _, weight in actions])[0]()
