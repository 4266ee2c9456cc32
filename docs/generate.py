"""Writes `docs/protocol.md`: the state diagrams of the protocol, drawn from the code that runs.

The machines are tables, and the page is written from them. What commands come back in alignment is drawn by
performing one example of every kind of event. A test compares the committed page with what this script
writes.

Run it with `make docs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tidegate.common.job_status import JobStatus
from tidegate.protocol import spill_state, task_life
from tidegate.protocol.checkpoints import alignment
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.alignment_table import TABLE
from tidegate.protocol.checkpoints.checkpoint_table import CHECKPOINT_ACTIONS, COORDINATOR_TABLE, NOT_DUE_IN
from tidegate.protocol.checkpoints.pending_checkpoint import CHECKPOINT_TRANSITIONS, CheckpointState
from tidegate.protocol.checkpoints.tracking import TRACKING_TABLE
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.job import TRANSITIONS
from tidegate.protocol.job_takeover import TAKEOVER_TRANSITIONS, TakeoverStep
from tidegate.protocol.job_tasks import PHASES, TASKS_TRANSITIONS, TasksPhase
from tidegate.protocol.rescale import RESCALE_TRANSITIONS, RescalePhase
from tidegate.protocol.spill_state import SpillState
from tidegate.protocol.task_life import TaskLifeEvent, TaskPhase

PAGE = Path(__file__).parent / "protocol.md"


@dataclass(frozen=True)
class Arrow:
    """One transition of a diagram."""

    source: str
    target: str
    event: str
    commands: tuple[str, ...] = ()


def diagram(arrows: Iterable[Arrow], first: str, last: Sequence[str] = ()) -> str:
    """A Mermaid state diagram; a label reads `event / commands`."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    for arrow in arrows:
        label = arrow.event + (f" / {', '.join(arrow.commands)}" if arrow.commands else "")
        lines.append(f"    {arrow.source} --> {arrow.target}: {label}")
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join([*lines, "```"])


# ---------------------------------------------------------------- tables


def joined(steps: Iterable[Enum]) -> str:
    """The steps of a row."""
    return "; ".join(str(step.value) for step in steps)


def table_arrows(table: Mapping[tuple[Enum, Enum], Enum]) -> list[Arrow]:
    """The table of a life cycle."""
    return [Arrow(state.name, target.name, event.value) for (state, event), target in table.items()]


def task_arrows() -> list[Arrow]:
    """The table of the task's life cycle, without what may happen in every phase."""
    anywhere = (TaskLifeEvent.CANCEL_REQUESTED, TaskLifeEvent.FAILED)
    table = {edge: target for edge, target in task_life.TRANSITIONS.items() if edge[1] not in anywhere}
    return table_arrows(table)


# ---------------------------------------------------------------- alignment


def alignment_rows() -> str:
    """The table of alignment."""
    lines = ["| task is | event | its checkpoint is | steps |", "|---|---|---|---|"]
    for (state, event, relation), steps in TABLE.items():
        lines.append(f"| {state.value} | {event.value} | {relation.value} | {joined(steps)} |")
    return "\n".join(lines)


def tracking_rows() -> str:
    """The table of tracking."""
    lines = ["| event | its checkpoint is | steps |", "|---|---|---|"]
    for (event, tracking), steps in TRACKING_TABLE.items():
        lines.append(f"| {event.value} | {tracking.value} | {joined(steps)} |")
    return "\n".join(lines)


def _barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0)


def _barriers(checkpoint_id: int, *channels: int) -> list[alignment.AlignmentEvent]:
    return [alignment.BarrierReceived(channel, _barrier(checkpoint_id)) for channel in channels]


def _oldest_pending(checkpoint_id: int) -> alignment.AlignmentEvent:
    oldest = CheckpointId(checkpoint_id)
    return alignment.BarrierAnnounced(1, CheckpointBarrier(oldest, 0, oldest_pending=oldest))


def _cancel(checkpoint_id: int, channel: int) -> alignment.AlignmentEvent:
    return alignment.CancelMarkerReceived(channel, CheckpointId(checkpoint_id))


