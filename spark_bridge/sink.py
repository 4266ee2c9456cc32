"""Epochs of a stream in Spark, exactly once: a write-ahead log in the checkpoint.

The records of an epoch are gathered and, at its barrier, become part of the checkpoint itself, as compressed
Arrow. When the checkpoint is complete, Spark gets them. After a failure it gets the epochs of the restored
checkpoint again, the same records under the same id, so whoever writes them can tell what is there already.
Source: Flink's `GenericWriteAheadSink`, and the batch ids of Spark's `foreachBatch`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from ..common.errors import TidegateError, UserCodeError
from ..operators.base import OperatorContext
from ..operators.sinks import Committer, Sink, SinkOperator, SinkWriter
from ..protocol.channels.listening import ANY_PORT, ListenRule
from ..protocol.elements import Batch, CheckpointBarrier, RowBatch
from ..protocol.ids import CheckpointId
from .epochs import EpochBuffer
from .exchange import exchange_frames as exchange
from .exchange.exchange_server import ExchangeServer
from .failures import cause_of
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host
from .stage_server import exchange_server

_NO_CHECKPOINT = 0
"""Id of the one epoch of a job without checkpoints."""


@dataclass(frozen=True)
class Epoch:
    """The records of an epoch.

    Attributes:
        number: Id of the checkpoint that ends it; a job gives each once, in rising order.
        owner: The job and the operator whose epoch it is.
        data: Arrow stream.
    """

    number: int
    owner: str
    data: bytes = field(repr=False)


class EpochTarget(ABC):
    """What is done with an epoch. Picklable."""

    @abstractmethod
    def commit(self, frame: Any, epoch: Epoch, attempt: int) -> None:
        """Write it. Called again with the same epoch after a failure, also when it had succeeded."""

    def clean_up(self, session: Any, owner: str, attempt: int) -> None:
        """Remove what earlier attempts left behind; everything that was to be committed is."""


@dataclass(frozen=True)
class FunctionTarget(EpochTarget):
    """Calls `function(frame, epoch id)`."""

    function: Callable[[Any, int], None]

    def commit(self, frame: Any, epoch: Epoch, attempt: int) -> None:
        self.function(frame, epoch.number)


@dataclass(frozen=True)
class DirectoryTarget(EpochTarget):
    """One directory per epoch, which appears whole by a rename, and never twice.

    Attributes:
        writer: Gives the writer of a DataFrame; its `save` is called here.
        path: Any address that Hadoop's file systems know. A rename there must be atomic.
    """

    writer: Callable[[Any], Any]
    path: str

    def commit(self, frame: Any, epoch: Epoch, attempt: int) -> None:
        # Other sinks and other jobs may write to the same path, and their epochs have the same numbers.
        owner = hashlib.sha256(epoch.owner.encode()).hexdigest()[:8]
        name = f"epoch={epoch.number:010d}-{owner}"
        files, target = _hadoop(frame.sparkSession, f"{self.path}/{name}")
        if files.util().exists(target):
            return
        staged_path = f"{self._staging(epoch.owner)}/{attempt}/{name}"
        self._checked(self.writer(frame)).mode("overwrite").save(staged_path)
        _, staged = _hadoop(frame.sparkSession, staged_path)
        # Unlike FileSystem.rename, this one refuses a target that is there.
        files.rename(staged, target, _no_options(frame.sparkSession))

    def clean_up(self, session: Any, owner: str, attempt: int) -> None:
        files, staging = _hadoop(session, self._staging(owner))
        if not files.util().exists(staging):
            return
        for status in files.util().listStatus(staging):
            if status.getPath().getName() != str(attempt):
                files.delete(status.getPath(), True)

    def _checked(self, writer: Any) -> Any:
        from pyspark.sql import DataFrameWriter

        if not isinstance(writer, DataFrameWriter):
            raise TypeError(
                f"the function of sink_to_spark() returned {type(writer).__name__}; return a writer, as "
                f'lambda df: df.write.format("parquet"), and do not call save()'
            )
        return writer

    def _staging(self, owner: str) -> str:
        # Spark does not read directories whose names start like this.
        return f"{self.path}/_staging/{owner}"


class SparkSink(Sink):
    """Gives each epoch to Spark once its checkpoint is complete.

    Args:
        target: What is done with an epoch.
        input_schema: Arrow schema of the records; see `EpochBuffer`.
        settings: How the session is started.
        listen_rule: Where executors of other nodes reach the sink.
    """

    def __init__(
        self,
        target: EpochTarget,
        input_schema: pa.Schema | None,
        settings: SparkSettings,
        listen_rule: ListenRule = ANY_PORT,
    ) -> None:
        self._target = target
        self._input_schema = input_schema
        self._settings = settings
        self._listen_rule = listen_rule

    def create_writer(self) -> EpochWriter:
        return EpochWriter(self._input_schema, self._settings)

    def create_committer(self) -> Committer:
        return _EpochCommitter(self._target, self._settings, self._listen_rule)

    def validate(self) -> None:
        require_java().use()


class SparkSinkOperator(SinkOperator):
    """A `SinkOperator` that keeps Arrow batches as they are, and numbers epochs as checkpoints."""

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        assert isinstance(self._writer, EpochWriter)
        self._writer.number = int(barrier.checkpoint_id)
        super().prepare_snapshot(barrier)


class EpochWriter(SinkWriter):
    """Gathers the records of an epoch."""

    def __init__(self, input_schema: pa.Schema | None, settings: SparkSettings) -> None:
        self._input_schema = input_schema
        self._settings = settings
        self._lease: SparkSessionLease | None = None
        self._gathered: EpochBuffer
        self._owner = ""
        self.number = _NO_CHECKPOINT

    def open(self, context: OperatorContext) -> None:
        self._gathered = EpochBuffer(f"operator {context.name_with_subtask}", self._input_schema)
        self._owner = f"{context.job_id}-{quote(context.operator_uid, safe='')}"
        self._lease = session_host().acquire(self._settings)

    def is_ready(self) -> bool:
        """Not while the session starts, so that no commit has to wait for it."""
        return self._lease is None or not self._lease.is_starting()

    def write_elements(self, batch: Batch) -> None:
        self._gathered.add(batch)

    def write_batch(self, values: list[Any]) -> None:
        self.write_elements(RowBatch(values))

    def prepare_commit(self) -> list[Any]:
        if not self._gathered.records:
            return []
        table = self._gathered.take()
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        return [Epoch(self.number, self._owner, sink.getvalue().to_pybytes())]

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()


class _EpochCommitter(Committer):
    def __init__(self, target: EpochTarget, settings: SparkSettings, listen_rule: ListenRule) -> None:
        self._target = target
        self._settings = settings
        self._listen_rule = listen_rule
        self._server: ExchangeServer | None = None
        self._lease: SparkSessionLease | None = None
        self._where = ""
        self._owner = ""
        self._attempt = 0
        self._is_clean = False

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._owner = f"{context.job_id}-{quote(context.operator_uid, safe='')}"
        self._attempt = int(context.attempt)
        self._lease = session_host().acquire(self._settings)
        self._server = exchange_server(self._where, self._settings, self._listen_rule, context.local_dir)

    def commit(self, committables: list[Any]) -> None:
        assert self._lease is not None
        session = self._lease.session()
        for epoch in committables:
            try:
                with self._lease.losses(self._where):
                    self._commit(session, epoch)
            except TidegateError:
                raise
            except Exception as error:
                raise UserCodeError(
                    f"{self._where}: epoch {epoch.number} could not be written: {cause_of(error)}. It stays "
                    f"in the checkpoint and is written when the job restarts"
                ) from error

    def _commit(self, session: Any, epoch: Epoch) -> None:
        assert self._server is not None
        table = pa.ipc.open_stream(epoch.data).read_all()
        cores = self._settings.num_executors * self._settings.executor_cores
        run = self._server.serve(table, exchange.partitions_of(table, cores), memory_bytes=0)
        try:
            frame = exchange.input_frame(session, [run.endpoint])
            self._target.commit(frame, epoch, self._attempt)
        finally:
            run.close()

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        if not self._is_clean and self._lease is not None and not self._lease.is_starting():
            self._is_clean = True
            session = self._lease.session()
            with self._lease.losses(self._where):
                self._target.clean_up(session, self._owner, self._attempt)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._lease is not None:
            self._lease.release()


def _hadoop(session: Any, path: str) -> tuple[Any, Any]:
    """Hadoop's file context of a path, and the path for it."""
    jvm = session._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    configuration = session._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileContext.getFileContext(where.toUri(), configuration)
    return files, files.makeQualified(where)


def _no_options(session: Any) -> Any:
    rename = session._jvm.org.apache.hadoop.fs.Options.Rename
    options = session.sparkContext._gateway.new_array(rename, 1)
    options[0] = rename.NONE
    return options
