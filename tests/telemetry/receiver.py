"""Receivers of OTLP over HTTP and gRPC, as small as can be: they decode what comes, keep it, and answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans


class HttpReceiver(ThreadingHTTPServer):
    """Keeps the spans and metrics of OTLP/HTTP requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.resource_spans: list[ResourceSpans] = []
        self.resource_metrics: list[ResourceMetrics] = []
        self.paths: list[str] = []
        self.tokens: list[str | None] = []
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        """Clear it, and requests hang."""
        self.answered = threading.Semaphore(0)
        """Released by every request that was answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HttpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver = self.server
        receiver.paths.append(self.path)
        receiver.tokens.append(self.headers.get("x-token"))
        receiver.may_answer.wait()
        if receiver.status == 200 and self.path.endswith("/v1/metrics"):
            receiver.resource_metrics.extend(ExportMetricsServiceRequest.FromString(body).resource_metrics)
        elif receiver.status == 200:
            receiver.resource_spans.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
        self.send_response(receiver.status)
        self.send_header("Content-Length", "0")
        self.end_headers()
        receiver.answered.release()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line on standard error."""


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.may_answer.set()
            receiver.shutdown()
            thread.join()


class GrpcReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans of OTLP/gRPC requests."""

    def __init__(self) -> None:
        self.resource_spans: list[ResourceSpans] = []
        self.url = ""
        self.may_answer = threading.Event()
        self.may_answer.set()
        """Clear it, and requests hang."""

    def Export(
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        self.may_answer.wait()
        self.resource_spans.extend(request.resource_spans)
        return ExportTraceServiceResponse()


@contextmanager
def grpc_receiver() -> Iterator[GrpcReceiver]:
    receiver = GrpcReceiver()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    receiver.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        server.stop(None).wait()
