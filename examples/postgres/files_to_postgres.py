"""Orders from JSON lines into PostgreSQL, exactly once, and a total per shop beside them, one row each.

python files_to_postgres.py DIRECTORY CONNECTION     reads the files, and creates two tables
python files_to_postgres.py --demo                   makes files, and runs a server of its own
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import psycopg
import pyarrow as pa
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSource, JsonLinesFormat
from tidegate.datastream.connectors.postgres import PostgresSink, PostgresUpsertSink
from tidegate.testing import PostgresServer

ORDERS = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("price", pa.float64())])
TABLES = """
CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, shop text, price float8);
CREATE TABLE IF NOT EXISTS totals (shop text PRIMARY KEY, orders bigint, total float8);
"""


def build(env: StreamExecutionEnvironment, directory: str, connection: str) -> None:
    source = FileSource(directory, file_format=JsonLinesFormat(ORDERS))
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
    orders.sink_to(PostgresSink(connection, "orders", transaction_prefix="files-example")).uid("orders")

    one_each = orders.map(lambda order: (order[1], 1, order[2])).uid("one-each")
    totals = one_each.key_by(lambda total: total[0]).reduce(
        lambda left, right: (left[0], left[1] + right[1], left[2] + right[2])
    )
    totals.uid("totals").sink_to(PostgresUpsertSink(connection, "totals", keys=["shop"])).uid("totals-table")


def run(directory: str, connection: str) -> None:
    with psycopg.connect(connection) as session:
        session.execute(TABLES)
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "200 ms")
    with tempfile.TemporaryDirectory() as checkpoints:
        configuration.set_string("execution.checkpointing.dir", checkpoints)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        build(env, directory, connection)
        env.execute("files to PostgreSQL")


def demo() -> None:
    with tempfile.TemporaryDirectory() as directory, PostgresServer() as server:
        for part in range(4):
            orders = ({"id": n, "shop": f"shop {n % 3}", "price": 1.5} for n in range(part, 400, 4))
            lines = "".join(json.dumps(order) + "\n" for order in orders)
            Path(directory, f"{part}.jsonl").write_text(lines, "utf-8")
        run(directory, server.conninfo())
        with psycopg.connect(server.conninfo()) as session:
            print(*session.execute("SELECT count(*), count(DISTINCT id) FROM orders"))
            print(*session.execute("SELECT * FROM totals ORDER BY shop"), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--demo"]:
        demo()
    else:
        run(*sys.argv[1:])