CHANNELS = 3
# What came before, the event, and what the event is called. Checkpoint 5 is the one at hand.
ALIGNMENT_EXAMPLES: list[tuple[list[alignment.AlignmentEvent], alignment.AlignmentEvent, str]] = [
    ([], _barriers(5, 0)[0], "first barrier"),
    (
        [alignment.ChannelEnded(1), alignment.ChannelEnded(2)],
        _barriers(5, 0)[0],
        "barrier of the only open channel",
    ),
    (_barriers(5, 0, 1, 2), _barriers(4, 0)[0], "barrier of a decided checkpoint"),
    ([], _cancel(5, 0), "cancel marker"),
    ([], alignment.ChannelEnded(0), "end of a channel"),
    (_barriers(5, 0), alignment.CheckpointGivenUp(CheckpointId(5)), "given up by the coordinator"),
    (
        [alignment.ChannelEnded(channel) for channel in range(CHANNELS)],
        alignment.CheckpointTriggered(_barrier(5)),
        "direct trigger, all channels ended",
    ),
    (_barriers(5, 0), _barriers(5, 1)[0], "barrier, others missing"),
    (_barriers(5, 0, 1), _barriers(5, 2)[0], "last missing barrier"),
    (_barriers(5, 0), _barriers(6, 1)[0], "barrier of a newer checkpoint"),
    (_barriers(5, 0), _barriers(4, 1)[0], "barrier of an older checkpoint"),
    (_barriers(5, 0), _oldest_pending(6), "a barrier arrives that says it is over"),
    ([], _oldest_pending(6), "a barrier arrives that says others are over"),
    (_barriers(5, 0), _cancel(5, 1), "cancel marker"),
    (_barriers(5, 0), _cancel(6, 1), "cancel marker of a newer checkpoint"),
    (_barriers(5, 0), alignment.ChannelEnded(1), "end of a channel, others missing"),
    (_barriers(5, 0, 1), alignment.ChannelEnded(2), "end of the last missing channel"),
]


def alignment_arrows() -> list[Arrow]:
    """What the aligner of a task with three channels does with each kind of event."""
    arrows = []
    for before, event, name in ALIGNMENT_EXAMPLES:
        aligner = alignment.BarrierAligner(CHANNELS)
        blocked: set[int] = set()
        for earlier in before:
            _track(blocked, aligner.handle(earlier, 0))
        source = _alignment_state(blocked)
        commands = aligner.handle(event, 0)
        _track(blocked, commands)
        names = tuple(_alignment_command(command) for command in commands)
        arrows.append(Arrow(source, _alignment_state(blocked), name, names))
    return arrows


def _track(blocked: set[int], commands: list[alignment.AlignmentCommand]) -> None:
    for command in commands:
        if isinstance(command, alignment.BlockChannel):
            blocked.add(command.channel)
        elif isinstance(command, alignment.ResumeChannels):
            blocked.difference_update(command.channels)


def _alignment_state(blocked: set[int]) -> str:
    # With three channels some channel is blocked exactly while a checkpoint is being aligned.
    return "Aligning" if blocked else "Flowing"


def _alignment_command(command: alignment.AlignmentCommand) -> str:
    name = type(command).__name__
    if isinstance(command, alignment.AbortCheckpoint):
        name += " older" if command.reason is alignment.AlignmentAbortReason.SUBSUMED else ""
    return name


# ---------------------------------------------------------------- overtaking

TIMEOUT_MS = 50


def _announced(
    checkpoint_id: int, *channels: int, timeout_ms: int = TIMEOUT_MS
) -> list[alignment.AlignmentEvent]:
    barrier = replace(_barrier(checkpoint_id), aligned_timeout_ms=timeout_ms)
    return [alignment.BarrierAnnounced(channel, barrier) for channel in channels]


# What came before, the event, the time of the event, and what the event is called.
OVERTAKING_EXAMPLES: list[tuple[list[alignment.AlignmentEvent], alignment.AlignmentEvent, int, str]] = [
    ([], _announced(5, 0)[0], 0, "announced, in time"),
    ([], _announced(5, 0)[0], TIMEOUT_MS, "announced, too late or without a timeout"),
    (_announced(5, 0), _barriers(5, 0)[0], 0, "barrier, others missing"),
    ([*_announced(5, 0, 1, 2), *_barriers(5, 0, 1)], _barriers(5, 2)[0], 0, "last missing barrier"),
    (
        [*_announced(5, 0), *_barriers(5, 0)],
        alignment.AlignmentTimePassed(),
        TIMEOUT_MS,
        "timeout, barriers still under way",
    ),
    (
        [*_announced(5, 0, 1, 2), *_barriers(5, 0)],
        alignment.AlignmentTimePassed(),
        TIMEOUT_MS,
        "timeout, every barrier announced",
    ),
    (_announced(5, 0), _announced(5, 1, timeout_ms=0)[0], 0, "announced by a task that has switched"),
    (_announced(5, 0, timeout_ms=0), _announced(5, 1)[0], 0, "announced, others missing"),
    (_announced(5, 0, 1, timeout_ms=0), _announced(5, 2)[0], 0, "last missing announced"),
    (_announced(5, 0, 1, timeout_ms=0), alignment.EndAnnounced(2), 0, "end of the last missing announced"),
    (_announced(5, 0, timeout_ms=0), _announced(6, 0)[0], 0, "newer one announced"),
    (
        _announced(5, 0, timeout_ms=0),
        alignment.CancelMarkerAnnounced(1, CheckpointId(5)),
        0,
        "cancel marker announced",
    ),
    (_announced(5, 0, timeout_ms=0), alignment.CheckpointGivenUp(CheckpointId(5)), 0, "given up"),
    (_announced(5, 0), alignment.CheckpointGivenUp(CheckpointId(5)), 0, "given up"),
]


