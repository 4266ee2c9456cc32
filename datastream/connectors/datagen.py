"""The data generator, beside the other connectors' import paths."""

from __future__ import annotations

from ...connectors.data_generator import DataGeneratorSource

__all__ = ["DataGeneratorSource"]
