"""The clocks of timers, by PyFlink's import path."""

from __future__ import annotations

from ..operators.timers.timer_service import TimeDomain

__all__ = ["TimeDomain"]
