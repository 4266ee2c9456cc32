"""What connectors share, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.kafka.sink import DeliveryGuarantee

__all__ = ["DeliveryGuarantee"]
