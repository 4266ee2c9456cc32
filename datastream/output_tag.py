"""Side outputs, by PyFlink's import path."""

from __future__ import annotations

from ..common.output_tag import OutputTag

__all__ = ["OutputTag"]
