"""What executors do: fetch the records of a partition from a subtask, and push results to one.

Executors need PyArrow and not Tidegate, so this module imports nothing else, and its functions travel to
them by value (see `exchange.travelling`).

The connection, with lengths in big endian:

    end        sends
    executor   magic, the run (16 bytes), a nonce (32)
    subtask    1, a nonce, a MAC; or 0 if it does not have the run
    executor   a MAC
    executor   one request, `READ` or `PUSH`; batches follow in one of the directions

A MAC is HMAC-SHA256 with the key of the run, of everything that both ends have sent, of the name of the end
that sends it, and of both certificates where TLS is used. The subtask looks at nothing else before. A message
is its kind (1 byte), its length (8 bytes) and its body. A batch is the Arrow IPC message of a record batch.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import hmac
import os
import secrets
import socket
import ssl
import struct
import sys
import zipimport
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

MAGIC = b"tidegate spark 1"
RUN_BYTES = 16
NONCE_BYTES = 32
MAC_BYTES = 32
HELLO_BYTES = len(MAGIC) + RUN_BYTES + NONCE_BYTES
WELCOME_BYTES = 1 + NONCE_BYTES + MAC_BYTES

READ, PUSH, BATCH, END, FAILED = b"R", b"P", b"B", b"E", b"F"
READ_BODY = ">I"
"""The partition; the schema of the batches, as an Arrow IPC message, follows."""
PUSH_BODY = ">IQ"
"""The result's partition, and the attempt of its Spark task."""
END_BODY = ">Q"
"""The number of rows."""
_PREFIX = ">cQ"
PREFIX_BYTES = 9

CONNECT_TIMEOUT_S = 10.0
PEM_END = "-----END CERTIFICATE-----"

Reach = tuple[str, str, int, bool, bytes, bytes, str]
"""Unix-domain socket, host (or empty), port, whether that uses TLS, run, key, and the subtask's name."""


class ExchangeError(Exception):
    """Records cannot be exchanged with a subtask of the stage."""


def mac(key: bytes, who: bytes, *said: bytes) -> bytes:
    """Proves that the end `who` knows the key."""
    return hmac.digest(key, b"".join([who, *said]), "sha256")


def send(connection: Any, kind: bytes, body: Any = b"") -> None:
    """Send a message; `body` is anything with bytes."""
    size = len(body) if isinstance(body, bytes) else body.size
    connection.sendall(struct.pack(_PREFIX, kind, size))
    if size:
        connection.sendall(body)


def receive(connection: Any) -> tuple[bytes, Any]:
    """The next message: its kind, and its body as a buffer. Raises `EOFError` when the other end is gone."""
    kind, size = struct.unpack(_PREFIX, exactly(connection, PREFIX_BYTES))
    return kind, exactly(connection, size)


def exactly(connection: Any, size: int) -> Any:
    """So many bytes, as a buffer. Raises `EOFError` when the other end is gone."""
    buffer = pa.allocate_buffer(size)
    rest = memoryview(buffer)
    while len(rest):
        count = connection.recv_into(rest)
        if not count:
            raise EOFError("the other end closed the connection")
        rest = rest[count:]
    return buffer


def read_partition(reach: Reach, partition: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of a partition.

    Args:
        reach: Of the subtask that has it.
        partition: Its number there.
        schema: Of the batches; the subtask converts its records to it.

    Raises:
        ExchangeError: The subtask cannot be reached, or cannot give the records.
    """
    with _connected(reach) as connection:
        send(connection, READ, struct.pack(READ_BODY, partition) + schema.serialize().to_pybytes())
        rows = 0
        while (message := receive(connection))[0] == BATCH:
            batch = pa.ipc.read_record_batch(message[1], schema)
            rows += batch.num_rows
            yield batch
        _check_end(reach, message, rows)


def push_partition(
    reaches: list[Reach], partition: int, attempt: int, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> tuple[int, int]:
    """Push the batches of a result's partition to one of the subtasks, of this node if possible.

    Args:
        reaches: Of all subtasks.
        partition: Number of the partition.
        attempt: Of the Spark task: results of failed attempts do not count.
        batches: The results.
        schema: What they are converted to.

    Returns:
        The index of the subtask, and the number of rows.

    Raises:
        ExchangeError: The subtask cannot be reached, or refuses the results.
    """
    target = chosen(reaches, partition)
    with _connected(reaches[target]) as connection:
        send(connection, PUSH, struct.pack(PUSH_BODY, partition, attempt))
        rows = 0
        for batch in batches:
            for part in converted(batch, schema):
                send(connection, BATCH, part.serialize())
            rows += batch.num_rows
        send(connection, END, struct.pack(END_BODY, rows))
        _check_end(reaches[target], receive(connection), rows)
    return target, rows


def one_row(schema: pa.Schema, values: tuple[int, ...]) -> pa.RecordBatch:
    """A batch of one row.

    `pyarrow.array` would import pandas to recognise its types: 0.5 s of CPU time and 37 MB in each worker.

    Args:
        schema: Columns of type int64.
        values: One for each column.
    """
    columns = [
        pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(struct.pack("=q", value))])
        for value in values
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.RecordBatch]:
    """A batch of this schema; Spark's types may differ by a unit or the width of an integer."""
    if batch.schema.types == schema.types:
        return [batch]
    found = pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema)
    parts: list[pa.RecordBatch] = found.to_batches()
    return parts


