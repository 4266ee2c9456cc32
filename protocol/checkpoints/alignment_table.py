"""The table of alignment (exactly-once): what a task does about each event, by what is under way.

`BarrierAligner` performs the steps of the row that `TABLE` has for an event, in order; without a row it does
nothing. `docs/protocol.md` shows the same table.
"""

from __future__ import annotations

import enum
from typing import Any

from .barrier_handler import (
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAnnounced,
    BarrierKnown,
    BarrierReceived,
    BytesBuffered,
    CancelMarkerAnnounced,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointGivenUp,
    CheckpointTriggered,
    EndAnnounced,
)


class AlignmentState(enum.Enum):
    """What is under way in a task. There is never more than one checkpoint under way."""

    FLOWING = "flowing"
    """Nothing."""
    ALIGNING = "aligning"
    """The barrier of a checkpoint has arrived in some channels, and its snapshot is not taken yet."""
    RECORDING = "recording"
    """A barrier overtook: the snapshot is taken, and records before the barrier are still to arrive."""


class AlignmentInput(enum.Enum):
    """The events, where a barrier that may overtake differs from one that must be aligned."""

    BARRIER = "barrier received"
    KNOWN = "barrier known"
    ANNOUNCED = "barrier announced"
    KNOWN_ALIGNED = "barrier known that never overtakes"
    ANNOUNCED_ALIGNED = "barrier announced that never overtakes"
    CANCEL = "cancel marker received"
    CANCEL_ANNOUNCED = "cancel marker announced"
    ENDED = "channel ended"
    END_ANNOUNCED = "end announced"
    TRIGGERED = "triggered by the coordinator"
    GIVEN_UP = "given up by the coordinator"
    EXPIRED = "a barrier says that older checkpoints are no longer pending"
    TOO_MUCH_BUFFERED = "more bytes buffered than the limit"
    TIME_PASSED = "alignment timeout"


_INPUTS: dict[type[Any], AlignmentInput] = {
    BarrierReceived: AlignmentInput.BARRIER,
    BarrierKnown: AlignmentInput.KNOWN,
    BarrierAnnounced: AlignmentInput.ANNOUNCED,
    CancelMarkerReceived: AlignmentInput.CANCEL,
    CancelMarkerAnnounced: AlignmentInput.CANCEL_ANNOUNCED,
    ChannelEnded: AlignmentInput.ENDED,
    EndAnnounced: AlignmentInput.END_ANNOUNCED,
    CheckpointTriggered: AlignmentInput.TRIGGERED,
    CheckpointGivenUp: AlignmentInput.GIVEN_UP,
    BytesBuffered: AlignmentInput.TOO_MUCH_BUFFERED,
    AlignmentTimePassed: AlignmentInput.TIME_PASSED,
}
_NEVER_OVERTAKE = {
    AlignmentInput.KNOWN: AlignmentInput.KNOWN_ALIGNED,
    AlignmentInput.ANNOUNCED: AlignmentInput.ANNOUNCED_ALIGNED,
}


def input_of(event: AlignmentEvent) -> AlignmentInput:
    """What an event is in the tables of alignment and tracking."""
    kind = _INPUTS[type(event)]
    if isinstance(event, BarrierKnown | BarrierAnnounced) and event.barrier.aligned_timeout_ms is None:
        return _NEVER_OVERTAKE[kind]
    return kind


class Relation(enum.Enum):
    """How the checkpoint of an event relates to the one under way, and to those that are decided."""

    DECIDED = "decided before"
    OLDER = "older than the one under way, not decided"
    SAME = "the one under way"
    NEWER = "newer"
    ANY = "any, or none"
    """The event has no checkpoint, or it makes no difference. Rows for a certain relation take precedence."""


class Step(enum.Enum):
    """What a row does. Steps that say "if" depend on channels and on the time."""

    BEGIN = "begin to align"
    ARRIVE = "block the channel; if it was the last one missing, take the snapshot and resume"
    HEAR = "adopt a timeout of 0 from upstream"
    ANNOUNCE = "count the channel as announced"
    OVERTAKE = "if due and no channel that must be aligned is missing, record, take the snapshot and resume"
    CLOSE = "forget the channel"
    COUNT_ENDED = "count the channel as aligned; if it was the last one missing, take the snapshot and resume"
    NOTE_END = "expect nothing more to arrive in the channel"
    RECORDED = "if it was the last channel that records, finish recording"
    NOTE_REFUSAL = "never overtake for this checkpoint or an older one"
    SNAPSHOT = "if no channel is open, take the snapshot"
    REFUSE_CANCELLED = "abort the event's checkpoint: cancelled upstream"
    REFUSE_GIVEN_UP = "abort the event's checkpoint: given up"
    ABORT_SUBSUMED = "abort the one under way: subsumed; resume"
    ABORT_CANCELLED = "abort the one under way: cancelled upstream; resume"
    ABORT_TOO_MUCH = "abort the one under way: too much buffered; resume"
    ABORT_GIVEN_UP = "abort the one under way: given up; resume"


_FLOWING, _ALIGNING, _RECORDING = AlignmentState
_In, _Is, _Do = AlignmentInput, Relation, Step
_BEGIN_ALIGNED = (_Do.BEGIN, _Do.ARRIVE)
_BEGIN_KNOWN = (_Do.BEGIN, _Do.HEAR, _Do.OVERTAKE)
_BEGIN_ANNOUNCED = (_Do.BEGIN, _Do.ANNOUNCE, _Do.HEAR, _Do.OVERTAKE)
_SUBSUME = (_Do.ABORT_SUBSUMED,)

