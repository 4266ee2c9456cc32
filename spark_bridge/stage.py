"""A Spark stage inside the barrier graph.

The stage gathers records and runs them through Spark epoch by epoch, on threads of its own. The task's loop
never waits for Spark: records whose results have not been emitted are the stage's state. After a failure they
run again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..common import failpoints
from ..common.errors import ConfigurationError, TidegateError, UserCodeError
from ..operators.base import OperatorContext
from ..operators.epoch_stage import RUNNING_SUBTASK, EpochStageOperator
from ..operators.output import Output
from ..protocol.channels.listening import ANY_PORT, ListenRule
from ..protocol.elements import Batch, ColumnBatch
from ..protocol.stages.epochs import EpochLimits
from .epoch_runner import EpochRunner
from .epoch_trace import EpochParts
from .epochs import RecordTables
from .exchange import exchange_frames as exchange
from .exchange.exchange_server import Endpoint, Pushed, Run
from .failures import cause_of
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host
from .stage_server import exchange_server

EPOCH = "epoch"
"""The name of an epoch's records in the query of `SparkQuery`."""


@dataclass(frozen=True)
class StageSettings:
    """How one stage runs.

    Attributes:
        session: How the session of the job is started.
        input_schema: Arrow schema of the records that come in; without it, it is taken from Arrow
            batches, from the fields of rows and dicts, or inferred with columns `_1`, `_2`, …
        limits: What bounds its epochs.
        configs: Settings of Spark SQL for this stage alone.
        listen_rule: Where executors of other nodes reach the stage.
    """

    session: SparkSettings
    input_schema: pa.Schema | None
    limits: EpochLimits
    configs: Mapping[str, str] = field(default_factory=dict)
    listen_rule: ListenRule = ANY_PORT


@dataclass(frozen=True)
class SparkQuery:
    """A stage's function that is a query: the epoch's records are `{epoch}` in it."""

    query: str

    def __call__(self, frame: Any) -> Any:
        return frame.sparkSession.sql(self.query, **{EPOCH: frame})


@dataclass(frozen=True)
class _Offer:
    """The records of an epoch in one subtask."""

    endpoint: Endpoint
    records: int


@dataclass(frozen=True)
class _Epoch:
    """What a run gets: its own records, which are not served yet, and those of other subtasks."""

    number: int
    own: pa.Table | None
    offers: tuple[_Offer | None, ...]
    records: int

    def endpoints(self, run: Run | None) -> dict[int, Endpoint]:
        """Where the records are, by subtask; `run` serves the own ones."""
        found = {} if run is None else {RUNNING_SUBTASK: run.endpoint}
        return found | {index: offer.endpoint for index, offer in enumerate(self.offers) if offer is not None}


