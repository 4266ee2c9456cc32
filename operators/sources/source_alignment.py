"""Lets a source wait for the others of its group, in event time."""

from __future__ import annotations

from ...common.watermark_strategy import WatermarkAlignment
from ...protocol.elements import MAX_WATERMARK_MS
from ...protocol.source_events import WatermarkReported
from ...protocol.watermarks import MIN_WATERMARK_MS
from ..base import OperatorContext
from ..event_time import EventTime
from .split_event_time import SplitEventTime


class SourceAlignment:
    """One subtask's part in a group.

    Args:
        alignment: The group.
        context: The operator's place in the job.
        event_time: How far the subtask has come.
    """

    def __init__(
        self,
        alignment: WatermarkAlignment,
        context: OperatorContext,
        event_time: EventTime | SplitEventTime,
    ) -> None:
        self._alignment = alignment
        self._context = context
        self._event_time = event_time
        self._limit_ms = MIN_WATERMARK_MS
        self._reported_ms: int | None = None
        self._has_ended = False

    def start(self) -> None:
        """Join the group."""
        self._report(MIN_WATERMARK_MS)
        self._plan()

    def set_limit(self, limit_ms: int) -> None:
        """The coordinator said how far the group may go."""
        self._limit_ms = limit_ms

    def must_wait(self) -> bool:
        """Whether the subtask is too far ahead to read on."""
        if self._event_time.progress_ms <= self._limit_ms:
            return False
        self._event_time.keep_awake()
        self._report_progress()
        return True

    def end(self) -> None:
        """Nothing more comes: nobody has to wait for this subtask."""
        self._has_ended = True
        self._report(MAX_WATERMARK_MS)

    def _plan(self) -> None:
        def run() -> None:
            if not self._has_ended:
                self._report_progress()
                self._plan()

        service = self._context.processing_time
        service.call_at(service.now_ms() + self._alignment.update_interval_ms, run)

    def _report_progress(self) -> None:
        self._report(MAX_WATERMARK_MS if self._event_time.is_idle else self._event_time.progress_ms)

    def _report(self, watermark_ms: int) -> None:
        if watermark_ms == self._reported_ms:
            return
        self._reported_ms = watermark_ms
        alignment = self._alignment
        self._context.send_to_coordinator(
            WatermarkReported(
                alignment.group, watermark_ms, alignment.max_drift_ms, alignment.update_interval_ms
            )
        )
