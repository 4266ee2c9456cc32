"""What a subtask measures of itself: counts per batch, and what its loop's time went to."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from ...operators.chain import OperatorChain
from ...operators.late_records import METRIC as LATE_RECORDS
from ...protocol.task_metrics import MetricScope, TaskMetrics, UserMetric
from ...protocol.watermarks import MIN_WATERMARK_MS
from ..gate import InputGate
from ..input_watermarks import InputWatermarks
from ..output import TaskOutput


class Activity(enum.Enum):
    """What the loop of a task is doing."""

    BUSY = "busy"
    """It works, or an operator waits for the outside world before it takes what there is."""
    BACKPRESSURED = "backpressured"
    """There is input, and no credit to send what it would give."""
    IDLE = "idle"
    """There is nothing to do, or the thread works for another subtask (local shell)."""


_Times = tuple[Activity, int, tuple[int, int, int]]


class TaskTimes:
    """The time since the first change, by activity; changed by the loop, read by any thread.

    Args:
        now_ns: The clock of the task.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        # One tuple, so that another thread never sees half of a change.
        self._state: _Times | None = None

    def enter(self, activity: Activity) -> None:
        """The loop begins something; what it was doing ends."""
        now_ns = self._now_ns()
        self._state = (activity, now_ns, self._spent_ns(now_ns))

    def times_ns(self) -> tuple[int, int, int]:
        """Busy, backpressured and idle until now, the current activity included."""
        return self._spent_ns(self._now_ns())

    def _spent_ns(self, now_ns: int) -> tuple[int, int, int]:
        state = self._state
        if state is None:
            return (0, 0, 0)
        activity, since_ns, (busy, backpressured, idle) = state
        spent = max(0, now_ns - since_ns)
        if activity is Activity.BUSY:
            return (busy + spent, backpressured, idle)
        if activity is Activity.IDLE:
            return (busy, backpressured, idle + spent)
        return (busy, backpressured + spent, idle)


class TaskMeasures:
    """Puts the metrics of one subtask together, from where they are counted, when somebody asks."""

    def __init__(
        self, gate: InputGate, output: TaskOutput, chain: OperatorChain, watermarks: InputWatermarks
    ) -> None:
        self._gate = gate
        self._output = output
        self._chain = chain
        self._watermarks = watermarks
        self._results_ms: tuple[int, int] | None = None

    def gave_result(self, now_ns: int) -> None:
        """Records reached the end of the graph here."""
        now_ms = now_ns // 1_000_000
        # One tuple, so that another thread never sees half of a change.
        self._results_ms = (now_ms if self._results_ms is None else self._results_ms[0], now_ms)

    def taken(
        self, records_in: int, times_ns: tuple[int, int, int], state_bytes: int | None, with_gauges: bool
    ) -> TaskMetrics:
        """Everything at this moment; may be called from another thread than the loop's.

        Args:
            records_in: Records taken from the gate.
            times_ns: What `TaskTimes.times_ns` says.
            state_bytes: Size of the last snapshot.
            with_gauges: Whether to call the functions' gauges, which may take long.
        """
        chain, gate, output = self._chain, self._gate, self._output
        busy_ns, backpressured_ns, idle_ns = times_ns
        first_ms, last_ms = self._results_ms or (None, None)
        user, scopes = _user_metrics(chain, with_gauges)
        late = (value for name, value in user.items() if scopes[name].path[-1] == LATE_RECORDS)
        # A source's own is what it, or else an operator behind it, made.
        watermark_ms = self._watermarks.lowest_ms if chain.source is None else chain.watermark_ms
        return TaskMetrics(
            records_in=records_in if chain.source is None else chain.records_read,
            records_out=output.records_sent,
            bytes_in=gate.consumed_bytes,
            bytes_out=output.sent_bytes,
            busy_ms=busy_ns / 1e6,
            backpressured_ms=backpressured_ns / 1e6,
            idle_ms=idle_ns / 1e6,
            watermark_ms=None if watermark_ms == MIN_WATERMARK_MS else watermark_ms,
            input_bytes=gate.arrived_bytes - gate.consumed_bytes,
            output_bytes=output.outstanding_bytes,
            state_bytes=state_bytes,
            timers=chain.timer_count,
            late_records=sum(value for value in late if isinstance(value, int)),
            first_result_ms=first_ms,
            last_result_ms=last_ms,
            user=user,
            scopes=scopes,
            stages=chain.stage_reports(),
        )


def _user_metrics(
    chain: OperatorChain, with_gauges: bool
) -> tuple[Mapping[str, UserMetric], Mapping[str, MetricScope]]:
    user: dict[str, UserMetric] = {}
    scopes: dict[str, MetricScope] = {}
    for group in chain.metric_groups():
        for name, scope, value in group.samples(with_gauges):
            key = ".".join((scope.operator_name, *name))
            if key in user:
                # Two operators of one name in one task.
                key = ".".join((scope.operator_uid, *name))
            user[key], scopes[key] = value, scope
    return user, scopes
