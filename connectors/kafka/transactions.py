"""The exactly-once half of the Kafka sink: a transaction for every checkpoint that has records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext
from ...operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from ...operators.two_phase_commit import TwoPhaseCommitSink
from ...protocol.ids import CheckpointId
from ...state.descriptors import ListStateDescriptor
from ...state.kinds import ListState
from .client import KafkaProperties, confluent, kafka_error
from .producer import NextProducer, TransactionalProducer, producer_config
from .serialization import KafkaMessage, KafkaRecordSerializationSchema
from .wire import TransactionCoordinators, bootstrap_addresses, check_security

TRANSACTION_TIMEOUT = "transaction.timeout.ms"
DEFAULT_TIMEOUT_MS = 900_000
"""What brokers allow unless told otherwise (`transaction.max.timeout.ms`)."""

_MOST_WITHOUT = 16
"""How many attempts in a row may have failed before they had a transaction, where their number is unknown."""


@dataclass(frozen=True)
class TransactionName:
    """A name that no other transaction ever has: attempts of a job are never reused.

    Attributes:
        id_prefix: The user's.
        job: Eight digits for the job and the operator.
        subtask_index: Who writes.
        attempt: Of the job.
        number: Counts the transactions of the attempt, from 1.
    """

    id_prefix: str
    job: str
    subtask_index: int
    attempt: int
    number: int

    def __str__(self) -> str:
        return f"{self.id_prefix}-{self.job}-{self.subtask_index}-{self.attempt}-{self.number}"


@dataclass(frozen=True)
class KafkaTransaction:
    """All that is needed to end a transaction from another process.

    Attributes:
        name: The transactional id.
        producer_id: Whom the broker takes it to belong to.
        epoch: Of the producer.
    """

    name: TransactionName
    producer_id: int
    epoch: int


class TransactionalSink(TwoPhaseCommitSink[KafkaTransaction], CheckpointedFunction):
    """Writes in transactions that become visible when their checkpoint is complete.

    Args:
        properties: Of the producers.
        schema: Makes messages of records.
        id_prefix: Begins the transactional ids; no other sink of the same brokers may use it.
    """

    def __init__(
        self, properties: KafkaProperties, schema: KafkaRecordSerializationSchema, id_prefix: str
    ) -> None:
        self._properties = properties
        self._schema = schema
        self._id_prefix = id_prefix

    def validate(self) -> None:
        super().validate()
        check_security(self._properties)
        bootstrap_addresses(self._properties)
        config = producer_config(self._properties, "check", {"transactional.id": "check"})
        self._properties.check("Producer", config)

    def validate_checkpointing(self, interval_ms: int | None, timeout_ms: int) -> None:
        limit_ms = int(self._properties.get(TRANSACTION_TIMEOUT) or DEFAULT_TIMEOUT_MS)
        needed_ms = (interval_ms or 0) + timeout_ms
        if limit_ms <= needed_ms:
            raise ConfigurationError(
                f"the Kafka sink's {TRANSACTION_TIMEOUT} is {limit_ms} ms, but a transaction may be open for "
                f"the checkpoint interval and the checkpoint timeout together, {needed_ms} ms: the broker "
                f"would abort it, and its records would be lost. Raise {TRANSACTION_TIMEOUT} (and "
                f"transaction.max.timeout.ms of the brokers), or lower the other two"
            )

    # ------------------------------------------------------------ life

    _names: ListState[Any]

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._job = hashlib.sha256(f"{context.job_id}\0{context.operator_uid}".encode()).hexdigest()[:8]
        self._subtask_index, self._attempt = context.subtask_index, int(context.attempt)
        self._count = 0
        self._open: TransactionalProducer | None = None
        self._prepared: dict[KafkaTransaction, TransactionalProducer] = {}
        # What earlier attempts may have left open begins there, until it is aborted.
        self._left_behind = [replace(self._name(0), attempt=0)] if self._attempt else []
        self._schema.open(context)
        properties = self._properties
        if properties.get(TRANSACTION_TIMEOUT) is None:
            properties = properties.with_value(TRANSACTION_TIMEOUT, str(DEFAULT_TIMEOUT_MS))
        self._coordinators = TransactionCoordinators(properties, self._where)
        self._next = NextProducer(properties, self._where)
        self._next.prepare(str(self._new_name()))

    def _new_name(self) -> TransactionName:
        self._count += 1
        return self._name(self._count)

    def _name(self, number: int) -> TransactionName:
        return TransactionName(self._id_prefix, self._job, self._subtask_index, self._attempt, number)

    def begin_transaction(self) -> KafkaTransaction:
        name = self._name(self._count)
        producer = self._open = self._next.take()
        self._next.prepare(str(self._new_name()))
        return KafkaTransaction(name, producer.producer_id, producer.epoch)

    def is_ready(self) -> bool:
        return self._open is None or self._open.is_ready()

    def write(self, transaction: KafkaTransaction, values: list[Any]) -> None:
        assert self._open is not None
        self._open.send(messages_of(self._schema, values))

    def pre_commit(self, transaction: KafkaTransaction) -> None:
        assert self._open is not None
        self._open.flush()
        self._prepared[transaction], self._open = self._open, None

    def commit(self, transaction: KafkaTransaction) -> None:
        producer = self._prepared.get(transaction)
        if producer is None:
            self._coordinators.commit(str(transaction.name), transaction.producer_id, transaction.epoch)
            return
        kafka = confluent()
        try:
            producer.commit()
        except kafka.KafkaException as error:
            raise kafka_error(self._where, f"committing the transaction {transaction.name}", error) from error
        del self._prepared[transaction]

    def abort(self, transaction: KafkaTransaction) -> None:
        producer, self._open = self._open, None
        if producer is not None:
            producer.abort()

    # ------------------------------------------------------------ recovery

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """What was prepared is committed by now. Abort what had begun at the checkpoint.

        Also if that is another job's, under the same prefix: that job is the same application, and dead.
        """
        descriptor = ListStateDescriptor("_kafka_transactions", None)
        self._names = context.get_operator_state_store().get_list_state(descriptor)
        restored = [name for name in self._names.get() if name.id_prefix == self._id_prefix]
        for name in restored:
            self._coordinators.abort(str(name))
        self._left_behind = restored or self._left_behind

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        # Those that begin after this one are found by counting on. An attempt may end when its checkpoint has
        # completed, before it is notified: what it has not aborted is left to the next one.
        self._names.update([*self._left_behind, self._name(self._count - 1)])

    def recover_and_abort(self, transaction: KafkaTransaction) -> None:
        """`initialize_state` does it, whoever owns the checkpoint."""

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        """Abort what earlier attempts of this subtask left open, which no checkpoint knows.

        Not earlier: only now has every subtask committed what it restored. Until then, who reads only what
        is committed waits at the first record of such a transaction.
        """
        for name in self._left_behind:
            self._abort_from(name.number + 1, name)
            if name.job == self._job:
                self._abort_attempts(name, range(name.attempt + 1, self._attempt))
            else:
                self._abort_attempts_of_another_job(name)
        self._left_behind = []

    def _abort_attempts(self, name: TransactionName, attempts: Iterable[int]) -> None:
        # Each of them: one may have failed before it had a transaction, and the one before it after.
        for attempt in attempts:
            self._abort_from(1, replace(name, attempt=attempt))

    def _abort_attempts_of_another_job(self, name: TransactionName) -> None:
        """Abort what the attempts after that of a name left open, of which nobody knows the last."""
        attempt, without = name.attempt, 0
        while without < _MOST_WITHOUT:
            attempt += 1
            without = 0 if self._abort_from(1, replace(name, attempt=attempt)) else without + 1

    def _abort_from(self, number: int, of_attempt: TransactionName) -> bool:
        """Abort the transactions of an attempt from a number on, until one that never was."""
        found = False
        while self._coordinators.abort(str(replace(of_attempt, number=number))):
            found, number = True, number + 1
        return found

    def close(self) -> None:
        prepared, self._prepared = self._prepared, {}
        for producer in prepared.values():
            producer.close()
        self._next.close()
        self._coordinators.close()


def messages_of(schema: KafkaRecordSerializationSchema, values: list[Any]) -> list[KafkaMessage]:
    """The messages of some records."""
    return [message for message in map(schema.serialize, values) if message is not None]
