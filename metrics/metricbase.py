"""Metrics of user functions, by PyFlink's import path. `RuntimeContext.get_metrics_group()` makes them."""

from __future__ import annotations

from ..telemetry.metrics import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
