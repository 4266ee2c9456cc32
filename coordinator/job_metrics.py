"""The newest metrics of every subtask of a job, and how fast they change."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.ids import Attempt, SubtaskId
from ..protocol.task_metrics import ProcessMetrics, TaskMetrics, TaskRates

_COUNTS = ("records_in", "records_out", "bytes_in", "bytes_out", "busy_ms", "backpressured_ms", "idle_ms")


@dataclass(frozen=True, slots=True)
class _Sample:
    metrics: TaskMetrics
    rates: TaskRates
    taken_ms: int


class JobMetrics:
    """What the subtasks of the current attempt said last.

    Changed by the coordinator's thread; what is read may be read by any.
    """

    def __init__(self) -> None:
        self.url = ""
        """Address of the page that shows them to Prometheus; empty where there is none."""
        self._attempt = Attempt(0)
        self._samples: dict[SubtaskId, _Sample] = {}
        self._places: dict[SubtaskId, tuple[str, int]] = {}

    def begin(self, attempt: Attempt) -> None:
        """A new attempt starts: all counts begin again at 0, and older ones are not taken any more."""
        self._attempt, self._samples, self._places = attempt, {}, {}

    def update(self, taken: ProcessMetrics, taken_ms: int) -> None:
        """Take what a process said.

        Args:
            taken_ms: When, in milliseconds since the Unix epoch.
        """
        if taken.attempt != self._attempt:
            return
        for subtask, metrics in taken.subtasks.items():
            self._places[subtask] = (taken.host, taken.process_id)
            self._take(subtask, metrics, taken_ms)

    def ended(self, attempt: Attempt, subtask: SubtaskId, metrics: TaskMetrics, taken_ms: int) -> None:
        """Take the last metrics of a subtask that has finished: from now on it does nothing."""
        if attempt == self._attempt:
            self._samples[subtask] = _Sample(metrics, TaskRates(), taken_ms)

    def of(self, subtask: SubtaskId) -> tuple[TaskMetrics, TaskRates, int]:
        """The newest metrics of a subtask, its rates, and when they were taken.

        Rates are those between the last two samples of the attempt. Everything is 0 as long as the subtask
        has said nothing.
        """
        sample = self._samples.get(subtask)
        if sample is None:
            return TaskMetrics(), TaskRates(), 0
        return sample.metrics, sample.rates, sample.taken_ms

    def place_of(self, subtask: SubtaskId) -> tuple[str, int]:
        """Host name and process id of a subtask; an empty text and 0 as long as it has said nothing."""
        return self._places.get(subtask, ("", 0))

    def _take(self, subtask: SubtaskId, metrics: TaskMetrics, taken_ms: int) -> None:
        last = self._samples.get(subtask)
        rates = TaskRates() if last is None else _rates(last.metrics, metrics)
        self._samples[subtask] = _Sample(metrics, rates, taken_ms)


def _rates(before: TaskMetrics, after: TaskMetrics) -> TaskRates:
    """Differences per second of the subtask's own time, in which it was busy, backpressured or idle."""
    grown = {name: getattr(after, name) - getattr(before, name) for name in _COUNTS}
    elapsed_ms = grown["busy_ms"] + grown["backpressured_ms"] + grown["idle_ms"]
    if elapsed_ms <= 0:
        return TaskRates()
    return TaskRates(**{name: value * 1_000 / elapsed_ms for name, value in grown.items()})
