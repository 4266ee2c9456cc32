"""The checkpointing mode, by PyFlink's import path."""

from __future__ import annotations

from ..protocol.elements import CheckpointingMode

__all__ = ["CheckpointingMode"]
