"""The traces of one job: their roots, and the spans of tasks, put right by the coordinator's clock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...protocol.ids import SubtaskId
from ...protocol.task_events import SpansRecorded
from ...telemetry import Attributes, AttributeValue, FinishedSpan, Span, Tracer
from ...telemetry.spans import CLOCK_SKEW_MS, JOB_ID, JOB_NAME, START_DELAY
from ..spec import JobSpec
from .clock_skews import ClockSkews

MAX_REMEMBERED = 64
"""So many of the newest traces still take spans: a root that ended long ago has no late parts."""


@dataclass(slots=True)
class _Remembered:
    started_ns: int
    ended_ns: int | None = None


class JobTraces:
    """Opens roots and lets the spans of tasks in, so that each lies within its root, whatever its clock said.

    Args:
        now_ns: The coordinator's clock.
    """

    def __init__(self, spec: JobSpec, tracer: Tracer, now_ns: Callable[[], int]) -> None:
        self._spec = spec
        self._tracer = tracer
        self._now_ns = now_ns
        self._known: OrderedDict[str, _Remembered] = OrderedDict()
        self.skews = ClockSkews()

    def attempt_begins(self) -> None:
        """Subtasks may be in other processes now, which have other clocks."""
        self.skews = ClockSkews()

    def begin(self, name: str, attributes: Attributes, began_ns: int | None = None) -> Span:
        """Open the root of a new trace, which began now or at `began_ns`."""
        whose: dict[str, AttributeValue] = {JOB_ID: self._spec.job_id, JOB_NAME: self._spec.job_name}
        root = self._tracer.start_root(
            name, {**whose, **attributes}, self._now_ns() if began_ns is None else began_ns
        )
        self._known[root.trace_id] = _Remembered(root.start_unix_ns)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return root

    def end(self, root: Span, error: str | None = None) -> None:
        """Close a root now."""
        now_ns = self._now_ns()
        remembered = self._known.get(root.trace_id)
        if remembered is not None:
            remembered.ended_ns = now_ns
        root.end(error, now_ns)

    def record(
        self,
        root: Span,
        name: str,
        started_ns: int,
        attributes: Mapping[str, AttributeValue],
        ended_ns: int | None = None,
    ) -> None:
        """A span of the coordinator's, until now if nothing else is said."""
        end_ns = self._now_ns() if ended_ns is None else ended_ns
        start_ns = min(max(started_ns, root.start_unix_ns), end_ns)
        own: dict[str, AttributeValue] = {JOB_ID: self._spec.job_id, **attributes}
        self._tracer.record_span(name, root.context, start_ns, end_ns, own)

    def forward(self, event: SpansRecorded) -> None:
        """Take the spans of a task; what has no root any more is dropped."""
        spans: list[FinishedSpan] = [
            span for span in event.spans if span["trace_id"] in self._known and span["name"]
        ]
        if not spans:
            return
        known = self._known[spans[0]["trace_id"]]
        now_ns = self._now_ns()
        skew_ns = self._skew_ns(event.subtask, spans, known, now_ns)
        last_ns = now_ns if known.ended_ns is None else known.ended_ns
        self._tracer.forward(_moved(span, skew_ns, known.started_ns, last_ns) for span in spans)

    def _skew_ns(self, subtask: SubtaskId, spans: list[FinishedSpan], known: _Remembered, now_ns: int) -> int:
        """By how much the task's clock is ahead. The order that the task followed came from this trace."""
        told_ns = max(span["end_unix_ns"] for span in spans)
        # The start delay begins by the coordinator's clock.
        first_ns = min(
            span["end_unix_ns"] if span["name"] == START_DELAY else span["start_unix_ns"] for span in spans
        )
        least_ms, most_ms = (told_ns - now_ns) / 1e6, (first_ns - known.started_ns) / 1e6
        return round(self.skews.observe(subtask, least_ms, most_ms) * 1e6)


def _moved(span: FinishedSpan, skew_ns: int, first_ns: int, last_ns: int) -> FinishedSpan:
    """The span by the coordinator's clock, within its root."""
    start_ns = first_ns if span["name"] == START_DELAY else span["start_unix_ns"] - skew_ns
    start_ns = min(max(start_ns, first_ns), last_ns)
    end_ns = min(max(span["end_unix_ns"] - skew_ns, start_ns), last_ns)
    attributes = span["attributes"]
    if skew_ns:
        attributes = {**attributes, CLOCK_SKEW_MS: skew_ns / 1e6}
    return {**span, "start_unix_ns": start_ns, "end_unix_ns": end_ns, "attributes": attributes}
