"""What a `SourceFunction` emits through."""

from __future__ import annotations

from typing import Any

from ...protocol.elements import Watermark, WatermarkStatus
from ...protocol.watermarks import MIN_WATERMARK_MS
from ..timestamps import check_timestamp, check_watermark
from .checkpoint_lock import CheckpointLock
from .source_buffer import SourceBuffer


class SourceContext:
    """Takes the records of a source function, in its thread, and hands them to the task in batches.

    Args:
        buffer: The way to the task. It is bounded, so every method that emits waits while the task is behind.
        lock: What `get_checkpoint_lock` returns.
        where: The operator and subtask, for errors.
    """

    def __init__(self, buffer: SourceBuffer, lock: CheckpointLock, where: str) -> None:
        self._buffer = buffer
        self._lock = lock
        self._where = where
        self._is_idle = False
        self._watermark_ms = MIN_WATERMARK_MS

    def get_checkpoint_lock(self) -> CheckpointLock:
        """The lock under which a record and the state that belongs to it change together."""
        return self._lock

    def collect(self, element: Any) -> None:
        """Emit a record without event time."""
        # Before the lock, so that a snapshot need not wait for room, unless the function holds the lock.
        if self._buffer.is_full:
            self._buffer.wait_for_room()
        with self._lock:
            if self._is_idle:
                self._wake_up()
            self._buffer.add(element)

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Emit a record with its event time.

        Args:
            timestamp: Milliseconds since the epoch; may be negative.

        Raises:
            UserCodeError: The timestamp is not an integer, or out of range.
        """
        check_timestamp(timestamp, element, self._where)
        if self._buffer.is_full:
            self._buffer.wait_for_room()
        with self._lock:
            if self._is_idle:
                self._wake_up()
            self._buffer.add_with_timestamp(element, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Declare that no record with an event time at or before this one follows.

        One that is not above the one before changes nothing.

        Args:
            timestamp: Milliseconds since the epoch.
        """
        check_watermark(timestamp, self._where)
        with self._lock:
            self._wake_up()
            if timestamp > self._watermark_ms:
                self._watermark_ms = timestamp
                self._buffer.add_control(Watermark(timestamp))

    def mark_as_temporarily_idle(self) -> None:
        """Let nobody wait for watermarks of this source until it emits again."""
        with self._lock:
            self._is_idle = True
            self._buffer.add_control(WatermarkStatus(True))

    def _wake_up(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._buffer.add_control(WatermarkStatus(False))

    def close(self) -> None:
        """Accept nothing more: `run` ends where it next emits. What it has emitted goes on."""
        self._buffer.close()
