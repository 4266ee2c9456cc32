"""A source of the lines that a server sends over a TCP connection, for trying things out."""

from __future__ import annotations

import socket
import threading

from ..common.errors import ConfigurationError, TidegateError
from ..operators.sources.source_context import SourceContext
from ..operators.sources.source_function import SourceFunction

_CONNECT_S = 10.0
_LOOK_UP_S = 0.2
"""How often a wait for bytes is interrupted to see whether the job was cancelled."""

DEFAULT_MAX_RECORD_BYTES = 64 << 20


class SocketConnectionError(TidegateError):
    """The server cannot be reached, or went away. The cause is chained."""


class SocketTextSource(SourceFunction):
    """Connects to a server and emits what it sends, cut at a delimiter; ends when the server closes.

    A socket cannot be read again: what came before a failure and was not checkpointed downstream is lost, so
    this is at most once.

    Args:
        hostname: Of the server.
        port: Of the server.
        delimiter: What separates two records.
        max_retry: How often in a row to connect anew, a second apart, when that fails or the connection
            breaks off; 0 for never, -1 for ever. With 0, a connection that is closed ends the stream.
        max_record_bytes: A longer record, without its delimiter, is an error.
    """

    def __init__(
        self,
        hostname: str,
        port: int,
        delimiter: str = "\n",
        max_retry: int = 0,
        *,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        if not 0 < port < 65_536:
            raise ConfigurationError(f"the port of the socket source is {port}; ports are 1 to 65535")
        if not delimiter or max_retry < -1:
            raise ConfigurationError("the socket source needs a delimiter, and max_retry of at least -1")
        if max_record_bytes < 1:
            raise ConfigurationError(f"max_record_bytes is {max_record_bytes}; it must be at least 1")
        self._address = (hostname, port)
        self._max_record_bytes = max_record_bytes
        self._delimiter = delimiter
        self._max_retry = max_retry
        self._cancelled: threading.Event | None = None

    def run(self, ctx: SourceContext) -> None:
        self._cancelled = threading.Event()
        retries = 0
        while not self._cancelled.is_set():
            try:
                with socket.create_connection(self._address, timeout=_CONNECT_S) as connection:
                    connection.settimeout(_LOOK_UP_S)
                    if self._emit_all(ctx, connection):
                        retries = 0
                    if self._max_retry == 0:
                        return
            except OSError as error:
                if 0 <= self._max_retry <= retries:
                    host, port = self._address
                    raise SocketConnectionError(
                        f"the socket source cannot read from {host}:{port}: {error.strerror or error}; "
                        f"start the server (such as nc -lk {port}), or raise max_retry"
                    ) from error
            if 0 < self._max_retry <= retries:
                return
            retries += 1
            self._cancelled.wait(1.0)

    def _emit_all(self, ctx: SourceContext, connection: socket.socket) -> bool:
        """Emit until the connection ends; whether anything came."""
        assert self._cancelled is not None
        records, has_come = _Records(self._delimiter.encode(), self._max_record_bytes), False
        while not self._cancelled.is_set():
            try:
                data = connection.recv(65_536)
            except TimeoutError:
                continue
            has_come = has_come or bool(data)
            try:
                complete = records.add(data) if data else records.rest()
            except ValueError as error:
                host, port = self._address
                raise SocketConnectionError(
                    f"the socket source cannot read from {host}:{port}: {error}; if records can be longer, "
                    f"raise max_record_bytes of SocketTextSource"
                ) from error
            for record in complete:
                ctx.collect(self._record(record.decode("utf-8", "replace")))
            if not data:
                break
        return has_come

    def _record(self, text: str) -> str:
        return text.removesuffix("\r") if self._delimiter == "\n" else text

    def cancel(self) -> None:
        if self._cancelled is not None:
            self._cancelled.set()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cancelled": None}


class _Records:
    """Cuts bytes at a delimiter; looks at each byte once, and keeps at most one record."""

    def __init__(self, delimiter: bytes, max_record_bytes: int) -> None:
        self._delimiter = delimiter
        self._max_record_bytes = max_record_bytes
        self._rest = bytearray()
        self._searched = 0
        self._received = 0

    def add(self, data: bytes) -> list[bytes]:
        """The records that are complete with these bytes.

        Raises:
            ValueError: One is too long.
        """
        self._rest += data
        self._received += len(data)
        complete: list[bytes] = []
        start = 0
        while (end := self._rest.find(self._delimiter, self._searched)) >= 0:
            self._check_length(start, end)
            complete.append(bytes(self._rest[start:end]))
            start = self._searched = end + len(self._delimiter)
        # The beginning of a delimiter may have come already.
        self._check_length(start, len(self._rest) - len(self._delimiter) + 1)
        del self._rest[:start]
        self._searched = max(0, len(self._rest) - len(self._delimiter) + 1)
        return complete

    def rest(self) -> list[bytes]:
        """What came after the last delimiter, if anything did."""
        return [bytes(self._rest)] if self._rest else []

    def _check_length(self, start: int, end: int) -> None:
        if end - start > self._max_record_bytes:
            at = self._received - len(self._rest) + start
            raise ValueError(f"the record at byte {at} has more than {self._max_record_bytes} bytes")
