"""The hybrid source's enumerator and readers, step by step in any order, with a crash at any point.

A small coordinator hands messages over in order, takes snapshots as the protocol does (the enumerator at the
trigger, each reader when the barrier has come down its channel behind what was assigned before) and may lose
everything at any moment. What was emitted before the barrier of a complete checkpoint counts.
"""

from __future__ import annotations

import pickle
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tidegate.datastream import Boundedness, Source, SourceReader, SplitEnumerator, SplitEnumeratorContext
from tidegate.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from tidegate.operators.base import OperatorContext
from tidegate.protocol.elements import Batch
from tidegate.protocol.source_events import SourceEventSent

MakeContext = Callable[..., OperatorContext]


class Numbers(Source):
    """The numbers from `first` on, found by an enumerator in ranges of three; readers ask for each."""

    def __init__(self, first: int, ranges: int) -> None:
        self.first, self.ranges = first, ranges

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return Ranges(context, self, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return Ranges(context, self, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return Reader(splits)


class KnownNumbers(Source):
    """The same, but it knows its splits."""

    def __init__(self, first: int, ranges: int) -> None:
        self.first, self.ranges = first, ranges

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_splits(self, parallelism: int) -> list[Any]:
        return ranges_of(self.first, self.ranges)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return Reader(splits)


def ranges_of(first: int, count: int) -> list[Any]:
    return [(first + 3 * number, first + 3 * number + 3) for number in range(count)]


class Ranges(SplitEnumerator):
    def __init__(self, context: SplitEnumeratorContext, source: Numbers, waiting: list[Any] | None) -> None:
        self.context, self.source = context, source
        self.waiting = waiting
        self.returned: list[Any] = []
        self.asking: list[int] = []

    def start(self) -> None:
        if self.waiting is None:
            count = self.source.ranges
            self.context.call_async(lambda: ranges_of(self.source.first, count), self.found)

    def found(self, ranges: list[Any] | None, problem: BaseException | None) -> None:
        self.waiting = ranges
        self.serve()

    def handle_split_request(self, subtask_id: int) -> None:
        self.asking.append(subtask_id)
        self.serve()

    def serve(self) -> None:
        while self.asking and (self.returned or self.waiting):
            split = (self.returned or self.waiting or []).pop(0)
            self.context.assign_split(split, self.asking.pop(0))
        if self.waiting == []:
            while self.asking:
                self.context.signal_no_more_splits(self.asking.pop(0))

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self.returned += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return None if self.waiting is None else [*self.returned, *self.waiting]


class Reader(SourceReader):
    def __init__(self, splits: list[Any]) -> None:
        self.splits = list(splits)

    def add_splits(self, splits: list[Any]) -> None:
        self.splits += splits

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        position, end = self.splits.pop(0)
        if position + 1 < end:
            self.splits.insert(0, (position + 1, end))
        return Batch([position])

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


def from_where_it_ended(context: SourceSwitchContext) -> Source:
    """Goes on behind the greatest number of the source before."""
    return Numbers(context.end_position + 1, 4)


def three_sources() -> HybridSource:
    builder = HybridSource.builder(Numbers(0, 5)).add_source(KnownNumbers(15, 4), position_of=max)
    return builder.add_source(from_where_it_ended, Boundedness.BOUNDED).build()


EXPECTED = list(range(15 + 12 + 12))


Restored = tuple[Any, list[Any]]
"""The state of the enumerator, and the splits of all readers."""


class World:
    """One attempt: the coordinator's side, a channel to each reader, one back, and asynchronous calls."""

    def __init__(
        self,
        make_context: MakeContext,
        attempt: int,
        parallelism: int,
        restored: Restored | None,
    ) -> None:
        self.parallelism = parallelism
        self.to_readers: list[deque[tuple[str, Any]]] = [deque() for _ in range(parallelism)]
        self.to_enumerator: deque[tuple[int, str, Any]] = deque()
        self.calls: list[Callable[[], None]] = []
        self.ended: set[int] = set()
        self.told: set[int] = set()
        self.asked: set[int] = set()
        self.emitted: list[list[int]] = [[] for _ in range(parallelism)]
        source = pickle.loads(pickle.dumps(three_sources()))
        self.readers = []
        for subtask in range(parallelism):
            context = make_context(attempt, subtask, parallelism)
            context.send_to_coordinator = self.sender(subtask)
            reader = source.create_reader([])
            reader.open(context)
            self.readers.append(reader)
        if restored is None:
            self.enumerator = source.create_enumerator(self)
        else:
            self.enumerator = source.restore_enumerator(self, restored[0])
        self.enumerator.start()
        for number, split in enumerate([] if restored is None else restored[1]):
            self.enumerator.add_splits_back([split], number % parallelism)
        for subtask in range(parallelism):
            self.enumerator.add_reader(subtask)

    def sender(self, subtask: int) -> Callable[[Any], None]:
        def send(event: Any) -> None:
            assert isinstance(event, SourceEventSent)
            self.to_enumerator.append((subtask, "event", pickle.dumps(event.event)))

        return send

    # What an enumerator may call.

    def current_parallelism(self) -> int:
        return self.parallelism

    def registered_readers(self) -> Sequence[int]:
        return range(self.parallelism)

    def assign_split(self, split: Any, subtask_id: int) -> None:
        self.assign_splits({subtask_id: [split]})

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        for subtask_id, splits in assignment.items():
            if splits:
                assert subtask_id not in self.told
                self.to_readers[subtask_id].append(("splits", pickle.dumps(list(splits))))

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self.told.add(subtask_id)
        self.to_readers[subtask_id].append(("end", None))

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        self.to_readers[subtask_id].append(("event", pickle.dumps(event)))

    def call_async(self, call: Any, handler: Any, initial_delay_ms: int = 0, period_ms: Any = None) -> None:
        assert period_ms is None
        self.calls.append(lambda: handler(call(), None))

    # Steps.

    def deliver(self, subtask: int, on_barrier: Callable[[int], None]) -> None:
        kind, content = self.to_readers[subtask].popleft()
        reader = self.readers[subtask]
        if kind == "barrier":
            on_barrier(subtask)
        elif kind == "end":
            self.ended.add(subtask)
        elif kind == "splits":
            self.asked.discard(subtask)
            reader.add_splits(pickle.loads(content))
        else:
            reader.handle_source_event(pickle.loads(content))

    def answer(self) -> None:
        subtask, kind, content = self.to_enumerator.popleft()
        if kind == "request":
            self.enumerator.handle_split_request(subtask)
        else:
            self.enumerator.handle_source_event(subtask, pickle.loads(content))

    def poll(self, subtask: int) -> bool:
        """Whether the reader has ended."""
        batch = self.readers[subtask].poll(10)
        if batch is not None:
            self.emitted[subtask] += batch.values
        elif subtask in self.ended:
            return True
        elif subtask not in self.asked:
            self.asked.add(subtask)
            self.to_enumerator.append((subtask, "request", None))
        return False


class Run:
    """A job: attempts until one ends, and what counts of what they emitted."""

    def __init__(self, make_context: MakeContext, seed: int) -> None:
        self.make_context = make_context
        self.random = random.Random(seed)
        self.attempt = 0
        self.completed = pickle.dumps(None)
        self.committed: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.attempt += 1
        parallelism = self.random.randint(1, 3)
        self.world = World(self.make_context, self.attempt, parallelism, pickle.loads(self.completed))
        self.finished: set[int] = set()
        self.snapshots: dict[int, tuple[bytes, list[int]]] | None = None

    def step(self, may_crash: bool) -> bool:
        """Do something that can be done; whether the job has ended."""
        world = self.world
        if may_crash and self.random.random() < 0.01:
            self.begin()
            return False
        choices: list[Callable[[], None]] = [lambda: self.trigger()]
        for subtask in range(world.parallelism):
            choices.append(lambda subtask=subtask: self.poll(subtask))  # type: ignore[misc]
            if world.to_readers[subtask]:
                choices += [lambda subtask=subtask: world.deliver(subtask, self.on_barrier)] * 2  # type: ignore[misc]
        if world.to_enumerator:
            choices += [world.answer] * 2
        if world.calls:
            choices.append(lambda: world.calls.pop(0)())
        self.random.choice(choices)()
        return len(self.finished) == world.parallelism and self.snapshots is None

    def poll(self, subtask: int) -> None:
        if subtask not in self.finished and self.world.poll(subtask):
            self.finished.add(subtask)

    def trigger(self) -> None:
        if self.snapshots is None and not self.finished:
            self.snapshots = {}
            self.enumerator_state = pickle.dumps(self.world.enumerator.snapshot_state(1))
            for channel in self.world.to_readers:
                channel.append(("barrier", None))

    def on_barrier(self, subtask: int) -> None:
        assert self.snapshots is not None
        world = self.world
        state = pickle.dumps(world.readers[subtask].snapshot_state())
        self.snapshots[subtask] = state, world.emitted[subtask]
        world.emitted[subtask] = []
        if len(self.snapshots) == world.parallelism:
            states = [pickle.loads(state) for state, _ in self.snapshots.values()]
            splits = [each for state in states for each in state]
            self.completed = pickle.dumps((pickle.loads(self.enumerator_state), splits))
            for _, emitted in self.snapshots.values():
                self.committed += emitted
            self.snapshots = None

    def result(self) -> list[int]:
        return sorted(self.committed + [each for emitted in self.world.emitted for each in emitted])


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_every_record_of_every_source_counts_once_in_any_order_of_events_and_crashes(
    operator_context: MakeContext, first_seed: int
) -> None:
    for seed in range(first_seed, first_seed + 50):
        run = Run(operator_context, seed)
        for number in range(20_000):
            if run.step(may_crash=number < 2_000):
                break
        else:
            raise AssertionError(f"seed {seed}: it does not end")
        assert run.result() == EXPECTED, f"seed {seed}, {run.attempt} attempts"


def test_no_source_is_read_before_the_one_before_it_has_ended_everywhere(
    operator_context: MakeContext,
) -> None:
    for seed in range(30):
        run = Run(operator_context, seed)
        seen: list[int] = []
        while not run.step(may_crash=False):
            for emitted in run.world.emitted:
                seen += emitted
                run.committed += emitted
                emitted.clear()
        stages = [0 if number < 15 else 1 if number < 27 else 2 for number in seen]
        assert stages == sorted(stages), f"seed {seed}"
