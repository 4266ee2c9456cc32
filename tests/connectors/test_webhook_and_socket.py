"""Records posted to a web service, and lines read from a socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError, UserCodeError
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.socket import SocketTextSource
from tidegate.datastream.connectors.webhook import WebhookError, WebhookSink
from tidegate.operators.base import OperatorContext

INTERVAL = "execution.checkpointing.interval"
MakeEnv = Callable[..., StreamExecutionEnvironment]


class Service:
    """A web service that remembers the keys of requests. `answers` are given before it takes any."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.requests: list[str] = []
        self.taken: dict[str, bytes] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.requests.append(self.headers["Idempotency-Key"])
                status, headers = service.answers.pop(0) if service.answers else (200, {})
                if status == 200:
                    assert service.taken.setdefault(self.headers["Idempotency-Key"], body) == body
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "2"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                """Nothing on standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=secret"

    def records(self) -> list[Any]:
        return sorted(record for body in self.taken.values() for record in json.loads(body))


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


class FailsOnce(MapFunction):
    faults: list[int] = []  # noqa: RUF012

    def map(self, value: int) -> int:
        if self.faults and value == self.faults[0]:
            self.faults.pop()
            raise RuntimeError("injected")
        return value


@pytest.mark.parametrize("is_checkpointing", [True, False])
def test_a_service_that_remembers_keys_has_every_record_once(
    service: Service, local_env: MakeEnv, is_checkpointing: bool
) -> None:
    service.answers = [(503, {}), (429, {"Retry-After": "0"})]
    if is_checkpointing:
        FailsOnce.faults = [60]
    env = local_env(2, **({} if is_checkpointing else {INTERVAL: ""}))
    stream = env.from_collection(list(range(100))).map(FailsOnce()).rebalance()
    stream.sink_to(WebhookSink(service.url, batch_rows=7)).uid("hook")
    env.execute()
    assert service.records() == list(range(100))
    assert len(service.requests) >= len(service.taken) + 2


def opened(sink: WebhookSink, context: OperatorContext) -> tuple[Any, Any]:
    writer, committer = sink.create_writer(), sink.create_committer()
    committer.open(context)
    writer.open(context)
    return writer, committer


def test_a_request_that_is_refused_is_one_clear_error(
    service: Service, operator_context: Callable[..., OperatorContext]
) -> None:
    writer, committer = opened(WebhookSink(service.url), operator_context())
    writer.write_batch([1])
    service.answers = [(401, {})]
    with pytest.raises(
        WebhookError, match=r"numbers \(1/1\): http://127\.0\.0\.1:\d+/hook refused .* 401"
    ) as e:
        committer.commit(writer.prepare_commit())
    assert "secret" not in str(e.value)
    assert len(service.requests) == 1


def test_a_service_that_is_away_is_one_clear_error_after_the_retry_timeout(
    operator_context: Callable[..., OperatorContext],
) -> None:
    writer, committer = opened(WebhookSink("http://127.0.0.1:1/", retry_timeout_s=0.2), operator_context())
    writer.write_batch([1])
    with pytest.raises(WebhookError, match=r"did not take a request for 0\.2 seconds.*refused"):
        committer.commit(writer.prepare_commit())


def test_a_record_that_cannot_be_sent_is_shown(operator_context: Callable[..., OperatorContext]) -> None:
    writer, _ = opened(WebhookSink("http://127.0.0.1:1/"), operator_context())
    with pytest.raises(UserCodeError, match=r"numbers \(1/1\): .*\{\(1, 2\): 3\}"):
        writer.write_batch([{(1, 2): 3}])


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong in (
        lambda: WebhookSink("ftp://host"),
        lambda: WebhookSink("http://host", batch_rows=0),
        lambda: SocketTextSource("host", 0),
        lambda: SocketTextSource("host", 1, delimiter=""),
    ):
        with pytest.raises(ConfigurationError):
            wrong()


# ---------------------------------------------------------------- the socket


def serve(*answers: bytes) -> tuple[int, threading.Thread]:
    """A server that gives each connection the next answer, and then goes away."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listening:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    for byte in range(0, len(answer), 3):  # in pieces that cut characters
                        connection.sendall(answer[byte : byte + 3])

    thread = threading.Thread(target=run)
    thread.start()
    return listening.getsockname()[1], thread


def test_lines_come_until_the_server_closes(local_env: MakeEnv) -> None:
    port, thread = serve("one\r\ntwö\n\nlast".encode())
    stream = local_env().socket_text_stream("127.0.0.1", port)
    assert list(stream.execute_and_collect()) == ["one", "twö", "", "last"]
    thread.join()


def test_a_connection_that_breaks_off_is_made_again(local_env: MakeEnv) -> None:
    port, thread = serve(b"a;b;", b"c;")
    stream = local_env(**{"restart-strategy.type": "none"}).socket_text_stream("127.0.0.1", port, ";", 1)
    found: list[Any] = []
    with pytest.raises(JobExecutionError, match=rf"cannot read from 127\.0\.0\.1:{port}.*refused; start"):
        found.extend(stream.execute_and_collect())
    assert found == ["a", "b", "c"][: len(found)]
    thread.join()
