"""The subtask's end of the exchange, with the executors' end in the same process and no Spark."""

from __future__ import annotations

import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tidegate.runtime.network.listeners import ListenOn
from tidegate.runtime.network.tls_files import AUTHORITY, CERTIFICATE, KEY
from tidegate.spark_bridge.exchange import exchange_client as client
from tidegate.spark_bridge.exchange import exchange_frames as exchange
from tidegate.spark_bridge.exchange.exchange_server import Endpoint, ExchangeServer, Pushed, Run

from ..certificates import Authority

NUMBERS = pa.table({"id": range(100)})
WHERE = "operator join (1/1)"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ExchangeServer]:
    made = ExchangeServer(WHERE, lambda: None, str(tmp_path / "spilled"))
    yield made
    made.close()


def batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=rows))


def read(endpoint: Endpoint, partition: int) -> list[int]:
    found = client.read_partition(endpoint.reach, partition, NUMBERS.schema)
    return [number for batch in found for number in batch.column(0).to_pylist()]


def push(run: Run, table: pa.Table, partition: int, attempt: int) -> Pushed:
    target, rows = client.push_partition(
        [run.endpoint.reach], partition, attempt, batches(table, 10), NUMBERS.schema
    )
    return Pushed(target, partition, attempt, rows)


def numbers(table: pa.Table) -> list[int]:
    return list(table["id"].to_pylist())


def test_partitions_are_read_any_number_of_times(server: ExchangeServer) -> None:
    run = server.serve(NUMBERS, 3, 0)
    for _ in range(2):
        assert [number for part in range(3) for number in read(run.endpoint, part)] == list(range(100))


def test_wide_rows_are_sent_in_small_batches(server: ExchangeServer) -> None:
    blobs = pa.table({"blob": [b"x" * 3_000_000] * 10})
    run = server.serve(blobs, 1, 0)
    sizes = [each.num_rows for each in client.read_partition(run.endpoint.reach, 0, blobs.schema)]
    assert (sum(sizes), max(sizes)) == (10, 2)


def test_a_column_larger_than_a_batch_can_be_is_read(server: ExchangeServer) -> None:
    text = pa.array(["x" * (1 << 20)])
    column = pa.chunked_array([text.cast(pa.large_string())] * 2_049)
    run = server.serve(pa.table({"text": column}), 1, 0)
    schema = pa.schema([("text", pa.string())])
    found = client.read_partition(run.endpoint.reach, 0, schema)
    assert sum(batch.nbytes for batch in found) > 1 << 31


@pytest.mark.parametrize("memory_bytes", [1 << 20, 1_000, 0], ids=["memory", "both", "disk"])
def test_only_listed_attempts_count(server: ExchangeServer, tmp_path: Path, memory_bytes: int) -> None:
    run = server.serve(NUMBERS, 1, memory_bytes)
    push(run, NUMBERS.slice(0, 50), 1, attempt=7)
    counts = [push(run, NUMBERS.slice(30), 1, attempt=8), push(run, NUMBERS.slice(0, 30), 0, attempt=9)]
    found = run.results(counts, NUMBERS.schema)
    run.close()
    assert list((tmp_path / "spilled").glob("*")) == []
    assert numbers(found) == list(range(100)), "what is mapped can be read after its file is gone"


def test_a_task_that_dies_while_it_pushes_leaves_nothing(server: ExchangeServer, tmp_path: Path) -> None:
    run = server.serve(NUMBERS, 1, 0)

    def dies() -> Iterator[pa.RecordBatch]:
        yield from batches(NUMBERS, 10)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        client.push_partition([run.endpoint.reach], 0, 1, dies(), NUMBERS.schema)
    assert numbers(run.results([push(run, NUMBERS, 0, 2)], NUMBERS.schema)) == list(range(100))
    with pytest.raises(KeyError):
        run.results([Pushed(0, 0, 1, 100)], NUMBERS.schema)


def test_a_disk_that_refuses_results_is_an_error_of_the_task(server: ExchangeServer, tmp_path: Path) -> None:
    (tmp_path / "spilled").write_text("a file is where the directory should be")
    run = server.serve(NUMBERS, 1, 0)
    with pytest.raises(client.ExchangeError, match=r"join \(1/1\): results cannot be stored.*spilled"):
        push(run, NUMBERS, 0, 1)


def test_a_record_that_does_not_fit_is_an_error_of_the_task(server: ExchangeServer) -> None:
    run = server.serve(pa.table({"id": [1, 2**40]}), 1, 0)
    with pytest.raises(client.ExchangeError, match=r"cannot be given to Spark: Integer value 1099511627776"):
        list(client.read_partition(run.endpoint.reach, 0, pa.schema([("id", pa.int32())])))


def test_a_run_that_ended_is_refused(server: ExchangeServer) -> None:
    run = server.serve(NUMBERS, 1, 0)
    run.close()
    with pytest.raises(client.ExchangeError, match=r"join \(1/1\): the records of this epoch are not there"):
        read(run.endpoint, 0)


