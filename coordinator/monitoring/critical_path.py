"""What made a checkpoint as long as it was: the one chain of waits and work with nothing beside it.

A checkpoint is complete when the last subtask has acknowledged, so its length is explained from there
backwards: the last subtask stored its state, after it took its snapshot, after the last of its barriers had
its turn, which came from one subtask upstream, which had waited for one of its own barriers, and so on to a
source and to the trigger. Forwards from the last acknowledgement come the manifest, the notifications and the
deletion of older checkpoints. Whatever else happened, happened beside this path: making it faster would not
have ended the checkpoint sooner.

Source: the critical path method (Kelley and Walker 1959), on a graph in which every event but the first has
exactly one predecessor that it waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.checkpoints.checkpoint_events import SubtaskMetrics
from ...protocol.ids import SubtaskId
from ...telemetry.spans import (
    ACKNOWLEDGE,
    ALIGNMENT,
    ASYNC_PART,
    CLEAN_UP,
    COMMIT,
    NOTIFY,
    PREPARE,
    START_DELAY,
    SYNC_PART,
    UPLOAD,
)
from .statistics import CheckpointOutcome, CheckpointStatistics

_NOTICEABLE_MS = 0.5
"""A share of a wait below this is not worth a word."""

_SHORTEST_MS = 0.05
_SHORTEST_SHARE = 0.0005
"""A step below these, in itself or of the whole, is part of the one behind it."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step on the way; milliseconds from the trigger on.

    Attributes:
        name: Of the span that this is (a part of), see `telemetry.spans`.
        subtask: Where it happened; `None` for the coordinator.
        subtask_name: `operator (1/2)`, or `coordinator`.
        cause: What took the time, in words.
    """

    name: str
    subtask: SubtaskId | None
    subtask_name: str
    start_ms: float
    duration_ms: float
    cause: str


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The steps in their order, each beginning where the one before ends.

    Attributes:
        cause: One sentence on the longest step: the operator and the reason. Empty without steps.
    """

    steps: tuple[PathStep, ...]
    cause: str

    @property
    def longest(self) -> PathStep | None:
        """The step that took most of the time."""
        return max(self.steps, key=lambda step: step.duration_ms, default=None)


class _Path:
    """The steps so far; time goes on from one to the next."""

    def __init__(self, checkpoint: CheckpointStatistics) -> None:
        self.checkpoint = checkpoint
        self.steps: list[PathStep] = []
        self.now_ms = 0.0
        self._shortest_ms = max(_SHORTEST_MS, _SHORTEST_SHARE * checkpoint.duration_ms)

    def until(self, end_ms: float, name: str, subtask: SubtaskId | None, cause: str) -> None:
        """Add a step, unless it takes no time to speak of. Clocks that disagree never make time go back."""
        if end_ms - self.now_ms < self._shortest_ms:
            return
        where = "coordinator" if subtask is None else self.checkpoint.subtask_name(subtask)
        self.steps.append(PathStep(name, subtask, where, self.now_ms, end_ms - self.now_ms, cause))
        self.now_ms = end_ms

    def for_ms(self, duration_ms: float, name: str, subtask: SubtaskId, cause: str) -> None:
        """Add a step of a length; not beyond the acknowledgement, which came later."""
        end_ms = self.now_ms + duration_ms
        acknowledged_ms = self.checkpoint.subtasks[subtask].acknowledged_ms
        self.until(end_ms if acknowledged_ms is None else min(end_ms, acknowledged_ms), name, subtask, cause)


def critical_path(checkpoint: CheckpointStatistics) -> CriticalPath:
    """The critical path of a checkpoint, as far as it got.

    Args:
        checkpoint: In progress, completed or aborted; of the last two the whole way is known.

    Returns:
        No steps where no subtask has acknowledged, or where the history was written by a version that did
        not know when.
    """
    acknowledged = {
        subtask: metrics.acknowledged_ms
        for subtask, metrics in checkpoint.subtasks.items()
        if metrics.acknowledged_ms is not None and metrics.taken_ms is not None
    }
    if not acknowledged:
        return CriticalPath((), "")
    path = _Path(checkpoint)
    last = max(acknowledged, key=lambda subtask: (acknowledged[subtask], subtask))
    for subtask in _way_to(last, checkpoint.subtasks):
        _add_barrier(path, subtask)
    _add_snapshot(path, last)
    if checkpoint.outcome is CheckpointOutcome.COMPLETED:
        _add_completion(path, checkpoint)
    longest = max(path.steps, key=lambda step: step.duration_ms, default=None)
    return CriticalPath(tuple(path.steps), "" if longest is None else _sentence(longest))


def _sentence(step: PathStep) -> str:
    """The cause of a step, which names where that was."""
    return step.cause if step.subtask_name in step.cause else f"{step.subtask_name}: {step.cause}"


