"""A connection with TLS on a socket that does not block, for use by several threads."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Any

from .tls_errors import ended_early, explained
from .tls_files import TlsIdentity

_RECORD_BYTES = 16 << 10
"""Up to this size, the pieces of a frame are joined into one record of TLS."""

_CHUNK_BYTES = 256 << 10
"""The most that is encrypted before the socket takes it, and that is read from it at once."""


class TlsSocket:
    """The methods of a socket that connections use, with TLS below.

    An object of OpenSSL takes one thread at a time, and threads of tasks send while another one receives. So
    it works in memory, below a lock, and never waits for the socket.

    What was encrypted must be sent, whatever the caller does next. So after `BlockingIOError` or a partial
    send, the next call must begin with the bytes that were not taken; some of them may be encrypted already.

    Args:
        connection: A socket that does not block, connected or connecting.
        identity: This process's certificate.
        is_server: Whether the other end opened the connection.
    """

    def __init__(self, connection: socket.socket, identity: TlsIdentity, is_server: bool) -> None:
        context = identity.server if is_server else identity.client
        self._socket = connection
        self._identity = identity
        self._is_server = is_server
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._lock = threading.Lock()
        self._unsent = memoryview(b"")
        self._encrypted_bytes = 0
        """Of what the caller offers next: already in `_unsent`, or on its way."""
        self._is_drained = True
        """Whether everything that was read from the socket has been returned, but for a part of a record."""
        self.is_established = False
        """Whether both ends have verified the other's certificate."""

    # ------------------------------------------------------------ the handshake

    def establish(self) -> bool:
        """Go on with the handshake of TLS; whether it is complete.

        Raises:
            OSError: It failed; the message says what to do.
        """
        with self._lock:
            if self._pull():
                raise ended_early()
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._push()
                return False
            except ssl.SSLError as error:
                self._push()
                raise explained(error, self._identity.files) from error
            self.is_established = True
            self._push()
            return True

    @property
    def binding(self) -> bytes:
        """The certificates of both ends: the same at both, unless a third process is between them."""
        certificate = self._tls.getpeercert(binary_form=True)
        assert certificate is not None, "both ends must have one"
        mine, theirs = self._identity.fingerprint, hashlib.sha256(certificate).digest()
        return theirs + mine if self._is_server else mine + theirs

    def _push(self) -> None:
        """Send what the handshake has to say: a few KiB on a new connection, which a socket takes whole."""
        if self._outgoing.pending:
            data = self._outgoing.read()
            if self._socket.send(data) < len(data):
                raise ConnectionResetError("the other end does not read the handshake of TLS")

    # ------------------------------------------------------------ receiving

    def recv_into(self, buffer: memoryview) -> int:
        """Receive into a buffer; fewer bytes than it has room for mean that nothing more is here.

        Raises:
            BlockingIOError: Nothing is here.
            OSError: The connection is of no use any more.
        """
        with self._lock:
            if self._is_drained and self._pull():
                return 0
            count = 0
            while count < len(buffer):
                try:
                    received = self._tls.read(len(buffer) - count, buffer[count:])
                except (ssl.SSLWantReadError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    self._is_drained = True
                    break
                except ssl.SSLError as error:
                    raise explained(error, self._identity.files) from error
                if not received:
                    return count
                count += int(received)
            if not count:
                raise BlockingIOError
            return count

    @property
    def has_more(self) -> bool:
        """Whether something was read from the socket that `recv_into` has not returned."""
        return not self._is_drained

    def _pull(self) -> bool:
        """Read from the socket once; whether it has ended."""
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._incoming.write(data)
        self._is_drained = False
        return not data

    # ------------------------------------------------------------ sending

    def send(self, data: bytes | memoryview) -> int:
        """Send what the socket takes at once; returns how much.

        Raises:
            BlockingIOError: The socket takes nothing now.
            OSError: The connection is of no use any more.
        """
        return self.sendmsg((data,))

    def sendmsg(self, parts: Sequence[Any]) -> int:
        """`send` for several pieces."""
        total = sum(map(len, parts))
        with self._lock:
            self._send_encrypted()
            taken = min(self._encrypted_bytes, total)
            self._encrypted_bytes -= taken
            if not taken:
                taken = self._send_all(_chunks(parts, total))
            if not taken and total:
                raise BlockingIOError
            return taken

    def _send_all(self, chunks: Sequence[memoryview]) -> int:
        taken = encrypted = 0
        for position, chunk in enumerate(chunks, 1):
            self._encrypt(chunk)
            encrypted += len(chunk)
            if encrypted < _CHUNK_BYTES and position < len(chunks):
                continue
            if not self._flushed():
                self._encrypted_bytes = encrypted
                break
            taken, encrypted = taken + encrypted, 0
        return taken

    def _encrypt(self, chunk: memoryview) -> None:
        try:
            while chunk:
                chunk = chunk[self._tls.write(chunk) :]
        except ssl.SSLError as error:
            raise explained(error, self._identity.files) from error

    def _flushed(self) -> bool:
        self._unsent = memoryview(self._outgoing.read())
        try:
            self._send_encrypted()
        except BlockingIOError:
            return False
        return True

    def _send_encrypted(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    # ------------------------------------------------------------ like a socket

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._socket.fileno()

    def getsockopt(self, level: int, option: int) -> int:
        """An option of the socket."""
        return self._socket.getsockopt(level, option)

    def shutdown(self, how: int) -> None:
        """End the connection below, with nothing said to the other end."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _chunks(parts: Sequence[Any], total: int) -> list[memoryview]:
    if total <= _RECORD_BYTES and len(parts) > 1:
        return [memoryview(b"".join(parts))]
    views = [memoryview(part).cast("B") for part in parts]
    return [
        view[start : start + _CHUNK_BYTES] for view in views for start in range(0, len(view), _CHUNK_BYTES)
    ]
