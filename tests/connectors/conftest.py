"""A real PostgreSQL for the session, and a schema of its own for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import pytest
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.operators.base import OperatorContext
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.ids import Attempt, JobId
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.testing import PostgresServer

from .object_server import ObjectServer, ObjectStore

_NUMBERS = count(1)


@dataclass(frozen=True)
class TestDatabase:
    """An empty schema on the server of the session; names without a schema mean it."""

    __test__ = False

    server: PostgresServer
    name: str

    @property
    def conninfo(self) -> str:
        return f"{self.server.conninfo()} options=--search_path={self.name}"

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """Run one statement; its rows, if it has any."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        """The names of the transactions that are prepared and not decided."""
        found = self.query("SELECT gid FROM pg_prepared_xacts ORDER BY 1")
        return [name for (name,) in found]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer) -> TestDatabase:
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
    return TestDatabase(postgres_server, name)


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        yield server


@pytest.fixture
def object_store(object_server: ObjectServer) -> ObjectStore:
    return object_server.create_store(f"bucket-{next(_NUMBERS)}")


_STORAGE = MemoryCheckpointStorage()


def _nothing(*_: Any) -> Any:
    raise AssertionError("a connector needs neither keyed state nor results")


@pytest.fixture
def operator_context() -> Callable[..., OperatorContext]:
    """Makes the context of a subtask, by `attempt`, `subtask`, `parallelism`, `uid`, `job` and `now_ms`."""

    def make(
        attempt: int = 1,
        subtask: int = 0,
        parallelism: int = 1,
        uid: str = "sink",
        job: str = "job",
        now_ms: Callable[[], int] = lambda: 0,
    ) -> OperatorContext:
        return OperatorContext(
            operator_uid=uid,
            operator_name="numbers",
            subtask_index=subtask,
            parallelism=parallelism,
            max_parallelism=128,
            attempt=Attempt(attempt),
            attempt_number=attempt - 1,
            is_checkpointing=True,
            is_restored=attempt > 1,
            now_ms=now_ms,
            processing_time=ProcessingTimeService(now_ms),
            mailbox=_nothing,
            create_keyed_backend=_nothing,
            operator_state=OperatorStateBackend(
                OperatorStateBackendParameters(uid, "numbers", subtask, attempt, _STORAGE)
            ),
            local_dir="",
            results=None,  # type: ignore[arg-type]
            job_id=JobId(job),
        )

    return make


@pytest.fixture
def local_env(tmp_path: Any) -> Callable[..., StreamExecutionEnvironment]:
    """Makes an environment in the local shell that checkpoints often.

    Keywords are further options, empty for none.
    """

    def make(parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
        configuration = Configuration()
        for key, value in {
            "execution.target": "local",
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **{name.replace("_", "."): value for name, value in options.items()},
        }.items():
            if value:
                configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        return env.set_parallelism(parallelism)

    return make
