"""Metrics over OTLP: at an interval, on a thread of its own, with OpenTelemetry's data model and exporters.

The SDK's instruments are not used: what is measured is known already, and a new attempt or rescaled job
would leave series in their memory that nobody reports any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from opentelemetry.sdk.metrics.export import (
    Gauge,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from .metric_families import MetricFamily
from .metric_settings import OtlpMetricSettings
from .otlp import protocol_exporter
from .spans import Attributes

logger = logging.getLogger(__name__)

_SCOPE = InstrumentationScope("tidegate")


class OtlpMetricReader:
    """Sends the metrics of one job until it is closed. A collector that hangs holds up nothing but this."""

    def __init__(
        self,
        exporter: MetricExporter,
        settings: OtlpMetricSettings,
        resource: Resource,
        take: Callable[[], list[MetricFamily]],
    ) -> None:
        self._exporter = exporter
        self._endpoint = settings.collector.endpoint
        self._interval_s = settings.interval_ms / 1_000
        self._resource = resource
        self._take = take
        self._is_failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-otlp-metrics", daemon=True)
        self._thread.start()

    def close(self, timeout_ms: int = 2_000) -> None:
        """Send once more; a collector that does not answer is given up after `timeout_ms`."""
        self._closing.set()
        self._thread.join(timeout_ms / 1_000)
        self._exporter.shutdown(timeout_millis=timeout_ms)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            self._export()
        self._export()

    def _export(self) -> None:
        data = metrics_data(self._take(), self._resource, time.time_ns())
        is_failing = self._exporter.export(data) is not MetricExportResult.SUCCESS
        if is_failing and not self._is_failing:
            logger.warning(
                "The OTLP collector at %s takes no metrics; the job goes on without it. The logger "
                "'opentelemetry.exporter.otlp' at level ERROR shows the cause.",
                self._endpoint,
            )
        elif self._is_failing and not is_failing:
            logger.info("The OTLP collector at %s takes metrics again", self._endpoint)
        self._is_failing = is_failing


def metrics_data(families: list[MetricFamily], resource: Resource, now_unix_ns: int) -> MetricsData:
    """The families as OpenTelemetry's SDK has them, all gauges."""
    metrics = [
        Metric(
            family.dotted_name,
            family.help,
            "",
            Gauge([NumberDataPoint(labels, 0, now_unix_ns, value) for labels, value in family.samples]),
        )
        for family in families
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, metrics, "")], "")])


def open_otlp_metric_reader(
    settings: OtlpMetricSettings, resource: Attributes, take: Callable[[], list[MetricFamily]]
) -> OtlpMetricReader | None:
    """Begin to send metrics; None, with a warning, where the exporter cannot be had.

    Args:
        resource: What describes the process, `service.name` among it.
        take: Gives the metrics; called on the reader's thread.
    """
    exporter = protocol_exporter(settings.collector, "Metrics", "metric_exporter", "OTLPMetricExporter")
    if exporter is None:
        return None
    return OtlpMetricReader(exporter, settings, Resource.create(resource), take)
