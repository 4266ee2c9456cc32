"""Connectors, by PyFlink's import path."""

from __future__ import annotations

from .base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
