"""How a stream tells the progress of event time (name of `pyflink.common.watermark_strategy`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WatermarkStrategy"]


@dataclass(frozen=True)
class WatermarkStrategy:
    """Declares how watermarks come into a stream. Obtain one from the static methods."""

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy of a stream without event time: it never emits a watermark."""
        return WatermarkStrategy()
