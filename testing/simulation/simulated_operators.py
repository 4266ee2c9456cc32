"""The operators of simulated jobs. Each adds to a record where it was and what its state said.

A record is `(split, number, trail)`. Every operator on its way appends to the trail: its uid, or
`(uid, key, count)` where it counts by key. So the output alone shows whether every record took every
way exactly once, and whether every count was given exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...common.typeinfo import Types
from ...operators.base import FrozenOperator, OperatorContext, StreamOperator
from ...operators.checkpointed import CheckpointListener
from ...operators.functions import AggregateFunction, KeyedProcessFunction
from ...operators.keyed.keyed import KeyedProcessOperator
from ...operators.output import Output
from ...operators.runtime_context import RuntimeContext
from ...operators.sinks import Committer, Sink, SinkOperator, SinkWriter
from ...operators.sources.enumerators import SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source, SourceReader
from ...operators.timers.timer_service import TimeDomain
from ...operators.two_phase_commit import TwoPhaseCommitSink
from ...protocol.elements import Batch, CheckpointBarrier, RowBatch, SnapshotKind
from ...protocol.ids import CheckpointId
from ...state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from ...state.kinds import AggregatingState, FoldingState, ListState, MapState, ReducingState
from .external_system import external_system

Record = tuple[str, int, tuple[Any, ...]]
HELD_BACK = 3


class ReplayableSource(Source):
    """Splits of numbered records, the same on every run."""

    def __init__(self, uid: str, splits: int, records: int) -> None:
        self._uid = uid
        self._splits = splits
        self._records = records

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(f"{self._uid}.{index}", 0) for index in range(self._splits)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Reader(self._uid, splits, self._records)


class _Reader(SourceReader):
    def __init__(self, uid: str, splits: list[tuple[str, int]], records: int) -> None:
        external_system().opening(uid)
        self._trail = (uid,)
        self._splits = list(splits)
        self._end = records

    def poll(self, max_records: int) -> Batch | None:
        for index, (name, position) in enumerate(self._splits):
            if position < self._end:
                stop = min(position + max_records, self._end)
                self._splits[index] = (name, stop)
                # The next poll reads another split, so that they interleave.
                self._splits.append(self._splits.pop(index))
                return RowBatch([(name, number, self._trail) for number in range(position, stop)])
        return None

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


class DiscoveredSource(ReplayableSource):
    """The same splits, found one after the other by an enumerator and assigned to whoever asks."""

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _Enumerator(self.create_splits(1), context, 0, [])

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return _Enumerator(self.create_splits(1), context, *checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _AskingReader(self._uid, splits, self._records)


class _Enumerator(SplitEnumerator):
    def __init__(
        self, every: list[Any], context: SplitEnumeratorContext, found: int, waiting: list[Any]
    ) -> None:
        self._every = every
        self._context = context
        self._found = found
        self._waiting = list(waiting)
        self._asking: list[int] = []

    def start(self) -> None:
        self._context.call_async(lambda: len(self._every), self._discovered, period_ms=2)

    def _discovered(self, there: Any, problem: BaseException | None) -> None:
        self._waiting += self._every[self._found : min(there, self._found + 1)]
        self._found = min(there, self._found + 1)
        self._assign()

    def _assign(self) -> None:
        while self._asking and self._waiting:
            self._context.assign_split(self._waiting.pop(0), self._asking.pop(0))
        while self._asking and self._found == len(self._every):
            self._context.signal_no_more_splits(self._asking.pop())

    def handle_split_request(self, subtask_id: int) -> None:
        self._asking.append(subtask_id)
        self._assign()

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self._waiting += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self._found, list(self._waiting)


class _AskingReader(_Reader):
    """Forgets what it has read."""

    def add_splits(self, splits: list[Any]) -> None:
        self._splits += splits

    def poll(self, max_records: int) -> Batch | None:
        batch = super().poll(max_records)
        self._splits = [(name, position) for name, position in self._splits if position < self._end]
        return batch


class KeyOf:
    """The key of a record at one stage: an integer or, at every other stage, a text."""

    def __init__(self, salt: int, keys: int, is_skewed: bool) -> None:
        self._salt = salt
        self._keys = keys
        self._is_skewed = is_skewed

    def __call__(self, record: Record) -> Any:
        split, number, _ = record
        key = (number * 7 + len(split) + ord(split[-1]) + self._salt) % self._keys
        if self._is_skewed and number % 4:
            key = 0
        return f"key {key}" if self._salt % 2 else key


class Pass:
    """A map function that only leaves its mark."""

    def __init__(self, uid: str) -> None:
        self._uid = uid

    def __call__(self, record: Record) -> Record:
        split, number, trail = record
        return split, number, (*trail, self._uid)


class _Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def _plus(left: int, right: int) -> int:
    return left + right


class CountByKey(KeyedProcessFunction, CheckpointListener):
    """Counts the records of each key, in several kinds of state that must agree."""

    def __init__(self, uid: str, states: tuple[str, ...]) -> None:
        self._uid = uid
        self._kinds = states

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self._others: list[Any] = [_COUNTERS[kind](runtime_context) for kind in self._kinds]

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterator[Record]:
        total = (self._total.value() or 0) + 1
        self._total.update(total)
        key = ctx.get_current_key()
        for other in self._others:
            counted = other.count(value)
            if counted != total:
                external_system().problems.append(
                    f"{self._uid}: key {key!r} has the count {total}, but {counted} in {type(other).__name__}"
                )
        split, number, trail = value
        yield split, number, (*trail, (self._uid, key, total))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        external_system().notified(checkpoint_id)


class _InMap:
    def __init__(self, context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("by split", Types.STRING(), Types.LONG())
        self._state: MapState[str, int] = context.get_map_state(descriptor)

    def count(self, value: Record) -> int:
        self._state.put(value[0], (self._state.get(value[0]) or 0) + 1)
        return sum(self._state.values())


class _InList:
    def __init__(self, context: RuntimeContext) -> None:
        self._state: ListState[int] = context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))

    def count(self, value: Record) -> int:
        self._state.add(value[1])
        return len(list(self._state.get()))


class _InReducing:
    def __init__(self, context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("reduced", _plus, Types.LONG())
        self._state: ReducingState[int] = context.get_reducing_state(descriptor)

    def count(self, value: Record) -> int:
        self._state.add(1)
        return self._state.get() or 0


class _InAggregating:
    def __init__(self, context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor("aggregated", _Sum(), Types.LONG())
        self._state: AggregatingState[int, int] = context.get_aggregating_state(descriptor)

    def count(self, value: Record) -> int:
        self._state.add(1)
        return self._state.get() or 0


class _InFolding:
    def __init__(self, context: RuntimeContext) -> None:
        descriptor = FoldingStateDescriptor("folded", 0, _plus, Types.LONG())
        self._state: FoldingState[int, int] = context.get_folding_state(descriptor)

    def count(self, value: Record) -> int:
        self._state.add(1)
        return self._state.get() or 0


_COUNTERS: dict[str, Callable[[RuntimeContext], Any]] = {
    "map": _InMap,
    "list": _InList,
    "reducing": _InReducing,
    "aggregating": _InAggregating,
    "folding": _InFolding,
}


class DelayByKey(KeyedProcessFunction):
    """Holds each record until event time reaches its number, or until a clock lets all of its key go."""

    def __init__(self, uid: str, is_timed: bool) -> None:
        self._mark = Pass(uid)
        self._uid = uid
        self._is_timed = is_timed

    def open(self, runtime_context: RuntimeContext) -> None:
        waiting = MapStateDescriptor("waiting", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        self._waiting: MapState[int, list[Record]] = runtime_context.get_map_state(waiting)

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> list[Record]:
        number, timers = value[1], ctx.timer_service()
        if number <= timers.current_watermark():
            # Late, as what an operator lets go at the end of its input: no watermark comes any more.
            return [self._mark(value)]
        self._waiting.put(number, [*(self._waiting.get(number) or []), value])
        timers.register_event_time_timer(number)
        if self._is_timed:
            timers.register_processing_time_timer(timers.current_processing_time() + 1 + number % 7)
        return []

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Record]:
        if ctx.time_domain() is TimeDomain.EVENT_TIME:
            due = self._waiting.get(timestamp) or []
            self._waiting.remove(timestamp)
        else:
            due = [record for records in self._waiting.values() for record in records]
            self._waiting.clear()
        if not due and not self._is_timed:
            external_system().problems.append(
                f"{self._uid}: a timer fires at {timestamp}, but nothing waits for it"
            )
        return [self._mark(record) for record in due]


class JoinOperator(KeyedProcessOperator):
    """Counts two inputs by key; of a broadcast second input each subtask keeps its share, uncounted."""

    input_count = 2

    def __init__(self, uid: str, states: tuple[str, ...], key_of: KeyOf, is_broadcast: bool) -> None:
        super().__init__(CountByKey(uid, states), key_of)
        self._shares = Shares(uid) if is_broadcast else None

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if input_index == 0 or self._shares is None:
            super().process_batch(batch, input_index)
        else:
            self.emit(self._shares.of(self.context, batch))


class Shares:
    """Of what every subtask gets, each keeps the records whose turn it is."""

    def __init__(self, uid: str) -> None:
        self._mark = Pass(uid)

    def of(self, context: OperatorContext, batch: Batch) -> Batch:
        """The share of one subtask in a batch."""
        count, index = context.parallelism, context.subtask_index
        return RowBatch([self._mark(record) for record in batch.rows() if record[1] % count == index])


class ShareOperator(StreamOperator):
    """Keeps a share of a broadcast stream."""

    def __init__(self, uid: str) -> None:
        self._shares = Shares(uid)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(self._shares.of(self.context, batch))


class BufferOperator(StreamOperator):
    """Holds up to three records back, in list state; and checks its union and broadcast state."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._mark = Pass(uid)
        self._held: list[Record] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._held = []

    def open(self) -> None:
        store = self.context.operator_state
        self._list = store.get_list_state(ListStateDescriptor("held"))
        members = ListStateDescriptor("members", Types.TUPLE([Types.INT(), Types.INT()]))
        self._members = store.get_union_list_state(members)
        rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        self._rules = store.get_broadcast_state(rules)
        self._held = list(self._list.get())
        if self.context.is_restored:
            self._check()
        self._rules.put("held back", HELD_BACK)

    def _check(self) -> None:
        members = sorted(self._members.get())
        expected = [(index, len(members)) for index in range(len(members))]
        if not members or members != expected:
            external_system().problems.append(f"{self._uid}: union state is not whole: {members}")
        if dict(self._rules.items()) != {"held back": HELD_BACK}:
            external_system().problems.append(f"{self._uid}: broadcast state is not whole")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._held += [self._mark(record) for record in batch.rows()]
        if len(self._held) > HELD_BACK:
            self._release()

    def _release(self) -> None:
        released, self._held = self._held, []
        if released:
            self.emit(RowBatch(released))

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._list.update(self._held)
        self._members.update([(self.context.subtask_index, self.context.parallelism)])
        return super().snapshot_state(barrier)

    def finish(self) -> None:
        self._release()