def _way_to(last: SubtaskId, known: Mapping[SubtaskId, SubtaskMetrics]) -> list[SubtaskId]:
    """From a source to the last subtask, along the barriers that were waited for."""
    way = [last]
    upstream = known[last].upstream
    while upstream is not None and upstream in known and upstream not in way:
        way.append(upstream)
        upstream = known[upstream].upstream
    return way[::-1]


def _add_barrier(path: _Path, subtask: SubtaskId) -> None:
    """From the barrier's departure upstream until this subtask passes it on."""
    checkpoint = path.checkpoint
    metrics = checkpoint.subtasks[subtask]
    taken_ms = path.now_ms if metrics.taken_ms is None else metrics.taken_ms
    arrived_ms = taken_ms if metrics.queued_ms < _NOTICEABLE_MS else taken_ms - metrics.queued_ms
    is_aligning = metrics.last_channel >= 0 and metrics.start_delay_ms + _NOTICEABLE_MS < arrived_ms
    name = ALIGNMENT if is_aligning else START_DELAY
    way = _way_words(checkpoint, metrics, arrived_ms - path.now_ms)
    path.until(arrived_ms, name, subtask, way)
    queued_ms = taken_ms - path.now_ms
    path.until(taken_ms, name, subtask, _queue_words(checkpoint, subtask, metrics, queued_ms))
    prepared = f"its operators took {_ms(metrics.prepare_ms)} before they let the barrier pass"
    path.for_ms(metrics.prepare_ms, PREPARE, subtask, prepared)


def _way_words(checkpoint: CheckpointStatistics, metrics: SubtaskMetrics, took_ms: float) -> str:
    if metrics.upstream is None:
        return f"the trigger took {_ms(took_ms)} to arrive"
    sender = checkpoint.subtask_name(metrics.upstream)
    return f"the barrier from {sender} took {_ms(took_ms)} to arrive in channel {metrics.last_channel + 1}"


def _queue_words(
    checkpoint: CheckpointStatistics, subtask: SubtaskId, metrics: SubtaskMetrics, queued_ms: float
) -> str:
    why = _reason(checkpoint, subtask, metrics)
    if metrics.upstream is None:
        return f"the trigger waited {_ms(queued_ms)} for {checkpoint.subtask_name(subtask)}, which {why}"
    return (
        f"waited {_ms(queued_ms)} for channel {metrics.last_channel + 1} of "
        f"{checkpoint.subtask_name(subtask)}, which {why}"
    )


def _reason(checkpoint: CheckpointStatistics, subtask: SubtaskId, metrics: SubtaskMetrics) -> str:
    """What the subtask did while the barrier waited for its turn: most of the time, then the rest."""
    elsewhere_ms = metrics.queued_ms - metrics.busy_ms - metrics.backpressured_ms
    shares = [
        (metrics.busy_ms, "was busy in user code", ""),
        (metrics.backpressured_ms, "was backpressured", ": nothing downstream took its output"),
        (elsewhere_ms, "waited for its thread", _busiest(checkpoint, subtask)),
    ]
    (most_ms, most, detail), (second_ms, second, _), _ = sorted(shares, key=lambda share: -share[0])
    if second_ms < max(_NOTICEABLE_MS, 0.1 * metrics.queued_ms):
        return most + detail
    return f"{most} for {_ms(most_ms)} and {second} for {_ms(second_ms)}{detail}"


def _busiest(checkpoint: CheckpointStatistics, waiting: SubtaskId) -> str:
    """Whom it may have waited for, most likely."""
    others = {one: metrics.worked_ms for one, metrics in checkpoint.subtasks.items() if one != waiting}
    busiest = max(others, key=lambda one: (others[one], one), default=None)
    if busiest is None or others[busiest] < _NOTICEABLE_MS:
        return ""
    return f" (the busiest beside it was {checkpoint.subtask_name(busiest)})"


