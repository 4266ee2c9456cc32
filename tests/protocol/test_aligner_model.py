"""The aligner against a model of its channels: random barriers, markers, records and ends, in any order.

The model knows what a consistent cut is: when the snapshot of a checkpoint is taken, every open
channel has delivered its barrier and not a single record behind it.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tidegate.protocol.checkpoints.alignment import (
    AbortCheckpoint,
    AlignmentCommand,
    AlignmentEvent,
    BarrierAligner,
    BarrierReceived,
    BarrierTracker,
    BlockChannel,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointTriggered,
    ResumeChannels,
    TakeSnapshot,
)
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import CheckpointId

CHANNELS = st.integers(min_value=0, max_value=3)
STEPS = st.integers(min_value=1, max_value=2)


class Channel:
    """What one channel has delivered."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_blocked = False
        self.records = 0
        self.newest_id = 0
        self.records_at_barrier: dict[int, int] = {}


class AlignerModel(RuleBasedStateMachine):
    """Channels deliver ids in ascending order, with gaps where the coordinator gave up before."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.decided: set[int] = set()
        self.first_barrier_ms: dict[int, int] = {}

    @initialize(count=st.integers(min_value=1, max_value=4))
    def start(self, count: int) -> None:
        self.channels = [Channel() for _ in range(count)]
        self.aligner = BarrierAligner(count)

    def channel(self, index: int) -> Channel | None:
        """The channel, if it may deliver something now."""
        channel = self.channels[index % len(self.channels)]
        return channel if channel.is_open and not channel.is_blocked else None

    def handle(self, event: AlignmentEvent) -> None:
        self.now_ms += 1
        for command in self.aligner.handle(event, self.now_ms):
            self.perform(command)
        self.aligner.validate()

    def perform(self, command: AlignmentCommand) -> None:
        if isinstance(command, BlockChannel):
            self.channels[command.channel].is_blocked = True
        elif isinstance(command, ResumeChannels):
            for index in command.channels:
                assert self.channels[index].is_blocked
                self.channels[index].is_blocked = False
        elif isinstance(command, TakeSnapshot):
            self.snapshot(command)
        else:
            self.decide(command.checkpoint_id)

    def decide(self, checkpoint_id: int) -> None:
        assert checkpoint_id > max(self.decided, default=0), "decided twice, or out of order"
        self.decided.add(checkpoint_id)

    def snapshot(self, command: TakeSnapshot) -> None:
        checkpoint_id = command.barrier.checkpoint_id
        self.decide(checkpoint_id)
        for channel in self.channels:
            if channel.is_open:
                assert channel.records_at_barrier.get(checkpoint_id) == channel.records
        assert command.started_ms == self.first_barrier_ms.get(checkpoint_id, self.now_ms)

    @rule(index=CHANNELS)
    def record(self, index: int) -> None:
        channel = self.channel(index)
        if channel is not None:
            channel.records += 1

    @rule(index=CHANNELS, step=STEPS)
    def barrier(self, index: int, step: int) -> None:
        channel = self.channel(index)
        if channel is None:
            return
        channel.newest_id += step
        channel.records_at_barrier[channel.newest_id] = channel.records
        self.first_barrier_ms.setdefault(channel.newest_id, self.now_ms + 1)
        barrier = CheckpointBarrier(CheckpointId(channel.newest_id), 0)
        self.handle(BarrierReceived(index % len(self.channels), barrier))

    @rule(index=CHANNELS, step=STEPS)
    def cancel_marker(self, index: int, step: int) -> None:
        channel = self.channel(index)
        if channel is not None:
            channel.newest_id += step
            marker = CancelMarkerReceived(index % len(self.channels), CheckpointId(channel.newest_id))
            self.handle(marker)

    @rule(index=CHANNELS)
    def end(self, index: int) -> None:
        channel = self.channel(index)
        if channel is not None:
            channel.is_open = False
            self.handle(ChannelEnded(index % len(self.channels)))

    @rule(checkpoint_id=st.integers(min_value=1, max_value=20))
    def trigger(self, checkpoint_id: int) -> None:
        before = set(self.decided)
        self.handle(CheckpointTriggered(CheckpointBarrier(CheckpointId(checkpoint_id), 0)))
        if any(channel.is_open for channel in self.channels):
            assert self.decided == before
        else:
            assert checkpoint_id <= max(self.decided)

    @invariant()
    def blocked_are_exactly_the_channels_that_delivered_the_pending_barrier(self) -> None:
        last = max(self.decided, default=0)
        pending = max((known for known in self.first_barrier_ms if known > last), default=None)
        for channel in self.channels:
            delivered = pending in channel.records_at_barrier
            assert channel.is_blocked == (channel.is_open and delivered)

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        still_open = [channel for channel in self.channels if channel.is_open]
        assert not still_open or any(not channel.is_blocked for channel in still_open)

    @invariant()
    def the_last_decision_is_known(self) -> None:
        assert self.aligner.last_decided == max(self.decided, default=-1)


class TrackerModel(AlignerModel):
    """Without alignment: the barrier must have come on every channel, but records behind it too."""

    @initialize(count=st.integers(min_value=1, max_value=4))
    def start(self, count: int) -> None:
        self.channels = [Channel() for _ in range(count)]
        self.aligner = BarrierTracker(count)  # type: ignore[assignment]

    def snapshot(self, command: TakeSnapshot) -> None:
        checkpoint_id = command.barrier.checkpoint_id
        self.decide(checkpoint_id)
        for channel in self.channels:
            assert not channel.is_open or checkpoint_id in channel.records_at_barrier

    def perform(self, command: AlignmentCommand) -> None:
        assert isinstance(command, (TakeSnapshot, AbortCheckpoint)), "at-least-once never blocks"
        super().perform(command)

    @invariant()
    def blocked_are_exactly_the_channels_that_delivered_the_pending_barrier(self) -> None:
        assert not any(channel.is_blocked for channel in self.channels)

    @precondition(lambda self: len(self.channels) > 1)
    @invariant()
    def nothing_complete_waits(self) -> None:
        last = max(self.decided, default=0)
        still_open = [channel for channel in self.channels if channel.is_open]
        for checkpoint_id in self.first_barrier_ms:
            complete = all(checkpoint_id in channel.records_at_barrier for channel in still_open)
            assert checkpoint_id <= last or not complete


AlignerModel.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TrackerModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestAlignerModel = AlignerModel.TestCase
TestTrackerModel = TrackerModel.TestCase
