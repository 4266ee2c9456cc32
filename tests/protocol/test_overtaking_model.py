"""Overtaking against a model of the channels: what is in the snapshot and what is recorded make one cut.

The model knows every record that was sent ahead of a barrier. When a checkpoint is done, each of them is
either in the state or among the recorded ones, never in both, and no record behind a barrier is in either.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tidegate.protocol.checkpoints.alignment import (
    AbortCheckpoint,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAligner,
    BarrierAnnounced,
    BarrierReceived,
    BlockChannel,
    ChannelEnded,
    CheckpointGivenUp,
    EndAnnounced,
    FinishRecording,
    RecordChannels,
    ResumeChannels,
)
from tidegate.protocol.elements import CheckpointBarrier, EndOfInput
from tidegate.protocol.ids import CheckpointId

CHANNELS = st.integers(min_value=0, max_value=3)
TIMEOUTS = st.sampled_from([None, 0, 0, 3, 10])


class Channel:
    """What was sent and waits, and what was processed; records are numbered from 0."""

    def __init__(self) -> None:
        self.waiting: deque[int | CheckpointBarrier | EndOfInput] = deque()
        self.sent = 0
        self.processed: set[int] = set()
        self.newest_id = 0
        self.sent_before: dict[int, int] = {}
        self.is_closed = False
        self.is_blocked = False
        self.recorded: set[int] | None = None


class OvertakingModel(RuleBasedStateMachine):
    """Barriers are sent by a coordinator with one checkpoint at a time, so a newer one ends an older."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.barrier = CheckpointBarrier(CheckpointId(0), 0)
        self.states: dict[int, list[set[int]]] = {}
        self.recording = 0
        self.done: set[int] = set()
        self.aborted: set[int] = set()

    @initialize(
        count=st.integers(min_value=1, max_value=4), never=st.sampled_from([(), (), (), (0,), (1, 2)])
    )
    def start(self, count: int, never: tuple[int, ...]) -> None:
        self.channels = [Channel() for _ in range(count)]
        self.aligner = BarrierAligner(count, [index for index in never if index < count])

    def handle(self, event: AlignmentEvent) -> None:
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
        elif isinstance(command, RecordChannels):
            self.record(command)
        elif isinstance(command, AbortCheckpoint):
            assert command.checkpoint_id not in self.done | self.aborted
            self.aborted.add(command.checkpoint_id)
            self.stop_recording()
        elif isinstance(command, FinishRecording):
            assert command.checkpoint_id == self.recording
            self.check(command.checkpoint_id)
            self.stop_recording()
        else:
            checkpoint_id = command.barrier.checkpoint_id
            assert checkpoint_id not in self.states, "two snapshots of one checkpoint"
            self.states[checkpoint_id] = [set(channel.processed) for channel in self.channels]
            if checkpoint_id == self.recording:
                assert command.barrier.aligned_timeout_ms == 0, "downstream must hear of the switch"
            else:
                self.check(checkpoint_id)

    def record(self, command: RecordChannels) -> None:
        assert not self.recording
        self.recording = command.checkpoint_id
        for index in command.channels:
            channel = self.channels[index]
            channel.recorded = set()
            for element in channel.waiting:
                if isinstance(element, int):
                    channel.recorded.add(element)
                elif isinstance(element, CheckpointBarrier) and element.checkpoint_id == self.recording:
                    break

    def stop_recording(self) -> None:
        self.recording = 0
        for channel in self.channels:
            channel.recorded = None

    def check(self, checkpoint_id: int) -> None:
        """State and records are exactly what was sent ahead of the barrier, or ever on an ended channel."""
        for channel, state in zip(self.channels, self.states[checkpoint_id]):
            recorded = channel.recorded or set()
            assert not state & recorded, "a record is in the state and recorded"
            assert checkpoint_id in channel.sent_before or channel.is_closed, "the barrier has not come"
            before = channel.sent_before.get(checkpoint_id, channel.sent)
            assert state | recorded == set(range(before))
        self.done.add(checkpoint_id)

    @rule(index=CHANNELS, count=st.integers(min_value=1, max_value=3))
    def send_records(self, index: int, count: int) -> None:
        channel = self.channels[index % len(self.channels)]
        for _ in range(0 if channel.is_closed else count):
            channel.waiting.append(channel.sent)
            if channel.recorded is not None and self.recording not in channel.sent_before:
                channel.recorded.add(channel.sent)
            channel.sent += 1

    @rule(timeout_ms=TIMEOUTS, steps=st.integers(min_value=0, max_value=20), is_forced=st.booleans())
    def trigger(self, timeout_ms: int | None, steps: int, is_forced: bool) -> None:
        self.now_ms += steps
        newest = self.barrier.checkpoint_id
        if newest and newest not in self.done | self.aborted and not is_forced:
            # A timeout of the coordinator, which should be rarer than a checkpoint that ends.
            return
        checkpoint_id = CheckpointId(self.barrier.checkpoint_id + 1)
        self.barrier = CheckpointBarrier(checkpoint_id, self.now_ms, aligned_timeout_ms=timeout_ms)

    @rule(index=CHANNELS)
    def send_barrier(self, index: int) -> None:
        channel = self.channels[index % len(self.channels)]
        newest = self.barrier.checkpoint_id
        if channel.is_closed or channel.newest_id >= newest:
            return
        channel.newest_id = newest
        channel.sent_before[newest] = channel.sent
        channel.waiting.append(self.barrier)
        self.handle(BarrierAnnounced(index % len(self.channels), self.barrier))

    @rule(index=CHANNELS, is_wanted=st.sampled_from([True, False, False, False]))
    def send_end(self, index: int, is_wanted: bool) -> None:
        channel = self.channels[index % len(self.channels)]
        if is_wanted and not channel.is_closed:
            channel.is_closed = True
            channel.waiting.append(EndOfInput())
            self.handle(EndAnnounced(index % len(self.channels)))

    @rule(index=CHANNELS, count=st.integers(min_value=1, max_value=4))
    def process(self, index: int, count: int) -> None:
        index %= len(self.channels)
        channel = self.channels[index]
        for _ in range(count):
            if not channel.waiting or channel.is_blocked:
                return
            element = channel.waiting.popleft()
            if isinstance(element, int):
                channel.processed.add(element)
            elif isinstance(element, CheckpointBarrier):
                self.handle(BarrierReceived(index, element))
            else:
                self.handle(ChannelEnded(index))

    @rule(steps=st.integers(min_value=1, max_value=10))
    def pass_time(self, steps: int) -> None:
        self.now_ms += steps
        self.handle(AlignmentTimePassed())

    @rule(is_wanted=st.sampled_from([True, False, False]))
    def give_up(self, is_wanted: bool) -> None:
        if is_wanted:
            self.handle(CheckpointGivenUp(self.barrier.checkpoint_id))

    @invariant()
    def what_is_due_is_done_when_asked(self) -> None:
        before = set(self.states)
        due_ms = self.aligner.due_ms
        if due_ms is not None and due_ms <= self.now_ms:
            self.handle(AlignmentTimePassed())
            assert set(self.states) > before, "it would be asked again and again"

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        waiting = [channel for channel in self.channels if channel.waiting]
        can_still_come = any(
            not channel.is_closed and channel.newest_id < self.barrier.checkpoint_id
            for channel in self.channels
        )
        assert not waiting or can_still_come or any(not channel.is_blocked for channel in waiting)


OvertakingModel.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestOvertakingModel = OvertakingModel.TestCase