def _add_snapshot(path: _Path, subtask: SubtaskId) -> None:
    """From the passing on of the barrier until the coordinator has the acknowledgement."""
    metrics = path.checkpoint.subtasks[subtask]
    frozen = "its state was frozen; nothing was processed meanwhile"
    path.for_ms(metrics.sync_ms, SYNC_PART, subtask, f"{frozen} for {_ms(metrics.sync_ms)}")
    waiting_ms = max(0.0, metrics.waiting_ms)
    waited = f"its snapshot waited {_ms(waiting_ms)} for the thread, which stored another one"
    path.for_ms(waiting_ms, ASYNC_PART, subtask, waited)
    encoding_ms = metrics.async_ms - waiting_ms - metrics.upload_ms
    encoded = f"{_size(metrics.size_bytes)} of state took {_ms(encoding_ms)} to encode and to store locally"
    if metrics.persisted_bytes:
        overtaken = _size(metrics.persisted_bytes)
        encoded = (
            f"{encoded}, with {overtaken} of records that the barrier overtook, from the last channel on"
        )
    path.for_ms(encoding_ms, ASYNC_PART, subtask, encoded)
    uploaded = f"{_size(metrics.size_bytes)} took {_ms(metrics.upload_ms)} to write to checkpoint storage"
    path.for_ms(metrics.upload_ms, UPLOAD, subtask, uploaded)
    reported = f"its loop was busy for {_ms(metrics.report_ms)} before it could acknowledge"
    path.for_ms(metrics.report_ms, ACKNOWLEDGE, subtask, reported)
    end_ms = metrics.acknowledged_ms or path.now_ms
    rest_ms = end_ms - path.now_ms
    path.until(end_ms, ACKNOWLEDGE, subtask, f"its acknowledgement took {_ms(rest_ms)} to the coordinator")


def _add_completion(path: _Path, checkpoint: CheckpointStatistics) -> None:
    """From the last acknowledgement on."""
    commit_ms = checkpoint.duration_ms - path.now_ms
    path.until(checkpoint.duration_ms, COMMIT, None, f"the manifest took {_ms(commit_ms)} to write")
    notified_ms = checkpoint.duration_ms + checkpoint.notified_ms
    words = f"the subtasks took {_ms(checkpoint.notified_ms)} to commit what it covers"
    path.until(notified_ms, NOTIFY, None, words)
    cleaned_ms = checkpoint.duration_ms + checkpoint.clean_up_ms
    rest_ms = cleaned_ms - path.now_ms
    path.until(cleaned_ms, CLEAN_UP, None, f"older checkpoints took {_ms(rest_ms)} more to delete")


def step_words(step: PathStep) -> str:
    """A step as one line: its span, where it was, how long it took, and why."""
    return f"{step.name} {_ms(step.duration_ms)}: {_sentence(step)}"


def explain_lines(checkpoint: CheckpointStatistics) -> list[str]:
    """What made a checkpoint as long as it was, as lines of text.

    Args:
        checkpoint: In progress, completed or aborted.

    Returns:
        A heading with the cause; one line per step of the critical path with its start and duration; for a
        checkpoint that did not complete, who has not acknowledged.
    """
    path = critical_path(checkpoint)
    lines = [_heading(checkpoint)]
    if path.cause:
        lines += ["", f"Longest: {path.cause}.", ""]
        width = max(len(step.subtask_name) for step in path.steps)
        names = max(len(step.name) for step in path.steps)
        longest = path.longest
        for step in path.steps:
            mark = ">" if step is longest else " "
            lines.append(
                f"{mark} {_ms(step.start_ms):>9} + {_ms(step.duration_ms):>9}  {step.name:<{names}}  "
                f"{step.subtask_name:<{width}}  {step.cause}"
            )
    else:
        lines.append("Nothing is known of its parts.")
    return lines + _missing_lines(checkpoint)


def _heading(checkpoint: CheckpointStatistics) -> str:
    took = _ms(checkpoint.duration_ms)
    what = f"{checkpoint.kind.value} {checkpoint.checkpoint_id}"
    if checkpoint.outcome is CheckpointOutcome.COMPLETED:
        new, size = _size(checkpoint.new_bytes), _size(checkpoint.size_bytes)
        return f"{what}: completed in {took}, {new} new of {size}"
    if checkpoint.outcome is CheckpointOutcome.ABORTED:
        return f"{what}: aborted after {took}: {checkpoint.reason}"
    return f"{what}: in progress, last acknowledgement after {took}"


def _missing_lines(checkpoint: CheckpointStatistics) -> list[str]:
    if checkpoint.outcome is CheckpointOutcome.COMPLETED or not checkpoint.shape:
        return []
    subtasks = [
        SubtaskId(task_id, index)
        for task_id, task in checkpoint.shape.items()
        for index in range(task.parallelism)
    ]
    missing = [checkpoint.subtask_name(one) for one in subtasks if one not in checkpoint.subtasks]
    if not missing:
        return []
    shown = ", ".join(missing[:10]) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
    return ["", f"{len(missing)} of {len(subtasks)} subtasks have not acknowledged: {shown}"]


def _ms(duration_ms: float) -> str:
    if duration_ms < 999.5:
        return f"{duration_ms:.1f} ms" if duration_ms < 9.95 else f"{duration_ms:.0f} ms"
    return f"{duration_ms / 1_000:.1f} s" if duration_ms < 119_950 else f"{duration_ms / 60_000:.1f} min"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1_023.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1_024
    return f"{size:.1f} GiB"