def test_a_connection_ends_with_its_run(server: ExchangeServer) -> None:
    run = server.serve(NUMBERS, 1, 0)

    def closed_meanwhile() -> Iterator[pa.RecordBatch]:
        yield from batches(NUMBERS, 50)
        run.close()

    with pytest.raises(client.ExchangeError, match="connection to the task"):
        client.push_partition([run.endpoint.reach], 0, 1, closed_meanwhile(), NUMBERS.schema)


def test_a_server_that_is_gone_is_named(server: ExchangeServer) -> None:
    run = server.serve(NUMBERS, 1, 0)
    server.close()
    with pytest.raises(
        client.ExchangeError, match=r"join \(1/1\): the connection to the task .* another attempt"
    ):
        read(run.endpoint, 0)


def test_a_subtask_without_some_columns_gives_nulls(server: ExchangeServer) -> None:
    schema = pa.schema([("name", pa.string()), ("id", pa.int64())])
    run, empty = server.serve(NUMBERS.slice(98), 1, 0), server.serve(pa.table({}), 1, 0)
    found = pa.Table.from_batches(client.read_partition(run.endpoint.reach, 0, schema), schema)
    assert found.to_pydict() == {"name": [None, None], "id": [98, 99]}
    assert list(client.read_partition(empty.endpoint.reach, 0, schema)) == []


AS_A_TASK = """
import pickle, sys
import pyarrow as pa
from tidegate.spark_bridge.exchange import exchange_client as client

reach, schema, report = pickle.load(sys.stdin.buffer)
client.prepare_worker()
found = client.read_partition(reach, 0, schema)
target, rows = client.push_partition([reach], 0, 1, found, pa.schema([("id", pa.int32())]))
print(client.one_row(report, (target, 0, 1, rows)).to_pylist(), "pandas" in sys.modules)
"""


def test_a_task_does_not_import_pandas(server: ExchangeServer) -> None:
    # That takes 0.5 s of CPU time and 37 MB in each Python worker, and makes collections of garbage slower.
    run = server.serve(NUMBERS, 1, 1 << 20)
    given = pickle.dumps((run.endpoint.reach, NUMBERS.schema, exchange.PUSHED))
    task = subprocess.run([sys.executable, "-c", AS_A_TASK], input=given, stdout=subprocess.PIPE, check=True)
    row = {"target": 0, "partition": 0, "attempt": 1, "rows": 100}
    assert task.stdout.decode().strip() == f"[{row}] False"


def test_a_stranger_gets_nothing(server: ExchangeServer) -> None:
    run = server.serve(NUMBERS, 1, 0)
    with pytest.raises(client.ExchangeError, match="another process answers"):
        read(replace(run.endpoint, key=bytes(32)), 0)
    hello = client.MAGIC + run.endpoint.run + bytes(client.NONCE_BYTES)
    request = client.READ + struct.pack(">Q", 4) + bytes(4)
    for said in (b"GET / HTTP/1.1\r\n" + bytes(100), hello + bytes(client.MAC_BYTES) + request):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(run.endpoint.path)
            stranger.sendall(said)
            answer = b""
            try:
                while received := stranger.recv(1 << 16):
                    answer += received
            except ConnectionResetError:
                pass
        assert len(answer) in (0, client.WELCOME_BYTES)
    assert read(run.endpoint, 0) == list(range(100))


@pytest.mark.parametrize("uses_tls", [False, True], ids=["plain", "tls"])
def test_executors_of_other_nodes_use_tcp(
    tmp_path: Path, uses_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    mine, theirs = (authority.files(name) for name in ("task", "executor"))
    listen = ListenOn("127.0.0.1", mine if uses_tls else None)
    server = ExchangeServer(WHERE, lambda: listen, str(tmp_path / "spilled"))
    run = server.serve(NUMBERS, 1, 0)
    # As seen from another node, where the Unix-domain socket does not exist.
    there = replace(run.endpoint, path="\0tidegate-other-node")
    assert there.uses_tls is uses_tls
    if uses_tls:
        with pytest.raises(client.ExchangeError, match=f"{CERTIFICATE}, {KEY}, {AUTHORITY} is not set"):
            read(there, 0)
    for name, path in zip((CERTIFICATE, KEY, AUTHORITY), (theirs.certificate, theirs.key, theirs.authority)):
        monkeypatch.setenv(name, path)
    assert read(there, 0) == list(range(100))
    target, rows = client.push_partition([there.reach], 0, 1, batches(NUMBERS, 10), NUMBERS.schema)
    assert numbers(run.results([Pushed(target, 0, 1, rows)], NUMBERS.schema)) == list(range(100))
    with pytest.raises(client.ExchangeError, match="another process answers"):
        read(replace(there, key=bytes(32)), 0)
    server.close()