def overtaking_arrows() -> list[Arrow]:
    """What the aligner does with barriers that may overtake."""
    arrows = []
    for before, event, now_ms, name in OVERTAKING_EXAMPLES:
        aligner = alignment.BarrierAligner(CHANNELS)
        state = "Flowing"
        for earlier in before:
            state = _overtaking_state(state, aligner, aligner.handle(earlier, 0))
        commands = aligner.handle(event, now_ms)
        names = tuple(_alignment_command(command) for command in commands)
        arrows.append(Arrow(state, _overtaking_state(state, aligner, commands), name, names))
    return arrows


def _overtaking_state(
    state: str, aligner: alignment.BarrierAligner, commands: list[alignment.AlignmentCommand]
) -> str:
    if not aligner.is_aligning:
        return "Flowing"
    if any(isinstance(command, alignment.RecordChannels) for command in commands):
        return "Recording"
    is_new = any(isinstance(command, alignment.AbortCheckpoint) for command in commands)
    return "Aligning" if state == "Flowing" or is_new else state


# ---------------------------------------------------------------- checkpoint


def checkpoint_arrows() -> list[Arrow]:
    """The table of a checkpoint, with its trigger."""
    trigger = Arrow("REQUESTED", CheckpointState.PENDING.name, "trigger")
    return [trigger, *table_arrows(CHECKPOINT_TRANSITIONS)]


def checkpoint_rows() -> str:
    """What the coordinator does when something happens to a checkpoint."""
    lines = ["| event | kind of snapshot | actions |", "|---|---|---|"]
    for (step, kind), actions in CHECKPOINT_ACTIONS.items():
        rows = [row_kind for row_step, row_kind in CHECKPOINT_ACTIONS if row_step is step]
        of_kind = ("any" if len(rows) == 1 else "any other") if kind is None else kind.value
        lines.append(f"| {step.value} | {of_kind} | {joined(actions)} |")
    return "\n".join(lines)


def coordinator_rows() -> str:
    """What the coordinator does about other events."""
    lines = ["| state of the job | event | actions |", "|---|---|---|"]
    for (state, event), actions in COORDINATOR_TABLE.items():
        lines.append(f"| {'any' if state is None else state.value} | {event.value} | {joined(actions)} |")
    return "\n".join(lines)


def not_due_rows() -> str:
    """The states in which nothing is triggered."""
    lines = ["| state of the job | why nothing is triggered |", "|---|---|"]
    return "\n".join([*lines, *(f"| {state.value} | {why.value} |" for state, why in NOT_DUE_IN.items())])


# ---------------------------------------------------------------- page


def page() -> str:
    """The whole text of `docs/protocol.md`."""
    ended = [status.name for status in JobStatus if status.is_globally_terminal_state()]
    return PAGE_TEXT.format(
        job=diagram(table_arrows(TRANSITIONS), JobStatus.CREATED.name, ended),
        task=diagram(task_arrows(), TaskPhase.CREATED.name, [TaskPhase.FINISHED.name]),
        spill=diagram(table_arrows(spill_state.TRANSITIONS), SpillState.NONE.name),
        rows=alignment_rows(),
        tracking=tracking_rows(),
        tasks=diagram(table_arrows(TASKS_TRANSITIONS), TasksPhase.WAITING.name, [TasksPhase.ENDING.name]),
        phases=_phases(),
        rescale=diagram(
            table_arrows(RESCALE_TRANSITIONS),
            RescalePhase.PREPARING.name,
            [phase.name for phase in RescalePhase if phase.is_over],
        ),
        alignment=diagram(alignment_arrows(), "Flowing"),
        overtaking=diagram(overtaking_arrows(), "Flowing"),
        checkpoint=diagram(checkpoint_arrows(), "REQUESTED", ["COMPLETED", "ABORTED"]),
        checkpoint_rows=checkpoint_rows(),
        coordinator_rows=coordinator_rows(),
        not_due=not_due_rows(),
        takeover=diagram(
            table_arrows(TAKEOVER_TRANSITIONS),
            TakeoverStep.FIND_FIRST_ID.name,
            [TakeoverStep.DONE.name, TakeoverStep.FENCED.name, TakeoverStep.INCOMPLETE.name],
        ),
        steps=_steps(),
        reasons=_reasons(),
    )


