"""A stage whose runs take any time, may repeat, and return their rows in another order each time.

The source, the stage and the sink are one process that fails at any moment. A checkpoint is what the three
hold at a barrier; the sink's output after a failure is that of the checkpoint. Time is virtual.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidegate.protocol.elements import MAX_WATERMARK_MS, Watermark
from tidegate.protocol.epochs import (
    BarrierReceived,
    ControlReceived,
    EmitEpoch,
    EpochCommand,
    EpochEvent,
    EpochFinished,
    EpochLimits,
    EpochMachine,
    EpochRestored,
    ForwardControl,
    InputEnded,
    RecordsGathered,
    ResultsEmitted,
    ResultsRestored,
    RunnerStarted,
    SpillRecords,
    StartEpoch,
    StoreEpochs,
    TimePassed,
    WakeAt,
)
from tidegate.protocol.ids import CheckpointId

RECORDS = 60
RECORD_BYTES = 10


@dataclass
class Checkpoint:
    """What source, stage and sink hold at a barrier."""

    position: int = 0
    epochs: list[tuple[int, list[int]]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)


class Stage:
    """Carries out the commands of a machine: what the real stage does with Spark, in virtual time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.machine = EpochMachine(world.limits)
        self.records: dict[int, list[int]] = {}
        self.in_memory: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []
        """When a run ends, and the epoch."""
        self.results: dict[int, list[int]] = {}
        self.unsent: tuple[int, list[int]] | None = None
        """The epoch that is emitted, and what of it has not been."""
        self.wakes: list[int] = []
        self.starts_ms: int | None = world.now_ms + world.random.randint(0, 40)

    def restore(self, results: list[int], epochs: list[tuple[int, list[int]]]) -> None:
        if results:
            self.results[0] = results
            self.handle(ResultsRestored())
        for number, records in epochs:
            self.records[number], self.in_memory[number] = list(records), len(records)
            size_bytes = RECORD_BYTES * len(records)
            self.handle(EpochRestored(number, len(records), size_bytes, size_bytes))

    def gather(self, records: list[int]) -> None:
        number = self.machine.gathering
        self.records.setdefault(number, []).extend(records)
        self.in_memory[number] = self.in_memory.get(number, 0) + len(records)
        self.handle(RecordsGathered(len(records), RECORD_BYTES * len(records)))

    def handle(self, event: EpochEvent) -> None:
        for command in self.machine.handle(event, self._world.now_ms):
            self._perform(command)
        self.machine.validate()
        in_memory = RECORD_BYTES * sum(self.in_memory.values())
        if in_memory > self._world.most_in_memory:
            self._world.problems.append(f"{in_memory} bytes are in memory")

    def _perform(self, command: EpochCommand) -> None:
        world = self._world
        match command:
            case StartEpoch(number):
                if number not in self.records:
                    world.problems.append(f"epoch {number} runs again after it was emitted")
                ends_ms = world.now_ms + world.random.randint(0, 30)
                self.runs.append((ends_ms, number))
                if world.random.random() < 0.2:
                    self.runs.append((ends_ms + world.random.randint(0, 30), number))
            case EmitEpoch(number):
                self.begin_emission(number)
            case ForwardControl(element):
                assert isinstance(element, Watermark)
                world.watermark(element.timestamp_ms)
            case SpillRecords(number):
                self.in_memory[number] = 0
            case WakeAt(timestamp_ms):
                self.wakes.append(timestamp_ms)
            case StoreEpochs(numbers):
                results = list(self.unsent[1]) if self.unsent is not None else []
                world.store(results, [(number, list(self.records[number])) for number in numbers])

    def begin_emission(self, number: int) -> None:
        """Drop the records of an epoch; its results leave part by part."""
        assert self.unsent is None, "two epochs are emitted at once"
        self.unsent = (number, self.results.pop(number))
        self.records.pop(number, None)
        self.in_memory.pop(number, None)

    def emit(self) -> None:
        """Downstream takes some results."""
        if self.unsent is None:
            return
        number, rows = self.unsent
        count = self._world.random.randint(1, 4)
        self._world.emit(number, rows[:count])
        self.unsent = (number, rows[count:]) if rows[count:] else None
        if self.unsent is None:
            self.handle(ResultsEmitted(number))

    def finish_run(self) -> None:
        """A run that is due returns its rows, in any order."""
        due = [run for run in self.runs if run[0] <= self._world.now_ms]
        if not due:
            return
        run = self._world.random.choice(due)
        self.runs.remove(run)
        number = run[1]
        if number in self.records and number not in self.results:
            rows = list(self.records[number])
            self._world.random.shuffle(rows)
            self.results[number] = rows
        self.handle(EpochFinished(number))

    def wake(self) -> None:
        if self.starts_ms is not None and self.starts_ms <= self._world.now_ms:
            self.starts_ms = None
            self.handle(RunnerStarted())
        due = [wake for wake in self.wakes if wake <= self._world.now_ms]
        self.wakes = [wake for wake in self.wakes if wake > self._world.now_ms]
        for _ in due:
            self.handle(TimePassed())


