"""The number sequence source, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
