"""The subtask's end of the exchange with Spark's executors: serves records, and takes results.

Each connection has a thread. It waits for the socket almost all the time, without Python's lock, and each
task that Spark runs has at most two connections.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ...common.errors import TidegateError
from ...runtime.network.listeners import Address, Listeners, ListenOn, set_tcp_options
from ...runtime.network.tls_files import TlsIdentities
from . import exchange_client as wire

_HANDSHAKE_S = 5.0
_REST_S = 0.1
_MOST_STRANGERS = 64
"""The most connections whose other end has not proved that it knows the key of a run."""
_BATCH_ROWS = 64 << 10
_BATCH_BYTES = 8 << 20


class SparkExchangeError(TidegateError):
    """Executors could not fetch records from a subtask, or could not push results to it."""


@dataclass(frozen=True)
class Endpoint:
    """Where executors find the records of one epoch in one subtask. It contains a secret: do not store it.

    Attributes:
        path: Unix-domain socket, for executors of the same node.
        host: Address for those of other nodes; empty if there is none.
        port: The TCP port at that address.
        uses_tls: Whether connections to that port use TLS.
        run: Identifies the run of the epoch.
        key: Known to those that take part in the run only.
        where: The subtask, for messages.
        partitions: How many partitions it serves.
        schema: Of the records.
    """

    path: str
    host: str
    port: int
    uses_tls: bool
    run: bytes
    key: bytes = field(repr=False)
    where: str = ""
    partitions: int = 0
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def reach(self) -> wire.Reach:
        """What executors need of it."""
        return self.path, self.host, self.port, self.uses_tls, self.run, self.key, self.where


@dataclass(frozen=True)
class Pushed:
    """A partition of the results that counts.

    Attributes:
        target: Index of the endpoint that has it.
        partition: Its number among all partitions of the results.
        attempt: Of the Spark task that pushed it.
        rows: How many rows it has.
    """

    target: int
    partition: int
    attempt: int
    rows: int


class ExchangeServer:
    """Listens for executors, from the first run on, until it is closed.

    Args:
        where: The operator and subtask, for messages.
        listen: Returns how executors of other nodes reach this process; `None` if there are none.
        directory: For results that do not fit into memory; created when it is needed.
    """

    def __init__(self, where: str, listen: Callable[[], ListenOn | None], directory: str) -> None:
        self._where = where
        self._listen = listen
        self._directory = directory
        self._tls: TlsIdentities | None = None
        self._runs: dict[bytes, Run] = {}
        self._lock = threading.Lock()
        self._strangers = threading.Semaphore(_MOST_STRANGERS)
        self._sockets: list[socket.socket] = []
        self._listeners = Listeners(self._opened)
        self._numbers = itertools.count()
        self._bound: Address | None = None
        self._closed = threading.Event()

    def serve(self, table: pa.Table, partitions: int, memory_bytes: int) -> Run:
        """Serve the records of an epoch and take its results, until the run is closed.

        Args:
            table: The records.
            partitions: How many parts to make of them.
            memory_bytes: Results beyond this go to local disk.

        Raises:
            SparkExchangeError: It cannot listen.
            ConfigurationError: Ray uses TLS, and this process has no certificate that can be used.
        """
        address = self._address()
        endpoint = Endpoint(
            address.path,
            address.host,
            address.port,
            address.uses_tls,
            secrets.token_bytes(wire.RUN_BYTES),
            secrets.token_bytes(wire.MAC_BYTES),
            self._where,
            partitions,
            table.schema,
        )
        run = Run(endpoint, table, memory_bytes, self._file_name, self._forget)
        with self._lock:
            self._runs[endpoint.run] = run
        return run

    def _address(self) -> Address:
        with self._lock:
            if self._bound is None:
                listen = self._listen()
                if listen is not None and listen.tls is not None:
                    self._tls = TlsIdentities(listen.tls)
                try:
                    self._bound = self._listeners.address("", listen)
                except OSError as error:
                    raise SparkExchangeError(
                        f"{self._where}: the task cannot listen for Spark's executors: {error}"
                    ) from error
            return self._bound

    def close(self) -> None:
        """End all runs, and listen no more."""
        self._closed.set()
        for run in list(self._runs.values()):
            run.close()
        for listener in self._sockets:
            # A thread that waits in accept() is woken by this, and not by close().
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        self._listeners.close()

    def _forget(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.endpoint.run, None)

    def _file_name(self) -> str:
        os.makedirs(self._directory, exist_ok=True)
        return os.path.join(self._directory, f"spark-results-{next(self._numbers)}.arrow")

    # ------------------------------------------------------------ threads

    def _opened(self, listener: socket.socket) -> None:
        self._sockets.append(listener)
        listener.setblocking(True)
        self._thread(lambda: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                # The process may have too many open files for a moment.
                self._closed.wait(_REST_S)
                continue
            self._strangers.acquire()
            self._thread(lambda connection=connection: self._talk(connection))  # type: ignore[misc]

    def _thread(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name="tidegate-spark-exchange", daemon=True).start()

    def _talk(self, connection: Any) -> None:
        secured = connection
        try:
            try:
                connection.settimeout(_HANDSHAKE_S)
                secured, binding = self._secured(connection)
                run = self._proved(secured, binding)
            finally:
                self._strangers.release()
            if run is not None:
                secured.settimeout(None)
                run.talk(secured)
        except (OSError, EOFError):
            # The executor ended; Spark starts the task again.
            return
        finally:
            secured.close()

    def _secured(self, connection: socket.socket) -> tuple[Any, bytes]:
        if connection.family == socket.AF_UNIX:
            return connection, b""
        set_tcp_options(connection)
        if self._tls is None:
            return connection, b""
        identity = self._tls.current()
        secured = identity.server.wrap_socket(connection, server_side=True)
        theirs = secured.getpeercert(binary_form=True)
        assert theirs is not None, "the other end must have one"
        return secured, hashlib.sha256(theirs).digest() + identity.fingerprint

    def _proved(self, connection: Any, binding: bytes) -> Run | None:
        """The run whose key the other end knows."""
        hello = wire.exactly(connection, wire.HELLO_BYTES).to_pybytes()
        if not hello.startswith(wire.MAGIC):
            return None
        run = self._runs.get(hello[len(wire.MAGIC) :][: wire.RUN_BYTES])
        if run is None:
            connection.sendall(b"\0")
            return None
        key, nonce = run.endpoint.key, secrets.token_bytes(wire.NONCE_BYTES)
        connection.sendall(b"\1" + nonce + wire.mac(key, b"subtask", binding, hello, nonce))
        proof = wire.exactly(connection, wire.MAC_BYTES).to_pybytes()
        return run if hmac.compare_digest(proof, wire.mac(key, b"executor", binding, hello, nonce)) else None


class Run:
    """One run of an epoch: its records, and what was pushed. Threads of the server call `talk`.

    Args:
        endpoint: Where executors find it.
        table: The records.
        memory_bytes: Results beyond this go to local disk.
        file_name: Returns the path of a new file.
        closed: Called when the run ends.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        table: pa.Table,
        memory_bytes: int,
        file_name: Callable[[], str],
        closed: Callable[[Run], None],
    ) -> None:
        self.endpoint = endpoint
        self._table = table
        self._memory_bytes = memory_bytes
        self._file_name = file_name
        self._closed = closed
        self._lock = threading.Lock()
        self._pushed: dict[tuple[int, int], _Results] = {}
        self._connections: set[Any] = set()
        self._is_closed = False
        self._times: dict[bytes, tuple[int, int]] = {}

    def times_ns(self, kind: bytes) -> tuple[int, int] | None:
        """When the first transfer began and the last one ended, in wall-clock time; `None` if there was none.

        Args:
            kind: `READ` for records, `PUSH` for results.
        """
        with self._lock:
            return self._times.get(kind)

    def moved(self, table: pa.Table) -> None:
        """Serve the same records from another place, so that those served before leave memory."""
        self._table = table

    def results(self, pushed: Iterable[Pushed], schema: pa.Schema) -> pa.Table:
        """The results of the listed partitions, in the order of their numbers.

        Those on local disk are mapped into memory.

        Raises:
            KeyError: A partition has not been pushed here.
        """
        batches: list[pa.RecordBatch] = []
        for each in sorted(pushed, key=lambda each: each.partition):
            batches += self._pushed[each.partition, each.attempt].batches(schema)
        return pa.Table.from_batches(batches, schema)

    def close(self) -> None:
        """Refuse everything from now on, and remove the files."""
        with self._lock:
            self._is_closed = True
            connections, pushed = list(self._connections), list(self._pushed.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for results in pushed:
            results.remove()
        self._closed(self)

    def talk(self, connection: Any) -> None:
        """Answer one request.

        Raises:
            OSError: The connection was lost, as for `EOFError`.
        """
        with self._lock:
            if self._is_closed:
                return
            self._connections.add(connection)
        try:
            kind, body = wire.receive(connection)
            if kind == wire.READ:
                self._send(connection, *_read_request(body))
            elif kind == wire.PUSH:
                self._take(connection, *struct.unpack(wire.PUSH_BODY, body))
        finally:
            with self._lock:
                self._connections.discard(connection)

    # ------------------------------------------------------------ records

    def _send(self, connection: Any, partition: int, schema: pa.Schema) -> None:
        rows, began_ns = 0, time.time_ns()
        try:
            for batch in self._batches(partition, schema):
                wire.send(connection, wire.BATCH, batch.serialize())
                rows += batch.num_rows
        except pa.ArrowException as error:
            wire.send(connection, wire.FAILED, f"a record cannot be given to Spark: {error}".encode())
        else:
            self._transferred(wire.READ, began_ns)
            wire.send(connection, wire.END, struct.pack(wire.END_BODY, rows))

    def _batches(self, partition: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The batches of a partition, none of them large."""
        table, count = self._table, self.endpoint.partitions
        start, end = (table.num_rows * number // count for number in (partition, partition + 1))
        row_bytes = table.nbytes // max(1, table.num_rows)
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))
        for first in range(start, end, step):
            part = table.slice(first, min(step, end - first))
            if part.schema.names != schema.names:
                # Another subtask has more columns.
                part = pa.concat_tables([schema.empty_table(), part], promote_options="permissive")
            # Before this, a column may be larger than a batch can be.
            yield from part.cast(schema).combine_chunks().to_batches()

    # ------------------------------------------------------------ results

    def _take(self, connection: Any, partition: int, attempt: int) -> None:
        results, began_ns = _Results(self._has_room, self._file_name), time.time_ns()
        failure: OSError | None = None
        try:
            while (message := wire.receive(connection))[0] == wire.BATCH:
                # After a failure the rest is read, or the executor would not read the answer.
                if failure is None:
                    try:
                        results.add(message[1])
                    except OSError as error:
                        failure = error
            if failure is not None:
                wire.send(connection, wire.FAILED, f"results cannot be stored: {failure}".encode())
            elif self._keep(partition, attempt, results):
                self._transferred(wire.PUSH, began_ns)
                wire.send(connection, *message)
        finally:
            if results is not self._pushed.get((partition, attempt)):
                results.remove()

    def _keep(self, partition: int, attempt: int, results: _Results) -> bool:
        results.end()
        with self._lock:
            if not self._is_closed:
                self._pushed[partition, attempt] = results
            return not self._is_closed

    def _transferred(self, kind: bytes, began_ns: int) -> None:
        """Note a transfer. Comes before its last message, so that it is known when Spark's job has ended."""
        with self._lock:
            first_ns, last_ns = self._times.get(kind, (began_ns, 0))
            self._times[kind] = min(first_ns, began_ns), max(last_ns, time.time_ns())

    def _has_room(self, size_bytes: int) -> bool:
        """Whether results of this size may stay in memory; they do then."""
        with self._lock:
            has_room = size_bytes <= self._memory_bytes
            self._memory_bytes -= size_bytes if has_room else 0
            return has_room


class _Results:
    """What one Spark task pushes: Arrow IPC messages, the first in memory, and the others in a file.

    Args:
        has_room: Reserves memory.
        file_name: Returns the path of a new file.
    """

    def __init__(self, has_room: Callable[[int], bool], file_name: Callable[[], str]) -> None:
        self._has_room = has_room
        self._file_name = file_name
        self._messages: list[pa.Buffer] = []
        self._path = ""
        self._file: Any = None

    def add(self, message: pa.Buffer) -> None:
        """Take the next batch. Raises `OSError` if the disk refuses it."""
        if self._file is None and self._has_room(message.size):
            self._messages.append(message)
            return
        if self._file is None:
            self._path = self._file_name()
            self._file = pa.OSFile(self._path, "wb")
        self._file.write(message)

    def end(self) -> None:
        """There are no more. Raises `OSError` if the disk refuses what was written."""
        if self._file is not None:
            self._file.close()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The batches; those in the file are mapped into memory."""
        for message in self._messages:
            yield pa.ipc.read_record_batch(message, schema)
        if self._path:
            with pa.memory_map(self._path) as source:
                while source.tell() < source.size():
                    yield pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)

    def remove(self) -> None:
        """Forget them. What has been mapped can still be read."""
        self.end()
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._path)


def _read_request(body: pa.Buffer) -> tuple[int, pa.Schema]:
    size = struct.calcsize(wire.READ_BODY)
    (partition,) = struct.unpack(wire.READ_BODY, body.slice(0, size))
    return partition, pa.ipc.read_schema(body.slice(size))
