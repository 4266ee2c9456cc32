"""A test of a job that writes to PostgreSQL (docs/guide/testing.md): run it with `python -m pytest`."""

import psycopg
import pytest
from tidegate.datastream.connectors.postgres import PostgresAppendSink
from tidegate.testing import PostgresServer


@pytest.fixture(scope="session")
def postgres():
    with PostgresServer() as server:
        yield server


def test_every_order_is_in_the_table(tidegate_env, postgres):
    with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigint, item text)")
        orders = tidegate_env.from_collection([(1, "tea"), (2, "milk")])
        orders.sink_to(PostgresAppendSink(postgres.conninfo(), "orders"))
        tidegate_env.execute()
        assert connection.execute("SELECT * FROM orders ORDER BY id").fetchall() == [(1, "tea"), (2, "milk")]
