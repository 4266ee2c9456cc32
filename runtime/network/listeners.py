"""Where a task process listens for those that send records to it, and how others reach it there."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.channels.listening import ADDRESS_KEY, ANY_PORT, PORT_KEY, ListenRule
from ..interfaces import interface_addresses
from .connection_log import explained
from .tls import TlsSocket
from .tls_files import SAME_ON_BOTH, TlsFiles, TlsIdentities

_BACKLOG = 1_024
_CONNECTING = (0, errno.EINPROGRESS)

_UNIX_BUFFER_BYTES = 1 << 20
"""The credit of one channel. The kernel may allow less (`net.core.wmem_max`)."""

Carrier = socket.socket | TlsSocket
"""What carries a connection; neither blocks."""

_KERNEL_OPTIONS = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 5_000}
"""After 2 s of silence the kernel asks the other end each second; after 3 questions, or 5 s without an
acknowledgement of what was sent, the connection is lost."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a task process accepts connections.

    Attributes:
        node_id: Its node, by Ray's id.
        path: Its Unix-domain socket, for processes of the same node.
        host: Its address for processes of other nodes; empty if it does not listen for them.
        port: The TCP port at that address.
        uses_tls: Whether connections to that port use TLS.
    """

    node_id: str
    path: str
    host: str = ""
    port: int = 0
    uses_tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.host else "unix:" + self.path.replace("\0", "@")


@dataclass(frozen=True, slots=True)
class ListenOn:
    """How a process is reached from other nodes.

    Attributes:
        host: An address of its node.
        tls: The certificates, `None` without TLS.
        rule: The ports.
    """

    host: str
    tls: TlsFiles | None = None
    rule: ListenRule = ANY_PORT


def listen_on(rule: ListenRule, node_address: str) -> ListenOn:
    """How this process should be reached from other nodes.

    Args:
        rule: That of the job.
        node_address: The address by which Ray knows this node.

    Raises:
        ConfigurationError: The node has no such address, or Ray uses TLS and does not name its certificates.
    """
    host = rule.address(node_address, interface_addresses()) if rule.places else node_address
    return ListenOn(host, TlsFiles.from_environment(os.environ), rule)


class Listeners:
    """The sockets on which a process accepts connections; they exist from the first question for an address.

    Any process of the node can open a connection to the Unix-domain socket; the handshake decides who stays.
    Connections within a node use no TLS: their data stays in the memory of the node's kernel, and a process
    that can read that can read the private key as well.

    Args:
        opened: Takes each listening socket.
    """

    def __init__(self, opened: Callable[[socket.socket], None]) -> None:
        self._opened = opened
        self._directory = ""
        self._path = ""
        self._on: ListenOn | None = None
        self._port = 0
        self._tls: TlsIdentities | None = None
        self._sockets: list[socket.socket] = []

    def address(self, node_id: str, on: ListenOn | None) -> Address:
        """Where this process is reached; it listens there from now on.

        Args:
            node_id: Its node, by Ray's id; processes of the same one use a Unix-domain socket.
            on: How those of other nodes reach it; `None` for what is open.

        Raises:
            OSError: It cannot listen there, or has no certificate that can be used.
        """
        if not self._path:
            self._path = self._new_path()
            self._add(socket.AF_UNIX, self._path)
        if on is not None and on != self._on:
            self._tls = None if on.tls is None else TlsIdentities(on.tls)
            if self._tls is not None:
                self._tls.current()
            self._port = self._add_tcp(on)
            self._on = on
        host = "" if self._on is None else self._on.host
        return Address(node_id, self._path, host, self._port, self._tls is not None)

    def _add_tcp(self, on: ListenOn) -> int:
        """Listen on a port that is free; returns it."""
        family = socket.AF_INET6 if ":" in on.host else socket.AF_INET
        for port in on.rule.candidates(secrets.randbelow(1 << 16)):
            try:
                return int(self._add(family, (on.host, port)).getsockname()[1])
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise OSError(error.errno, f"{on.host}:{port}: {error.strerror}") from error
        raise OSError(
            errno.EADDRINUSE,
            f"no port of {on.rule.ports_text} ({PORT_KEY}) is free at {on.host}. Each task process of a node "
            f"needs one; set a larger range, or find out with `ss -ltnp` what uses these",
        )

    def _new_path(self) -> str:
        if sys.platform == "linux":
            # In the abstract namespace: nothing stays on disk, however the process ends.
            return f"\0tidegate-{secrets.token_hex(16)}"
        self._directory = tempfile.mkdtemp(prefix="tidegate-")
        return os.path.join(self._directory, "records")

    def _add(self, family: socket.AddressFamily, where: str | tuple[str, int]) -> socket.socket:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise OSError(error.errno, explained(error)) from error
        listener.setblocking(False)
        try:
            if family != socket.AF_UNIX:
                # A port of connections that ended a moment ago is free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._sockets.append(listener)
        self._opened(listener)
        return listener

    def accept(self, listener: socket.socket) -> tuple[Carrier, str]:
        """Accept a connection; returns it and where it comes from.

        Raises:
            OSError: None can be accepted now, or this process has no certificate that can be used.
        """
        connection, where = listener.accept()
        connection.setblocking(False)
        if connection.family == socket.AF_UNIX:
            _set_unix_options(connection)
            return connection, "a process of this node"
        set_tcp_options(connection)
        return self._with_tls(connection, is_server=True), f"{where[0]}:{where[1]}"

    def dial(self, there: Address, here: Address) -> Carrier:
        """Begin to open a connection.

        Args:
            there: The other process.
            here: This one.

        Returns:
            It is connected, or could not be, as soon as it can be written.

        Raises:
            OSError: It cannot even begin.
        """
        if there.node_id == here.node_id:
            connection = _begin(socket.AF_UNIX, there.path)
            _set_unix_options(connection)
            return connection
        if not there.host:
            raise OSError(f"{there} is on another node, and its process listens for its own node only")
        if there.uses_tls != here.uses_tls:
            theirs, mine = ("uses", "does not") if there.uses_tls else ("does not use", "does")
            raise OSError(f"the other end {theirs} TLS, and this process {mine}. {SAME_ON_BOTH}")
        family = socket.AF_INET6 if ":" in there.host else socket.AF_INET
        connection = _begin(family, (there.host, there.port))
        set_tcp_options(connection)
        return self._with_tls(connection, is_server=False)

    def _with_tls(self, connection: socket.socket, is_server: bool) -> Carrier:
        if self._tls is None:
            return connection
        try:
            return TlsSocket(connection, self._tls.current(), is_server)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Listen no more."""
        for listener in self._sockets:
            listener.close()
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)


def route(here: Address, there: Address, dials: bool) -> str:
    """Between which addresses a connection is, and what selects them.

    Args:
        here: This process.
        there: The other process.
        dials: Whether this one opens the connection.
    """
    if there.node_id == here.node_id:
        return f"{there if dials else here}"
    source, target = (here.host, f"{there}") if dials else (there.host, f"{here}")
    return f"from {source} to {target} ({ADDRESS_KEY} and {PORT_KEY} select these addresses)"


def _begin(family: socket.AddressFamily, where: str | tuple[str, int]) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    error = connection.connect_ex(where)
    if error not in _CONNECTING:
        connection.close()
        raise OSError(error, os.strerror(error))
    return connection


def _set_unix_options(connection: socket.socket) -> None:
    """Let a task write a whole message: otherwise it wakes the thread of the connections for the rest of it.

    TCP chooses the size of its buffers itself.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)


def set_tcp_options(connection: socket.socket) -> None:
    """Send at once, and let the kernel notice a network that carries nothing any more."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in _KERNEL_OPTIONS.items():
        # Linux has them all; elsewhere the pings of the link notice the same, later.
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
