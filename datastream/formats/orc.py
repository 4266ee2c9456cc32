"""PyFlink's names for orc files. All are absent: an import names the alternative."""

from __future__ import annotations

from ...common.absent_names import refusal

__all__: list[str] = []

__getattr__ = refusal(__name__)
