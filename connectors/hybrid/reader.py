"""Reads, in one subtask, the source whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...common.output_tag import OutputTag
from ...operators.base import OperatorContext
from ...operators.checkpointed import CheckpointHooks, CheckpointListener
from ...operators.sources.sources import Source, SourceReader
from ...protocol.elements import Batch, RowBatch
from ...protocol.ids import CheckpointId
from ...protocol.source_events import ReaderEvent, SourceEventSent
from ...protocol.stages.epoch_messages import ToLeader
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
from .stages import Stage

_NONE: frozenset[str] = frozenset()


class HybridReader(SourceReader, CheckpointListener):
    """Holds the reader of one source at a time; the enumerator says of which.

    Watermarks are made from each split of a source that tells its splits apart, and from all records together
    of one that does not: then it counts as one split. A reader that waits for the others to end is idle.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._index = -1
        self._source: Source | None = None
        self._reader: SourceReader | None = None
        self._splits_known: frozenset[str] | None = None
        self._split_ids = frozenset({"start"})
        self._begin()

    def _begin(self) -> None:
        self._is_new = True
        self._has_asked = False
        self._has_all_splits = False
        self._is_finished = False
        self._position: Any = None

    def open(self, context: OperatorContext) -> None:
        self._context = context

    # ------------------------------------------------------------ what the enumerator says

    def handle_source_event(self, source_event: Any) -> None:
        if isinstance(source_event, SourceSwitched):
            self._switch(source_event)
        elif source_event.index == self._index and isinstance(source_event, NoMoreSplits):
            self._has_all_splits = True
            self._the_reader([])
        elif source_event.index == self._index:
            self._the_reader([]).handle_source_event(source_event.event)

    def _switch(self, switched: SourceSwitched) -> None:
        self.close()
        self._index = switched.index
        self._splits_known = None
        self._source = switched.made or self._stages[self._index].source
        self._begin()
        assert self._source is not None
        if self._source.is_enumerated:
            self._the_reader([])
        self._follow_splits()

    def add_splits(self, splits: list[Any]) -> None:
        assert self._source is not None
        self._has_asked = False
        own = [split.split for split in splits]
        if self._source.is_enumerated:
            self._the_reader([]).add_splits(own)
        else:
            self._the_reader(own)
        self._follow_splits()

    def _the_reader(self, splits: list[Any]) -> SourceReader:
        if self._reader is None:
            assert self._source is not None
            self._reader = self._source.create_reader(splits)
            self._hooks = CheckpointHooks(self._reader)
            self._reader.open(replace(self._context, send_to_coordinator=self._send))
        return self._reader

    def _send(self, event: ReaderEvent | ToLeader) -> None:
        """What the reader of a source says to its own enumerator."""
        assert isinstance(event, SourceEventSent), "the other events come from the operator"
        self._context.send_source_event(Passed(self._index, event.event))

    # ------------------------------------------------------------ records

    def poll(self, max_records: int) -> Batch | None:
        if self._is_new or self._reader is None or self._is_finished:
            # Once without records after a switch: the operator has to hear of the new splits first.
            self._is_new = False
            return RowBatch([])
        batch = self._reader.poll(max_records)
        self._follow_splits()
        if batch is None:
            return self._nothing_left()
        position_of = self._stages[self._index].position_of
        if position_of is not None and len(batch):
            self._position = further(self._position, position_of(batch.values))
        return batch

    def _nothing_left(self) -> Batch | None:
        if self._index == len(self._stages) - 1:
            # Behind the last the operator asks, and ends.
            return None
        if self._has_all_splits:
            self._is_finished = True
            self._split_ids = _NONE
            self._context.send_source_event(SourceFinished(self._index, self._position))
        elif not self._has_asked:
            self._has_asked = True
            self._context.send_source_event(SplitRequested(self._index))
        return RowBatch([])

    def take_side_outputs(self) -> Sequence[tuple[OutputTag, Batch]]:
        return () if self._reader is None else self._reader.take_side_outputs()

    def polled_place(self, index: int | None) -> str | None:
        return None if self._reader is None else self._reader.polled_place(index)

    # ------------------------------------------------------------ splits

    def split_ids(self) -> frozenset[str] | None:
        return self._split_ids

    def polled_split(self) -> str:
        assert self._reader is not None
        if self._reader.split_ids() is None:
            return str(self._index)
        return f"{self._index}/{self._reader.polled_split()}"

    def _follow_splits(self) -> None:
        own = None if self._reader is None else self._reader.split_ids()
        if own is None:
            if str(self._index) not in self._split_ids:
                self._split_ids = frozenset({str(self._index)})
        elif own is not self._splits_known:
            self._splits_known = own
            self._split_ids = frozenset(f"{self._index}/{each}" for each in own)

    # ------------------------------------------------------------ checkpoints

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            self._reader.prepare_snapshot(checkpoint_id)

    def snapshot_state(self) -> list[Any]:
        splits = [] if self._reader is None else self._reader.snapshot_state()
        state: list[Any] = [HybridSplit(self._index, split) for split in splits]
        if self._position is not None:
            state.append(ReadPosition(self._index, self._position))
        return state

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            self._hooks.complete(CheckpointId(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            self._hooks.aborted(CheckpointId(checkpoint_id))

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
