"""Listens for requests: by itself, or beside a job in the same process."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from ...common.errors import ConfigurationError, ResourceError
from ...protocol.channels.listening import is_loopback
from .app import guarded_app
from .connections import bounded_protocol
from .directory import JobDirectory
from .guard import MAX_HEADER_BYTES, Access
from .page import WEB
from .tokens import ConsoleSecret

logger = logging.getLogger(__name__)

DEFAULT_PORT = 8081
"""Flink's `rest.port`."""
MAX_CONNECTIONS = 500
"""Half of the 1,024 files that a process may usually open."""
STALL_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 5


@dataclass(frozen=True)
class ServerSettings:
    """How a console listens.

    Attributes:
        host: Address; anything but loopback wants a token for everything.
        port: 0 for any free one.
        secret: What tokens are checked against; without it nobody can act.
        savepoint_roots: Where savepoints may go beside each job's own directory for them.
        web: Directory of the page's files.
        timeout_s: How long a request may take.
        stall_timeout_s: How long a client may take for the headers of a request, or to read an answer.
        max_connections: Above this number, the one whose headers are awaited the longest is closed.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    secret: ConsoleSecret | None = None
    savepoint_roots: tuple[str, ...] = ()
    web: Path = WEB
    timeout_s: float = 60.0
    stall_timeout_s: float = STALL_TIMEOUT_S
    max_connections: int = MAX_CONNECTIONS

    def access(self) -> Access:
        """Who may ask what.

        Raises:
            ConfigurationError: It would listen beyond this machine without a token.
        """
        if is_loopback(self.host):
            hosts = frozenset({"localhost", "127.0.0.1", "::1", self.host})
            return Access(self.secret, True, hosts, self.savepoint_roots, self.timeout_s)
        if self.secret is None:
            raise ConfigurationError(
                f"a console on {self.host} could be reached from other machines, so it needs a token: set "
                f"TIDEGATE_CONSOLE_TOKEN or --token-file, or listen on 127.0.0.1"
            )
        return Access(self.secret, False, None, self.savepoint_roots, self.timeout_s)


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()


def _listening_socket(settings: ServerSettings) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        return listening
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"the console cannot listen on {settings.host}:{settings.port}: {error}; choose another --port, "
            f"or 0 for any free one"
        ) from error


def _config(jobs: JobDirectory, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        guarded_app(jobs, settings.access(), settings.web),
        # Its own log of requests would hold whatever somebody put into an address.
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        # What a proxy says about a client can be said by anybody.
        proxy_headers=False,
        http=bounded_protocol(settings.stall_timeout_s, settings.max_connections),
        ws="none",
        lifespan="off",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        # The guard limits requests. uvicorn would count connections, also those without a request.
        limit_concurrency=None,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=_STOP_TIMEOUT_S,
    )


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    jobs: JobDirectory, settings: ServerSettings, on_ready: Callable[[str], None] = lambda address: None
) -> None:
    """Answer requests until the process is told to stop.

    Args:
        jobs: Where jobs are found.
        settings: How to listen.
        on_ready: Called with the address once it answers.

    Raises:
        ConfigurationError: It would listen beyond this machine without a token.
        ResourceError: The address cannot be listened on.
    """
    config = _config(jobs, settings)
    with contextlib.closing(_listening_socket(settings)) as listening:
        address = _address(listening)
        _Server(config, lambda: on_ready(address)).run(sockets=[listening])


@contextlib.contextmanager
def served(jobs: JobDirectory, settings: ServerSettings) -> Iterator[str]:
    """Answer requests in a thread of its own as long as the context lasts, which is given the address.

    Raises:
        ConfigurationError: It would listen beyond this machine without a token.
        ResourceError: The address cannot be listened on.
    """
    config = _config(jobs, settings)
    with contextlib.closing(_listening_socket(settings)) as listening:
        ready = threading.Event()
        server = _Server(config, ready.set)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, name="tidegate-console", daemon=True
        )
        thread.start()
        ready.wait()
        try:
            yield _address(listening)
        finally:
            server.should_exit = True
            thread.join()
