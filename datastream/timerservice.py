"""Timers of process functions, by PyFlink's import path."""

from __future__ import annotations

from ..operators.timers.timer_service import TimerService

__all__ = ["TimerService"]