class World:
    """One seed: a source of numbered records, a stage, and a sink that keeps what it gets."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.limits = EpochLimits(
            max_records=random.choice((3, 10, 1_000)),
            interval_ms=random.choice((0, 5, 50)),
            max_running=random.choice((1, 2, 3)),
            buffer_bytes=random.choice((100, 100_000)),
            memory_bytes=random.choice((40, 100_000)),
        )
        batch_bytes = 5 * RECORD_BYTES
        self.most_in_memory = self.limits.memory_bytes + self.limits.memory_bytes // 4 + batch_bytes
        self.now_ms = 0
        self.problems: list[str] = []
        self.emitted: list[int] = []
        self._watermark = self._sent = -1
        self._epoch = 0
        self._position = 0
        self._checkpoints = 0
        self._stored = Checkpoint()
        self._has_ended = False
        self.failures = 0
        self.restored = self.restored_results = 0
        self.stage = Stage(self)

    # ------------------------------------------------------------ downstream

    def emit(self, epoch: int, rows: list[int]) -> None:
        late = [row for row in rows if row <= self._watermark]
        if late:
            self.problems.append(f"the watermark {self._watermark} overtook the records {late}")
        # In one epoch any order is right.
        if epoch != self._epoch and self.emitted and min(rows) < max(self.emitted):
            self.problems.append("an epoch was emitted out of order")
        self._epoch = epoch
        self.emitted += rows

    def watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms <= self._watermark:
            self.problems.append(f"the watermark {timestamp_ms} follows {self._watermark}")
        self._watermark = timestamp_ms

    def store(self, results: list[int], epochs: list[tuple[int, list[int]]]) -> None:
        # Each output of a sink is committed with its checkpoint, so rows must be in it or in the state.
        self._stored = Checkpoint(self._position, epochs, results, list(self.emitted))

    # ------------------------------------------------------------ what happens

    def run(self, failures: bool = True) -> list[str]:
        steps = 0
        while not (self._has_ended and self.stage.machine.is_empty) and not self.problems:
            steps += 1
            if steps > 20_000:
                return [*self.problems, "the stage does not end"]
            try:
                self._step(failures and self.failures < 8)
            except (AssertionError, KeyError) as error:
                return [f"{type(error).__name__}: {error}"]
        if not self.problems and sorted(self.emitted) != list(range(RECORDS)):
            self.problems.append(f"the sink has {sorted(self.emitted)}")
        if not self.problems and self._watermark != MAX_WATERMARK_MS:
            self.problems.append("the last watermark is missing")
        return self.problems

    def _step(self, fails: bool) -> None:
        self.now_ms += self.random.randint(0, 3)
        kind = self.random.choices(
            ("records", "watermark", "barrier", "run", "emit", "wake", "fail"),
            (6, 3, 3, 6, 6, 6, 0.4 if fails else 0),
        )[0]
        if kind == "records":
            self._read()
        elif kind == "watermark" and self._sent < self._position - 1 < RECORDS - 1:
            self._sent = self._position - 1
            self.stage.handle(ControlReceived(Watermark(self._sent)))
        elif kind == "barrier":
            self._checkpoints += 1
            self.stage.handle(BarrierReceived(CheckpointId(self._checkpoints)))
        elif kind == "run":
            self.stage.finish_run()
        elif kind == "emit":
            self.stage.emit()
        elif kind == "wake":
            self.stage.wake()
        elif kind == "fail":
            self._fail()

    def _read(self) -> None:
        if self._position == RECORDS:
            if not self._has_ended:
                self._has_ended = True
                self.stage.handle(InputEnded())
                self.stage.handle(ControlReceived(Watermark(MAX_WATERMARK_MS)))
        elif not self.stage.machine.is_full:
            until = min(RECORDS, self._position + self.random.randint(1, 5))
            records, self._position = list(range(self._position, until)), until
            self.stage.gather(records)

    def _fail(self) -> None:
        self.failures += 1
        stored = self._stored
        self._position, self._has_ended = stored.position, False
        # Watermarks are no state: the source sends them again.
        self.emitted, self._watermark, self._sent = list(stored.emitted), -1, -1
        self.stage = Stage(self)
        self.restored += len(stored.epochs)
        self.restored_results += bool(stored.results)
        self._epoch = 0
        self.stage.restore(list(stored.results), stored.epochs)
