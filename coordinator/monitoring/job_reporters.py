"""What shows the metrics of a job to the outside: a page for Prometheus, and an OTLP collector."""

from __future__ import annotations

from ...telemetry.metric_settings import OtlpMetricSettings, PrometheusSettings
from ..job_coordinator import JobCoordinator
from .job_metric_families import JobMetricFamilies


class JobReporters:
    """Those that a job is configured to have, until they are closed. None of them can fail the job.

    Args:
        job: The coordinator of the job.
        prometheus: Where Prometheus is to find the metrics, `None` for nowhere.
        otlp: Where they are to be sent, `None` for nowhere.
    """

    def __init__(
        self, job: JobCoordinator, prometheus: PrometheusSettings | None, otlp: OtlpMetricSettings | None
    ) -> None:
        self._job = job
        families = JobMetricFamilies(job)
        self._endpoint = self._reader = None
        # Imported only here: most jobs have neither, and the driver of a local one should start quickly.
        if prometheus is not None:
            from ...telemetry.prometheus import open_prometheus_endpoint

            self._endpoint = open_prometheus_endpoint(prometheus, families.take)
            job.metrics.url = "" if self._endpoint is None else self._endpoint.url
        if otlp is not None:
            from ...telemetry.otlp_metrics import open_otlp_metric_reader

            resource = {"service.name": "tidegate-coordinator", "tidegate.job": job.job_name}
            self._reader = open_otlp_metric_reader(otlp, resource, families.take)

    def close(self) -> None:
        """Listen no more, and send what the job did last."""
        self._job.metrics.url = ""
        if self._endpoint is not None:
            self._endpoint.close()
        if self._reader is not None:
            self._reader.close()