def chosen(reaches: list[Reach], partition: int) -> int:
    """Which subtask gets the results of a partition: those of this node take turns, else all."""
    if len(reaches) == 1:
        return 0
    near = [index for index, reach in enumerate(reaches) if _is_near(reach)]
    candidates = near or list(range(len(reaches)))
    return candidates[partition % len(candidates)]


def prepare_worker() -> None:
    """Make the tasks of this Python worker of Spark cheaper. Each task calls it.

    PySpark begins each task with `importlib.invalidate_caches()`, which reads the list of files in
    `pyspark.zip` again for each package that was imported from there: 0.1 s of CPU time. Importers are
    created again as needed. PySpark ends each task with a garbage collection, and the worker's next task
    waits for it. It examines all objects of all imports, except for those that are frozen.
    """
    cache = sys.path_importer_cache
    for path in [path for path, importer in cache.items() if isinstance(importer, zipimport.zipimporter)]:
        del cache[path]
    if not gc.get_freeze_count():
        gc.freeze()


def _is_near(reach: Reach) -> bool:
    try:
        _dial_unix(reach[0]).close()
    except OSError:
        return False
    return True


def _dial_unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _connected(reach: Reach) -> Iterator[Any]:
    """A connection on which both ends have proved that they know the key."""
    try:
        connection, binding = _dial(reach)
        try:
            _prove(connection, reach, binding)
            # How fast records move depends on what the query does with them.
            connection.settimeout(None)
            yield connection
        finally:
            connection.close()
    except (OSError, EOFError) as error:
        _path, host, port, _tls, _run, _key, where = reach
        address = f"{host}:{port}" if host else "its Unix-domain socket"
        raise ExchangeError(
            f"{where}: the connection to the task at {address} was lost or cannot be opened ({error}). "
            f"Either the task has ended, and the job has begun another attempt, or the network does not "
            f"allow connections from this executor"
        ) from error


def _dial(reach: Reach) -> tuple[Any, bytes]:
    path, host, port, uses_tls, *_ = reach
    try:
        return _dial_unix(path), b""
    except OSError:
        # It is on another node.
        if not host:
            raise
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _with_tls(connection) if uses_tls else (connection, b"")
    except BaseException:
        connection.close()
        raise


def _with_tls(connection: socket.socket) -> tuple[Any, bytes]:
    """TLS with the certificates that Ray uses on this node."""
    names = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise OSError(f"the task uses TLS, and {', '.join(missing)} is not set on the executor's node")
    certificate, private_key, authority = (os.environ[name] for name in names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The key of the run, bound to both certificates, says who the other end is.
    context.check_hostname = False
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, private_key, password=lambda: "")
    secured = context.wrap_socket(connection)
    with open(certificate, encoding="ascii", errors="replace") as file:
        text = file.read()
    first = text[text.index("-----BEGIN") : text.index(PEM_END) + len(PEM_END)]
    mine = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest()
    return secured, mine + hashlib.sha256(secured.getpeercert(binary_form=True) or b"").digest()


def _prove(connection: Any, reach: Reach, binding: bytes) -> None:
    run, key, where = reach[4:]
    hello = MAGIC + run + secrets.token_bytes(NONCE_BYTES)
    connection.sendall(hello)
    if exactly(connection, 1).to_pybytes() == b"\0":
        raise ExchangeError(
            f"{where}: the records of this epoch are not there any more. A DataFrame of a stage is valid "
            f"only until the function of its epoch has returned; do not keep it for a later epoch"
        )
    answer = exactly(connection, WELCOME_BYTES - 1).to_pybytes()
    nonce, proof = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
    if not hmac.compare_digest(proof, mac(key, b"subtask", binding, hello, nonce)):
        raise OSError("another process answers at this address")
    connection.sendall(mac(key, b"executor", binding, hello, nonce))


def _check_end(reach: Reach, message: tuple[bytes, Any], rows: int) -> None:
    kind, body = message
    if kind == FAILED:
        raise ExchangeError(f"{reach[6]}: {body.to_pybytes().decode()}")
    if kind != END or struct.unpack(END_BODY, body)[0] != rows:
        raise ExchangeError(f"{reach[6]}: the connection carried {rows} rows and then something else")