class SparkStageOperator(EpochStageOperator):
    """Runs `function(DataFrame) -> DataFrame` once per epoch.

    Args:
        function: The user's function; it may use `df.sparkSession`.
        schema: Arrow schema of the result. Records leave as Arrow batches of it.
        settings: How the stage runs.
    """

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema, settings: StageSettings) -> None:
        super().__init__(settings.limits)
        self._function = function
        self._schema = schema
        self._settings = settings
        self._runner: EpochRunner | None = None
        self._lease: SparkSessionLease | None = None
        self._own_session: Any = None

    def validate(self) -> None:
        """Find a Java before anything starts; workers that this process starts inherit it."""
        require_java().use()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = f"operator {context.name_with_subtask}"
        self._records = RecordTables(self._where, self._settings.input_schema)
        self._own_session_lock = threading.Lock()
        self._own_results: dict[int, pa.Table] = {}
        self._served: dict[int, Run] = {}
        session = self._settings.session
        self._server = exchange_server(self._where, session, self._settings.listen_rule, context.local_dir)

    def to_table(self, batch: Batch) -> pa.Table:
        return self._records.table(batch)

    def start_runner(self, started: Callable[[], None]) -> None:
        settings = self._settings
        lease = self._lease = session_host().acquire(settings.session)
        self._runner = EpochRunner(
            self.context, lease, settings.limits.max_running, settings.session.start_timeout_s
        )
        self._runner.start(started)

    def offer_share(self, number: int, tables: list[pa.Table]) -> _Offer | None:
        """Where executors find the records. A run serves those of its own subtask itself."""
        if not tables or self.context.subtask_index == RUNNING_SUBTASK:
            return None
        table = self._records.joined(tables)
        self._served[number] = self._serve(table)
        return _Offer(self._served[number].endpoint, table.num_rows)

    def share_spilled(self, number: int, tables: list[pa.Table]) -> None:
        if number in self._served:
            self._served[number].moved(self._records.joined(tables))

    def run_epoch(
        self, number: int, offers: Sequence[Any], finished: Callable[[Sequence[Any]], None]
    ) -> None:
        assert self._runner is not None, "an epoch runs only after the runner has started"
        failpoints.reach("spark_stage")
        tables = self._tables.tables(number)
        own = self._records.joined(tables) if tables else None
        records = sum(offer.records for offer in offers if offer is not None)
        records += 0 if own is None else own.num_rows
        epoch = _Epoch(number, own, tuple(offers), records)
        self._runner.submit(
            number, lambda session, parts: self._run(session, epoch, parts), records, finished
        )

    def collect_results(self, number: int, part: Any) -> pa.Table:
        results = self._own_results.pop(number, None)
        run = self._served.pop(number, None)
        if run is None:
            return self._schema.empty_table() if results is None else results
        with contextlib.closing(run):
            return run.results(part, self._schema)

    def emit_results(self, results: pa.Table) -> None:
        for batch in results.to_batches():
            # A slice shares its table; where it leaves the process only its own rows are copied.
            self.emit(ColumnBatch(batch))

    @property
    def web_ui(self) -> str:
        return "" if self._lease is None else self._lease.web_ui

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._server.close()
        super().close()

    # ------------------------------------------------------------ on a thread of the runner

    def _run(self, shared: Any, epoch: _Epoch, parts: EpochParts) -> list[list[Pushed]]:
        where = f"{self._where}, epoch {epoch.number}"
        assert self._lease is not None, "an epoch runs only after the runner has started"
        try:
            with self._lease.losses(where), contextlib.ExitStack() as stack:
                run = None
                if epoch.own is not None:
                    run = stack.enter_context(contextlib.closing(self._serve(epoch.own)))
                    parts.follow(run)
                pushed = self._run_in_spark(where, shared, epoch.endpoints(run))
                if run is not None:
                    self._own_results[epoch.number] = run.results(pushed[RUNNING_SUBTASK], self._schema)
                return pushed
        except TidegateError:
            raise
        except Exception as error:
            failed = exchange.exchange_error(error)
            if failed is not None:
                raise failed from error
            raise UserCodeError(
                f"{where}: its Spark job failed on {epoch.records} records: {cause_of(error)}. Correct the "
                f"function: a restarted job runs it on these records again"
            ) from error

    def _run_in_spark(self, where: str, shared: Any, endpoints: dict[int, Endpoint]) -> list[list[Pushed]]:
        """The partitions of the results that each subtask has. One without records gets none."""
        served = list(endpoints.values())
        frame = self._function(exchange.input_frame(self._session_of(shared), served))
        self._check_schema(where, frame)
        subtasks = list(endpoints)
        parts: list[list[Pushed]] = [[] for _ in range(self.context.parallelism)]
        for pushed in exchange.push(frame, self._schema, served):
            parts[subtasks[pushed.target]].append(pushed)
        return parts

    def _serve(self, table: pa.Table) -> Run:
        session, limits = self._settings.session, self._settings.limits
        cores = session.num_executors * session.executor_cores
        partitions = exchange.partitions_of(table, -(-cores // self.context.parallelism))
        return self._server.serve(table, partitions, limits.memory_bytes // limits.max_running)

    def _session_of(self, shared: Any) -> Any:
        if not self._settings.configs:
            return shared
        with self._own_session_lock:
            if self._own_session is None:
                self._own_session = self._configured(shared.newSession())
            return self._own_session

    def _configured(self, session: Any) -> Any:
        for key, value in self._settings.configs.items():
            try:
                session.conf.set(key, value)
            except Exception as error:
                raise ConfigurationError(
                    f"{self._where}: {key} cannot be set for one stage: "
                    f"{cause_of(error)}. Only settings of Spark SQL can; the others are those of the "
                    f"session: tidegate.spark.conf"
                ) from error
        return session

    def _check_schema(self, where: str, frame: Any) -> None:
        from pyspark.sql import DataFrame

        if not isinstance(frame, DataFrame):
            raise UserCodeError(
                f"{where}: the stage's function returned {type(frame).__name__}; return a Spark DataFrame"
            )
        found = exchange.arrow_schema_of(frame)
        if found.names != self._schema.names or not _types_fit(found, self._schema):
            raise UserCodeError(
                f"{where}: the stage was declared with the schema "
                f"{_text(self._schema)} but its function returned {_text(found)}; select and cast "
                f"the columns, or correct the declaration"
            )


def _types_fit(found: pa.Schema, declared: pa.Schema) -> bool:
    """Whether every column can be cast without a guess: the same kind of type."""
    return all(
        left.equals(right)
        or (pa.types.is_timestamp(left) and pa.types.is_timestamp(right))
        or (pa.types.is_integer(left) and pa.types.is_integer(right))
        for left, right in zip(found.types, declared.types)
    )


def _text(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"
