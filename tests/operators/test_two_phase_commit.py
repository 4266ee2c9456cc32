"""Transactions of a two-phase sink: begun, prepared, committed, recovered, aborted, each in its moment."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.datastream import CheckpointListener, TwoPhaseCommitSink
from tidegate.operators.base import OperatorContext
from tidegate.operators.sinks import SinkOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.ids import CheckpointId

from .harness import OperatorUnderTest

CALLS: list[Any] = []


class Recorder(TwoPhaseCommitSink[str], CheckpointListener):
    """Notes what is called. A transaction is named after its subtask, attempt and number."""

    commit_retry_ms = 0

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def open(self, context: OperatorContext) -> None:
        self.prefix = f"{context.subtask_index}.{context.attempt}"
        self.count = 0
        CALLS.append("open")

    def begin_transaction(self) -> str:
        self.count += 1
        return f"{self.prefix}.{self.count}"

    def write(self, transaction: str, values: list[Any]) -> None:
        CALLS.append((transaction, values))

    def pre_commit(self, transaction: str) -> None:
        CALLS.append(("pre", transaction))

    def commit(self, transaction: str) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise OSError("the database is locked")
        CALLS.append(("commit", transaction))

    def recover_and_commit(self, transaction: str) -> None:
        CALLS.append(("recovered", transaction))

    def abort(self, transaction: str) -> None:
        CALLS.append(("abort", transaction))

    def recover_and_abort(self, transaction: str) -> None:
        CALLS.append(("aborted", transaction))

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        CALLS.append(("committed", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CALLS.append(("hears of", checkpoint_id))

    def close(self) -> None:
        CALLS.append("close")


def sink(failures: int = 0, **more: Any) -> OperatorUnderTest[SinkOperator]:
    return OperatorUnderTest(SinkOperator(Recorder(failures)), **more)


def calls() -> list[Any]:
    found = list(CALLS)
    CALLS.clear()
    return found


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def test_a_transaction_is_prepared_at_the_barrier_and_committed_with_its_checkpoint() -> None:
    test = sink().open()
    test.process(["a"])
    test.checkpoint(1)
    test.process(["b"])
    assert calls() == ["open", ("0.1.1", ["a"]), ("pre", "0.1.1"), ("0.1.2", ["b"])]
    test.complete(1)
    assert calls() == [("commit", "0.1.1"), ("committed", 1)]
    test.operator.close()
    assert calls() == [("abort", "0.1.2"), "close"]


def test_a_complete_checkpoint_commits_all_before_it_oldest_first_and_none_after_it() -> None:
    test = sink().open()
    for checkpoint_id in (1, 2, 3):
        test.process([checkpoint_id])
        test.checkpoint(checkpoint_id)
    test.operator.notify_checkpoint_aborted(CheckpointId(1))
    calls()
    test.complete(2)
    assert calls() == [("commit", "0.1.1"), ("commit", "0.1.2"), ("committed", 2)]
    test.complete(3)
    assert calls() == [("commit", "0.1.3"), ("committed", 3)]


def test_a_transaction_without_records_stays_open_over_a_barrier() -> None:
    test = sink().open()
    test.checkpoint(1)
    test.complete(1)
    test.process([])
    test.process(["a"])
    test.checkpoint(2)
    assert calls() == ["open", ("committed", 1), ("0.1.1", ["a"]), ("pre", "0.1.1")]


def test_a_listening_sink_hears_of_aborted_checkpoints() -> None:
    test = sink().open()
    test.operator.notify_checkpoint_aborted(CheckpointId(1))
    assert calls() == ["open", ("hears of", 1)]


def snapshots() -> list[OperatorSnapshot]:
    """Of two subtasks, each with two prepared transactions and one begun."""
    taken = []
    for index in (0, 1):
        test = sink(subtask_index=index).open()
        for checkpoint_id in (1, 2):
            test.process([index])
            snapshot = test.checkpoint(checkpoint_id)
        taken.append(snapshot)
    calls()
    return taken


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_transaction_of_a_checkpoint_is_recovered_by_some_subtask(parallelism: int) -> None:
    recovered: list[Any] = []
    for index, snapshot in enumerate(redistribute(snapshots(), parallelism, 128)):
        test = sink(restored=snapshot, attempt=2, subtask_index=index, parallelism=parallelism).open()
        first, *rest = calls()
        assert first == "open"
        recovered += rest
        # What was recovered is settled: the next snapshot holds what has begun here, and nothing else.
        test.process(["new"])
        later = sink(restored=test.checkpoint(3), attempt=3).open()
        calls_of_later = calls()[-2:]
        assert calls_of_later == [("recovered", f"{index}.2.1"), ("aborted", f"{index}.2.2")]
        later.operator.close()
        calls()
    assert sorted(recovered) == [
        ("aborted", "0.1.3"), ("aborted", "1.1.3"),
        ("recovered", "0.1.1"), ("recovered", "0.1.2"), ("recovered", "1.1.1"), ("recovered", "1.1.2"),
    ]  # fmt: skip


def test_what_another_job_had_begun_is_not_aborted() -> None:
    # It may be a savepoint of a job that goes on.
    test = sink(attempt=2)
    test.operator.restore(snapshots()[0], owned=False)
    test.open()
    assert calls() == ["open", ("recovered", "0.1.1"), ("recovered", "0.1.2")]


def test_a_commit_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    test = sink(failures=4).open()
    test.process(["a"])
    test.checkpoint(1)
    test.complete(1)
    assert calls()[-2:] == [("commit", "0.1.1"), ("committed", 1)]
    assert caplog.text.count("committing '0.1.1' failed (the database is locked)") == 4


def test_a_commit_that_keeps_failing_fails_the_task_and_stays_in_the_state() -> None:
    test = sink(failures=5).open()
    test.process(["a"])
    test.checkpoint(1)
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\).*'0.1.1' failed 5 times.*database is locked"):
        test.complete(1)
    sink(restored=test.checkpoint(2), attempt=2).open()
    assert ("recovered", "0.1.1") in calls()


def test_without_checkpoints_the_end_of_input_commits() -> None:
    test = sink(is_checkpointing=False).open()
    test.process(["a"])
    test.operator.finish()
    test.operator.close()
    assert calls()[1:] == [
        ("0.1.1", ["a"]),
        ("pre", "0.1.1"),
        ("commit", "0.1.1"),
        ("abort", "0.1.2"),
        "close",
    ]


def test_a_sink_that_never_tries_is_refused_before_the_job_starts() -> None:
    class Hasty(Recorder):
        commit_attempts = 0

    with pytest.raises(ConfigurationError, match="Hasty: commit_attempts starts at 1"):
        SinkOperator(Hasty()).validate()


def test_a_sink_travels_to_its_task() -> None:
    assert isinstance(pickle.loads(pickle.dumps(Recorder())), TwoPhaseCommitSink)