class SimulatedSink(Sink):
    """Prepares at the barrier, commits on completion."""

    owner = 0

    def create_writer(self) -> SinkWriter:
        return _Writer(self.owner)

    def create_committer(self) -> Committer | None:
        return _Committer()


class _Writer(SinkWriter):
    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._values: list[Any] = []

    def write_batch(self, values: list[Any]) -> None:
        self._values.extend(values)

    def prepare_commit(self) -> list[Any]:
        values, self._values = self._values, []
        return [external_system().prepare(self._owner, values)] if values else []


class _Committer(Committer):
    def commit(self, committables: list[Any]) -> None:
        for name in committables:
            external_system().commit(name)


class SimulatedTransactions(TwoPhaseCommitSink[str]):
    """The same with transactions that are open while they are written."""

    owner = 0

    def begin_transaction(self) -> str:
        return external_system().begin(self.owner)

    def write(self, transaction: str, values: list[Any]) -> None:
        external_system().write(transaction, values)

    def pre_commit(self, transaction: str) -> None:
        external_system().pre_commit(transaction)

    def commit(self, transaction: str) -> None:
        external_system().commit(transaction)

    def abort(self, transaction: str) -> None:
        external_system().abort(transaction)


class SimulatedSinkOperator(SinkOperator):
    """Tells the outside which transactions a savepoint covers, and writes nothing behind a stop."""

    def __init__(self, sink: SimulatedSink | SimulatedTransactions) -> None:
        super().__init__(sink)
        self._simulated = sink
        self._stopped_at = CheckpointId(0)

    def open(self) -> None:
        self._simulated.owner = external_system().new_owner()
        super().open()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if self._stopped_at:
            external_system().goes_on_behind(self.context.job_id, self._stopped_at, "a sink writes")
        super().process_batch(batch, input_index)

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        frozen = super().snapshot_state(barrier)
        if barrier.savepoint is not None:
            external_system().saved(barrier.savepoint.directory, self._simulated.owner)
        if barrier.kind is SnapshotKind.STOP:
            self._stopped_at = barrier.checkpoint_id
        return frozen
