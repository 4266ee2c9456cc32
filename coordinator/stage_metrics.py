"""What is measured of the epochs of a stage, with names in Flink's style.

`docs/metrics.md` has the same table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.stage_reports import StageReport

STAGE_METRICS: dict[str, tuple[str, Callable[[StageReport], float | None]]] = {
    "numRecordsIn": ("Records that the stage has taken.", lambda s: s.records_in),
    "numRecordsOut": ("Results that the stage has emitted.", lambda s: s.records_out),
    "numRecordsGathered": ("Records of the epoch that takes the next ones.", lambda s: s.gathering.records),
    "numBytesGathered": ("Bytes of these records.", lambda s: s.gathering.size_bytes),
    "numEpochsWaiting": ("Epochs that take no more records and do not run yet.", lambda s: s.waiting.epochs),
    "numEpochsRunning": ("Epochs that run in Spark.", lambda s: s.running.epochs),
    "numEpochsEmitting": (
        "Epochs whose results have arrived and have not all been emitted.",
        lambda s: s.finished.epochs + s.emitting.epochs,
    ),
    "bufferSize": ("Bytes of all records without results.", lambda s: s.buffered_bytes),
    "maxBufferSize": (
        "With this number of bytes the stage takes no more records.",
        lambda s: s.buffer_limit_bytes,
    ),
    "numEpochsRun": ("Runs of epochs that have ended.", lambda s: s.runs.epochs),
    "lastEpochTimeMs": (
        "Milliseconds from the start of the last epoch's run to its results.",
        lambda s: s.runs.last_ms,
    ),
    "accumulateEpochTimeMs": (
        "The same of all epochs in this attempt, together.",
        lambda s: s.runs.total_ms,
    ),
}
"""By name: what it means, and where it comes from."""
