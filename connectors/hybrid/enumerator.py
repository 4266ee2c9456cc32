"""Knows whose turn it is: runs the enumerator of one source, and switches when all readers have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...common.errors import ConfigurationError, StateMigrationError
from ...operators.sources.enumerators import AsyncHandler, SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source
from .events import (
    HybridSplit,
    NoMoreSplits,
    Passed,
    ReadPosition,
    SourceFinished,
    SourceSwitched,
    SplitRequested,
    further,
)
from .stages import SourceSwitchContext, Stage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HybridState:
    """State of the enumerator.

    Attributes:
        index: Which of the sources is read.
        kind: The name of its class, to see whether it is still the same.
        made: The source itself, if a factory made it.
        inner: The state of its enumerator.
        position: How far the source has been read by readers that said so.
    """

    index: int
    kind: str
    made: Source | None
    inner: Any
    position: Any


class HybridEnumerator(SplitEnumerator):
    """The enumerator of a hybrid source."""

    def __init__(
        self, context: SplitEnumeratorContext, stages: Sequence[Stage], state: HybridState | None
    ) -> None:
        self._context = context
        self._stages = stages
        self._restored = state
        self._index = 0 if state is None else state.index
        self._made = None if state is None else state.made
        self._position = None if state is None else state.position
        self._finished: set[int] = set()
        self._inner: SplitEnumerator | None = None
        self._source = self._source_now()

    def _source_now(self) -> Source:
        state, index, stages = self._restored, self._index, self._stages
        source = self._made or (stages[index].source if index < len(stages) else None)
        if source is None or (state is not None and state.kind != type(source).__name__):
            assert state is not None
            now = [stage.name for stage in stages]
            raise StateMigrationError(
                f"the checkpoint was taken while source {index + 1} of the hybrid source was read, a "
                f"{state.kind}; the sources are {now} now. Keep those up to that one as they were, or give "
                f"the operator a new uid() to start it afresh"
            )
        return source

    def start(self) -> None:
        self._begin()

    def _begin(self) -> None:
        index, restored = self._index, self._restored
        # Before anything that the enumerator of the source assigns.
        for subtask_id in self._context.registered_readers():
            self._context.send_event_to_source_reader(subtask_id, SourceSwitched(index, self._made))
        self._ports = _StageContext(self._context, index, index == len(self._stages) - 1)
        if not self._source.is_enumerated:
            parallelism = self._context.current_parallelism()
            splits = [] if restored is not None else self._source.create_splits(parallelism)
            self._inner = _KnownSplits(self._ports, splits)
        elif restored is not None:
            self._inner = self._source.restore_enumerator(self._ports, restored.inner)
        else:
            self._inner = self._source.create_enumerator(self._ports)
        self._inner.start()

    @property
    def _current(self) -> SplitEnumerator:
        assert self._inner is not None, "it is started first, and asked nothing after its end"
        return self._inner

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        for each in splits:
            assert each.index == self._index, "a source is left when nobody has splits of it any more"
            if isinstance(each, ReadPosition):
                self._position = further(self._position, each.position)
        own = [each.split for each in splits if isinstance(each, HybridSplit)]
        if own:
            self._current.add_splits_back(own, subtask_id)

    def add_reader(self, subtask_id: int) -> None:
        self._current.add_reader(subtask_id)

    def handle_split_request(self, subtask_id: int) -> None:
        self._current.handle_split_request(subtask_id)

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        if isinstance(source_event, SourceFinished):
            self._position = further(self._position, source_event.position)
            self._finished.add(subtask_id)
            if len(self._finished) == self._context.current_parallelism():
                self._go_on()
        elif isinstance(source_event, SplitRequested):
            self._current.handle_split_request(subtask_id)
        else:
            assert isinstance(source_event, Passed)
            self._current.handle_source_event(subtask_id, source_event.event)

    # ------------------------------------------------------------ the switch

    def _go_on(self) -> None:
        following = self._stages[self._index + 1]
        if following.source is not None:
            self._switch_to(following.source, None)
            return
        context = SourceSwitchContext(self._source, self._position)
        self._context.call_async(lambda: following.make(context), self._source_made)

    def _source_made(self, made: Source | None, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem
        assert made is not None
        self._switch_to(made, made)

    def _switch_to(self, source: Source, made: Source | None) -> None:
        """In one step, so that a checkpoint sees one source or the other."""
        self._end()
        logger.info(
            "the hybrid source has read %s to its end (position %r) and goes on with %s",
            type(self._source).__name__, self._position, type(source).__name__,
        )  # fmt: skip
        self._index += 1
        self._source, self._made = source, made
        self._restored = self._position = None
        self._finished.clear()
        self._begin()
        for subtask_id in self._context.registered_readers():
            self._current.add_reader(subtask_id)

    def _end(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            self._ports.is_over = True
            inner.close()

    # ------------------------------------------------------------ checkpoints

    def snapshot_state(self, checkpoint_id: int) -> HybridState:
        inner = self._current.snapshot_state(checkpoint_id)
        return HybridState(self._index, type(self._source).__name__, self._made, inner, self._position)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._end()


class _StageContext:
    """What the enumerator of one source may do, until the next source has its turn."""

    def __init__(self, context: SplitEnumeratorContext, index: int, is_last: bool) -> None:
        self._context = context
        self._index = index
        self._is_last = is_last
        self.is_over = False

    def current_parallelism(self) -> int:
        return self._context.current_parallelism()

    def registered_readers(self) -> Sequence[int]:
        return self._context.registered_readers()

    def assign_split(self, split: Any, subtask_id: int) -> None:
        self._context.assign_split(HybridSplit(self._index, split), subtask_id)

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        self._context.assign_splits(
            {
                subtask_id: [HybridSplit(self._index, split) for split in splits]
                for subtask_id, splits in assignment.items()
            }
        )

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self._context.send_event_to_source_reader(subtask_id, NoMoreSplits(self._index))
        if self._is_last:
            self._context.signal_no_more_splits(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        self._context.send_event_to_source_reader(subtask_id, Passed(self._index, event))

    def call_async(
        self,
        call: Callable[[], Any],
        handler: AsyncHandler,
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        if period_ms is not None and period_ms <= 0:
            raise ConfigurationError(f"call_async() takes a period above 0 ms, not {period_ms}")

        def handle(result: Any, problem: BaseException | None) -> None:
            if not self.is_over:
                handler(result, problem)
            if period_ms is not None and not self.is_over:
                self.call_async(call, handler, period_ms, period_ms)

        self._context.call_async(call, handle, initial_delay_ms)


class _KnownSplits(SplitEnumerator):
    """Stands in where a source knows its splits: every reader gets its share at once, and no more."""

    def __init__(self, context: SplitEnumeratorContext, splits: list[Any]) -> None:
        self._context = context
        self._splits = list(splits)

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self._splits += splits

    def add_reader(self, subtask_id: int) -> None:
        share = self._splits[subtask_id :: self._context.current_parallelism()]
        self._context.assign_splits({subtask_id: share})
        self._context.signal_no_more_splits(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Readers have everything."""