TABLE: dict[tuple[AlignmentState, AlignmentInput, Relation], tuple[Step, ...]] = {
    (_FLOWING, _In.BARRIER, _Is.NEWER): _BEGIN_ALIGNED,
    (_ALIGNING, _In.BARRIER, _Is.SAME): (_Do.ARRIVE,),
    (_ALIGNING, _In.BARRIER, _Is.NEWER): _SUBSUME + _BEGIN_ALIGNED,
    (_RECORDING, _In.BARRIER, _Is.NEWER): _SUBSUME + _BEGIN_ALIGNED,
    #
    (_FLOWING, _In.KNOWN, _Is.NEWER): _BEGIN_KNOWN,
    (_ALIGNING, _In.KNOWN, _Is.SAME): (_Do.HEAR, _Do.OVERTAKE),
    (_ALIGNING, _In.KNOWN, _Is.NEWER): _SUBSUME + _BEGIN_KNOWN,
    (_RECORDING, _In.KNOWN, _Is.NEWER): _SUBSUME + _BEGIN_KNOWN,
    (_RECORDING, _In.KNOWN_ALIGNED, _Is.NEWER): _SUBSUME,
    #
    (_FLOWING, _In.ANNOUNCED, _Is.NEWER): _BEGIN_ANNOUNCED,
    (_ALIGNING, _In.ANNOUNCED, _Is.SAME): (_Do.ANNOUNCE, _Do.HEAR, _Do.OVERTAKE),
    (_ALIGNING, _In.ANNOUNCED, _Is.NEWER): _SUBSUME + _BEGIN_ANNOUNCED,
    (_RECORDING, _In.ANNOUNCED, _Is.SAME): (_Do.RECORDED,),
    (_RECORDING, _In.ANNOUNCED, _Is.NEWER): _SUBSUME + _BEGIN_ANNOUNCED,
    (_RECORDING, _In.ANNOUNCED_ALIGNED, _Is.SAME): (_Do.RECORDED,),
    (_RECORDING, _In.ANNOUNCED_ALIGNED, _Is.NEWER): _SUBSUME,
    #
    (_FLOWING, _In.CANCEL, _Is.NEWER): (_Do.REFUSE_CANCELLED,),
    (_ALIGNING, _In.CANCEL, _Is.SAME): (_Do.ABORT_CANCELLED,),
    (_ALIGNING, _In.CANCEL, _Is.NEWER): (*_SUBSUME, _Do.REFUSE_CANCELLED),
    (_RECORDING, _In.CANCEL, _Is.NEWER): (*_SUBSUME, _Do.REFUSE_CANCELLED),
    #
    (_FLOWING, _In.CANCEL_ANNOUNCED, _Is.ANY): (_Do.NOTE_REFUSAL,),
    (_ALIGNING, _In.CANCEL_ANNOUNCED, _Is.ANY): (_Do.NOTE_REFUSAL,),
    (_RECORDING, _In.CANCEL_ANNOUNCED, _Is.ANY): (_Do.NOTE_REFUSAL,),
    (_RECORDING, _In.CANCEL_ANNOUNCED, _Is.SAME): (_Do.NOTE_REFUSAL, _Do.ABORT_CANCELLED),
    (_RECORDING, _In.CANCEL_ANNOUNCED, _Is.NEWER): (_Do.NOTE_REFUSAL, *_SUBSUME),
    #
    (_FLOWING, _In.ENDED, _Is.ANY): (_Do.CLOSE,),
    (_ALIGNING, _In.ENDED, _Is.ANY): (_Do.CLOSE, _Do.COUNT_ENDED),
    (_RECORDING, _In.ENDED, _Is.ANY): (_Do.CLOSE, _Do.RECORDED),
    (_FLOWING, _In.END_ANNOUNCED, _Is.ANY): (_Do.NOTE_END,),
    (_ALIGNING, _In.END_ANNOUNCED, _Is.ANY): (_Do.NOTE_END,),
    (_RECORDING, _In.END_ANNOUNCED, _Is.ANY): (_Do.NOTE_END, _Do.RECORDED),
    #
    (_FLOWING, _In.TRIGGERED, _Is.NEWER): (_Do.SNAPSHOT,),
    (_ALIGNING, _In.TIME_PASSED, _Is.ANY): (_Do.OVERTAKE,),
    (_ALIGNING, _In.GIVEN_UP, _Is.SAME): (_Do.ABORT_GIVEN_UP,),
    (_RECORDING, _In.GIVEN_UP, _Is.SAME): (_Do.ABORT_GIVEN_UP,),
    (_ALIGNING, _In.TOO_MUCH_BUFFERED, _Is.ANY): (_Do.ABORT_TOO_MUCH,),
    (_RECORDING, _In.TOO_MUCH_BUFFERED, _Is.ANY): (_Do.ABORT_TOO_MUCH,),
    #
    # Tasks downstream that got the barrier of such a checkpoint from others would wait for this task's.
    (_FLOWING, _In.EXPIRED, _Is.NEWER): (_Do.REFUSE_GIVEN_UP,),
    (_ALIGNING, _In.EXPIRED, _Is.OLDER): (_Do.REFUSE_GIVEN_UP,),
    (_ALIGNING, _In.EXPIRED, _Is.SAME): _SUBSUME,
    (_ALIGNING, _In.EXPIRED, _Is.NEWER): (*_SUBSUME, _Do.REFUSE_GIVEN_UP),
    (_RECORDING, _In.EXPIRED, _Is.NEWER): (*_SUBSUME, _Do.REFUSE_GIVEN_UP),
}


def steps_for(state: AlignmentState, event: AlignmentInput, relation: Relation) -> tuple[Step, ...]:
    """The steps of the row for an event, none if there is no row."""
    return TABLE.get((state, event, relation)) or TABLE.get((state, event, Relation.ANY), ())
