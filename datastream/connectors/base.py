"""What connectors share, by PyFlink's import path."""

from __future__ import annotations

from ...common.absent_names import refusal
from ...connectors.kafka.sink import DeliveryGuarantee
from ...operators.sinks import Sink
from ...operators.sources.sources import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

__getattr__ = refusal(__name__)
