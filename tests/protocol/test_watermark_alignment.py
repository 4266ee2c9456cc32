"""The sources of a group may go as far as the slowest of them and the drift."""

from __future__ import annotations

from tidegate.protocol.checkpoints.trigger import NEVER_MS
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.protocol.source_events import WatermarkReported
from tidegate.protocol.watermark_alignment import WatermarkAligner

A, B = ("source", 0), ("source", 1)


def report(
    watermark_ms: int, group: str = "g", drift_ms: int = 100, interval_ms: int = 10
) -> WatermarkReported:
    return WatermarkReported(group, watermark_ms, drift_ms, interval_ms)


def test_the_slowest_and_the_drift_are_the_limit_of_all() -> None:
    aligner = WatermarkAligner()
    assert aligner.next_due_ms() == NEVER_MS
    aligner.report(A, report(1_000), 5)
    aligner.report(B, report(50), 5)
    assert aligner.next_due_ms() == 5
    assert aligner.limits(5) == [(A, 150), (B, 150)]


def test_limits_are_told_once_an_interval_and_only_when_they_change() -> None:
    aligner = WatermarkAligner()
    aligner.report(A, report(0), 0)
    assert aligner.limits(0) == [(A, 100)]
    aligner.report(A, report(7), 3)
    assert aligner.limits(9) == []
    assert aligner.next_due_ms() == 10
    assert aligner.limits(10) == [(A, 107)]
    assert aligner.limits(20) == []


def test_nobody_waits_for_who_is_idle_or_has_ended() -> None:
    aligner = WatermarkAligner()
    aligner.report(A, report(0), 0)
    aligner.report(B, report(500), 0)
    aligner.report(A, report(MAX_WATERMARK_MS), 0)
    assert aligner.limits(0) == [(A, 600), (B, 600)]
    aligner.report(B, report(MAX_WATERMARK_MS), 0)
    assert aligner.limits(10) == [(A, MAX_WATERMARK_MS), (B, MAX_WATERMARK_MS)]


def test_groups_do_not_wait_for_each_other_and_the_strictest_drift_counts() -> None:
    aligner = WatermarkAligner()
    aligner.report(A, report(0, "one"), 0)
    aligner.report(B, report(900, "two", drift_ms=50), 0)
    aligner.report(("other", 0), report(800, "two", drift_ms=20), 0)
    assert sorted(aligner.limits(0)) == [(("other", 0), 820), (A, 100), (B, 820)]
