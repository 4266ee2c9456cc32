"""A page that Prometheus reads, in the coordinator's process: `http://127.0.0.1:9249/metrics`."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .metric_families import MetricFamily
from .metric_settings import PrometheusSettings

logger = logging.getLogger("tidegate")

_SILENT_S = 10
"""A client that sends nothing for so long is given up, so that it holds no thread."""


class _Families(Collector):
    """Asks for the families whenever somebody reads the page."""

    def __init__(self, take: Callable[[], list[MetricFamily]]) -> None:
        self._take = take

    def collect(self) -> Iterable[Metric]:
        for family in self._take():
            name = family.prometheus_name
            metric = Metric(name, family.help, "gauge")
            for labels, value in family.samples:
                metric.add_sample(name, labels, value)
            yield metric


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # `HTTPServer` would ask the name service who it is, which may take long and is for nothing.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_S

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """A line for every scrape would fill the log."""


class PrometheusEndpoint:
    """Serves the metrics of one job, each request in a thread of its own, until it is closed."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="tidegate-prometheus",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the page."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def open_prometheus_endpoint(
    settings: PrometheusSettings, take: Callable[[], list[MetricFamily]]
) -> PrometheusEndpoint | None:
    """Serve metrics on the first port that is free.

    Args:
        take: Gives the metrics; called for every request, in a thread of its own.

    Returns:
        The endpoint, or None, with a warning, where no port is free.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(take))
    application = make_wsgi_app(registry)
    problem: Exception | None = None
    for port in settings.ports:
        try:
            server = make_server(settings.host, port, application, _Server, _Handler)
        except OSError as error:
            problem = error
            continue
        endpoint = PrometheusEndpoint(server)
        logger.info("Metrics for Prometheus are at %s", endpoint.url)
        return endpoint
    logger.warning(
        "There is no page for Prometheus, and the job goes on without it: no port of %s, %s, can be listened "
        "on (%s). Give metrics.reporter.prom.port a range, so that every job finds a port",
        settings.host,
        _shown(settings.ports),
        problem,
    )
    return None


def _shown(ports: tuple[int, ...]) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