def _phases() -> str:
    lines = ["| status of the job | its tasks |", "|---|---|"]
    for status, phases in PHASES.items():
        what = ", or ".join(phase.value for phase in TasksPhase if phase in phases)
        lines.append(f"| {status.name} | {what} |")
    return "\n".join(lines)


def _steps() -> str:
    lines = ["| step | what the coordinator does |", "|---|---|"]
    return "\n".join([*lines, *(f"| {step.name} | {step.value} |" for step in TakeoverStep)])


def _reasons() -> str:
    lines = ["| reason | said by | counts against the tolerable failures |", "|---|---|---|"]
    for reason in AbortReason:
        who = "nobody: it is not triggered" if reason.is_pre_flight else "the coordinator"
        who = "a task" if reason.is_decline else who
        lines.append(f"| {reason.value} | {who} | {'yes' if reason.counts_as_failure else 'no'} |")
    return "\n".join(lines)


PAGE_TEXT = """\
# The protocol's machines

This page is written by `docs/generate.py` (`make docs`) from the code itself; change the code, not the
page. Each machine takes one event and answers with commands; none of them reads a clock or does I/O.
The scripts in `tests/golden/` show the same machines step by step. How the parts work together is told
in [architecture.md](architecture.md).

## The life of a job

The table is in `protocol/job.py`. An event that no arrow shows for a status is a bug in the caller and
raises `InvalidTransition`.

{job}

## The tasks of a job

The table is in `protocol/job_tasks.py`. It tells apart what a restarting job does: its tasks are stopped,
then the next attempt waits for its time, then it is deployed.

{tasks}

{phases}

## A rescale

The table is in `protocol/rescale.py`. An event that no arrow shows for a phase has no effect on the rescale.

{rescale}

## The takeover of a job by a new coordinator

The table is in `protocol/job_takeover.py`, with the reason for each order. Each step reads or writes
checkpoint storage once. See [ADR 009](adr/009-coordinator-fence.md).

{takeover}

{steps}

## The life of a task

The table is in `protocol/task_life.py`. A task may be cancelled in every phase before its end, and it may
fail in every phase.

{task}

## Barrier alignment of one task (exactly-once)

`BarrierAligner` in `protocol/checkpoints/alignment.py`. A label reads: event / commands. A task is *flowing*
while it takes records from every open channel. It is *aligning* while the channels that delivered the barrier
of a checkpoint are blocked, so that no record behind the barrier gets into the snapshot. For a task
with a single open channel every barrier is the last missing one.

{alignment}

The diagram shows examples; the machine is this table, `TABLE` in `protocol/checkpoints/alignment_table.py`.
What it does not list changes nothing.

{rows}

## Barrier tracking of one task (at-least-once)

`BarrierTracker` counts barriers and blocks no channel; it may track several checkpoints at once. The table is
in `protocol/checkpoints/tracking.py`. What it does not list changes nothing.

{tracking}

## Barriers that overtake

The machine of exactly-once alignment where a barrier may overtake: at once, or when it has tried to align for
a time. A barrier is *announced* when it has arrived with everything before it, and received when its turn
comes. A task is *recording* while it processes records that belong to a snapshot that it has taken already.
See [unaligned-checkpoints.md](unaligned-checkpoints.md).

{overtaking}

## Where the entries of LMDB state are

The table is in `protocol/spill_state.py`, for one table of state in one subtask.

{spill}

## The life of a checkpoint

The table is in `protocol/checkpoints/pending_checkpoint.py`. A checkpoint exists from the moment at which its
manifest is in storage; everything before can be given up without a trace.

{checkpoint}

`CheckpointCoordinator` in `protocol/checkpoints/checkpoint.py` performs the actions of these rows in order.
The tables are in `protocol/checkpoints/checkpoint_table.py`. What they do not list changes nothing.

{checkpoint_rows}

## When checkpoints are triggered

The other events of the coordinator. A row for a certain state takes precedence over one for any state.

{coordinator_rows}

{not_due}

Why a checkpoint is not triggered or is aborted, and whether that may fail the job:

{reasons}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
