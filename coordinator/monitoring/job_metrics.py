"""The newest metrics of every subtask of a job, and how fast they change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...protocol.ids import Attempt, SubtaskId
from ...protocol.task_metrics import ProcessMetrics, TaskMetrics, TaskRates

_COUNTS = ("records_in", "records_out", "bytes_in", "bytes_out", "busy_ms", "backpressured_ms", "idle_ms")


@dataclass(frozen=True, slots=True)
class SubtaskSample:
    """What a subtask reported last.

    Attributes:
        metrics: Its counts since the start of the attempt.
        rates: Those between its last two reports of the attempt.
        taken_ms: When it was taken, in milliseconds since the Unix epoch.
        host: Where it runs; empty as long as its process has not reported.
        process_id: The id of that process, or 0.
    """

    metrics: TaskMetrics = field(default_factory=TaskMetrics)
    rates: TaskRates = field(default_factory=TaskRates)
    taken_ms: int = 0
    host: str = ""
    process_id: int = 0


_NOTHING = SubtaskSample()


class JobMetrics:
    """What the subtasks of the current attempt said last.

    Changed by the coordinator's thread; what is read may be read by any.
    """

    def __init__(self) -> None:
        self.url = ""
        """Address of the page that shows them to Prometheus; empty where there is none."""
        self._attempt = Attempt(0)
        self._samples: dict[SubtaskId, SubtaskSample] = {}

    def begin(self, attempt: Attempt) -> None:
        """A new attempt starts: all counts begin again at 0, and older ones are not taken any more."""
        self._attempt, self._samples = attempt, {}

    def update(self, taken: ProcessMetrics, taken_ms: int) -> None:
        """Take what a process said.

        Args:
            taken_ms: When, in milliseconds since the Unix epoch.
        """
        if taken.attempt != self._attempt:
            return
        for subtask, metrics in taken.subtasks.items():
            last = self._samples.get(subtask)
            rates = _NOTHING.rates if last is None else _rates(last.metrics, metrics)
            self._samples[subtask] = SubtaskSample(metrics, rates, taken_ms, taken.host, taken.process_id)

    def ended(self, attempt: Attempt, subtask: SubtaskId, metrics: TaskMetrics, taken_ms: int) -> None:
        """Take the last metrics of a subtask that has finished: from now on it does nothing."""
        if attempt == self._attempt:
            last = self.of(subtask)
            self._samples[subtask] = replace(last, metrics=metrics, rates=TaskRates(), taken_ms=taken_ms)

    def of(self, subtask: SubtaskId) -> SubtaskSample:
        """What a subtask reported last; everything is 0 or empty before its first report."""
        return self._samples.get(subtask, _NOTHING)


def _rates(before: TaskMetrics, after: TaskMetrics) -> TaskRates:
    """Differences per second of the subtask's own time, in which it was busy, backpressured or idle."""
    grown = {name: getattr(after, name) - getattr(before, name) for name in _COUNTS}
    elapsed_ms = grown["busy_ms"] + grown["backpressured_ms"] + grown["idle_ms"]
    if elapsed_ms <= 0:
        return TaskRates()
    return TaskRates(**{name: value * 1_000 / elapsed_ms for name, value in grown.items()})
