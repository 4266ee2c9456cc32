"""Sources keep positions in a snapshot; sinks commit what a completed checkpoint covers, and nothing else."""

from __future__ import annotations

from itertools import chain
from typing import Any, ClassVar

import pytest
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.operators.base import OperatorContext
from tidegate.operators.functions import RichSinkFunction, SinkFunction
from tidegate.operators.sinks import (
    Committer,
    Sink,
    SinkFunctionOperator,
    SinkOperator,
    SinkWriter,
)
from tidegate.operators.sources.sources import EndOfSource, Source, SourceOperator, SourceReader
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import CheckpointId

from .harness import OperatorUnderTest

# ---------------------------------------------------------------- sources


def read(test: OperatorUnderTest[SourceOperator], max_records: int = 3) -> list[Any]:
    """Everything the source has from here on."""
    before = len(test.emitted)
    is_over = False
    while not is_over:
        try:
            test.operator.poll(max_records)
        except EndOfSource:
            is_over = True
    assert all(len(batch) <= max_records for batch in test.emitted)
    return [record for batch in test.emitted[before:] for record in batch.values]


def source(index: int = 0, parallelism: int = 2, **more: Any) -> OperatorUnderTest[SourceOperator]:
    operator = SourceOperator(NumberSequenceSource(0, 9))
    return OperatorUnderTest(operator, subtask_index=index, parallelism=parallelism, **more).open()


def test_the_subtasks_of_a_source_share_the_splits() -> None:
    assert [read(source(index)) for index in range(2)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert sorted(chain.from_iterable(read(source(index, 4)) for index in range(4))) == list(range(10))


def test_more_subtasks_than_numbers_leave_some_idle() -> None:
    parts = [read(source(index, 16)) for index in range(16)]
    assert sorted(chain.from_iterable(parts)) == list(range(10))
    assert max(map(len, parts)) == 1


@pytest.mark.parametrize("polls", [0, 1, 2, 3])
def test_a_restored_source_goes_on_where_the_snapshot_was_taken(polls: int) -> None:
    test = source()
    for _ in range(polls):
        if len(test.records()) < 5:
            test.operator.poll(2)
    read_before = [record for record, _ in test.records()]
    snapshot = test.checkpoint(1)
    if len(read_before) < 5:
        test.operator.poll(1)
    assert read_before + read(source(restored=snapshot)) == [0, 1, 2, 3, 4]


def test_an_exhausted_source_stays_exhausted_after_a_restore() -> None:
    test = source()
    read(test)
    assert read(source(restored=test.checkpoint(1))) == []


class Unsteady(Source):
    """Has nothing at first, then fails."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return []

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return UnsteadyReader()


class UnsteadyReader(SourceReader):
    polls = 0
    closed = 0

    def poll(self, max_records: int) -> Batch | None:
        self.polls += 1
        if self.polls > 1:
            raise ConnectionError("the socket is gone")
        return Batch([])

    def snapshot_state(self) -> list[Any]:
        return []

    def close(self) -> None:
        UnsteadyReader.closed += 1


def test_a_source_with_nothing_yet_is_not_at_its_end_and_emits_nothing() -> None:
    test = OperatorUnderTest(SourceOperator(Unsteady())).open()
    assert test.operator.poll(10) is False
    assert test.emitted == []


def test_a_failing_reader_names_the_operator() -> None:
    test = OperatorUnderTest(SourceOperator(Unsteady())).open()
    test.operator.poll(10)
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): reading the source raised ConnectionError"):
        test.operator.poll(10)


def test_a_reader_is_closed_once() -> None:
    operator = OperatorUnderTest(SourceOperator(Unsteady())).open().operator
    before = UnsteadyReader.closed
    operator.close()
    operator.close()
    assert UnsteadyReader.closed == before + 1


class Unopenable(Unsteady):
    def create_splits(self, parallelism: int) -> list[Any]:
        raise PermissionError("topic 'flights'")


def test_a_source_that_cannot_be_opened_names_the_operator() -> None:
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): opening the source raised PermissionError"):
        OperatorUnderTest(SourceOperator(Unopenable())).open()


def test_a_source_takes_no_input() -> None:
    with pytest.raises(ConfigurationError, match="source without input"):
        OperatorUnderTest(SourceOperator(CollectionSource([]))).open().process([1])


# ---------------------------------------------------------------- sinks


class Ledger(Sink):
    """Two phases over shared lists: what is visible, and what writers and committers did.

    Args:
        failing: Moment in which it raises.
    """

    visible: list[Any] = []  # noqa: RUF012
    moments: list[str] = []  # noqa: RUF012

    def __init__(self, failing: str = "", has_committer: bool = True) -> None:
        self.failing = failing
        self.has_committer = has_committer

    def reach(self, moment: str) -> None:
        Ledger.moments.append(moment)
        if moment == self.failing:
            raise OSError("the ledger is full")

    def create_writer(self) -> SinkWriter:
        return LedgerWriter(self)

    def create_committer(self) -> Committer | None:
        return LedgerCommitter(self) if self.has_committer else None


class LedgerWriter(SinkWriter):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.values: list[Any] = []

    def open(self, context: OperatorContext) -> None:
        self.ledger.reach("open writer")

    def write_batch(self, values: list[Any]) -> None:
        self.ledger.reach("write")
        self.values += values

    def prepare_commit(self) -> list[Any]:
        self.ledger.reach("prepare")
        values, self.values = self.values, []
        return [values] if values else []

    def close(self) -> None:
        self.ledger.reach("close writer")


class LedgerCommitter(Committer):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def open(self, context: OperatorContext) -> None:
        self.ledger.reach("open committer")

    def commit(self, committables: list[Any]) -> None:
        self.ledger.reach("commit")
        Ledger.visible += [value for values in committables for value in values]

    def close(self) -> None:
        self.ledger.reach("close committer")


@pytest.fixture(autouse=True)
def empty_ledger() -> None:
    Ledger.visible.clear()
    Ledger.moments.clear()


def ledger(failing: str = "", **more: Any) -> OperatorUnderTest[SinkOperator]:
    return OperatorUnderTest(SinkOperator(Ledger(failing)), **more)


def test_nothing_is_visible_before_the_checkpoint_that_covers_it_is_complete() -> None:
    test = ledger().open()
    test.process(["a", "b"])
    test.checkpoint(1)
    test.process(["c"])
    assert Ledger.visible == []
    test.complete(1)
    assert Ledger.visible == ["a", "b"]
    test.complete(1)
    assert Ledger.visible == ["a", "b"]


def test_a_completed_checkpoint_covers_the_earlier_ones_that_were_never_notified() -> None:
    test = ledger().open()
    for checkpoint_id in (1, 2, 3):
        test.process([checkpoint_id])
        test.checkpoint(checkpoint_id)
    test.complete(2)
    assert Ledger.visible == [1, 2]
    test.complete(3)
    assert Ledger.visible == [1, 2, 3]


def test_what_an_aborted_checkpoint_held_is_committed_with_the_next() -> None:
    test = ledger().open()
    test.process(["a"])
    test.checkpoint(1)
    test.operator.notify_checkpoint_aborted(CheckpointId(1))
    assert Ledger.visible == []
    test.process(["b"])
    test.checkpoint(2)
    test.complete(2)
    assert Ledger.visible == ["a", "b"]


def test_a_restored_sink_commits_again_what_its_checkpoint_holds() -> None:
    # The failure may have come between the completion of the checkpoint and the commit.
    test = ledger().open()
    test.process(["a"])
    test.checkpoint(1)
    test.process(["b"])
    snapshot = test.checkpoint(2)
    again = ledger(restored=snapshot, attempt=2).open()
    assert Ledger.visible == ["a", "b"]
    again.process(["c"])
    third = again.checkpoint(3)
    again.complete(3)
    assert Ledger.visible == ["a", "b", "c"]
    ledger(restored=third, attempt=3).open()
    assert Ledger.visible == ["a", "b", "c", "c"], "only the newest epoch is still in the state"


def test_a_committed_epoch_leaves_the_state() -> None:
    test = ledger().open()
    test.process(["a"])
    test.checkpoint(1)
    test.complete(1)
    assert test.checkpoint(2).lists[0].parts == ()


class Forgetful(Ledger):
    """Its outside world may lose what was committed last."""

    def create_committer(self) -> Committer | None:
        return ForgetfulCommitter(self)


class ForgetfulCommitter(LedgerCommitter):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.newest: list[Any] = []

    def commit(self, committables: list[Any]) -> None:
        super().commit(committables)
        self.newest = committables

    def unconfirmed(self) -> list[Any]:
        return self.newest


def test_what_the_outside_world_may_lose_stays_in_the_state_and_is_committed_again() -> None:
    test = OperatorUnderTest(SinkOperator(Forgetful())).open()
    test.process(["a"])
    test.checkpoint(1)
    test.complete(1)
    test.process(["b"])
    snapshot = test.checkpoint(2)
    OperatorUnderTest(SinkOperator(Forgetful()), restored=snapshot, attempt=2).open()
    assert Ledger.visible == ["a", "a", "b"]


def test_commits_that_a_restored_sink_made_are_not_in_its_next_snapshot() -> None:
    test = ledger().open()
    test.process(["a"])
    again = ledger(restored=test.checkpoint(1), attempt=2).open()
    assert again.checkpoint(2).lists[0].parts == ()


def test_without_checkpoints_the_end_of_input_commits() -> None:
    test = ledger(is_checkpointing=False).open()
    test.process(["a"])
    assert Ledger.visible == []
    test.operator.finish()
    assert Ledger.visible == ["a"]


def test_with_checkpoints_the_end_of_input_commits_nothing_by_itself() -> None:
    test = ledger().open()
    test.process(["a"])
    test.operator.finish()
    assert Ledger.visible == []


def test_closing_abandons_what_was_not_committed() -> None:
    test = ledger().open()
    test.process(["a"])
    test.checkpoint(1)
    test.operator.close()
    test.operator.close()
    assert Ledger.visible == []
    assert Ledger.moments.count("close writer") == Ledger.moments.count("close committer") == 1


def test_the_committer_is_closed_even_when_the_writer_fails_to() -> None:
    test = ledger("close writer").open()
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): closing the sink raised OSError"):
        test.operator.close()
    assert Ledger.moments[-1] == "close committer"


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("open writer", "opening the sink"),
        ("open committer", "opening the sink"),
        ("write", "writing to the sink"),
        ("prepare", "preparing the sink's commit"),
        ("commit", "committing checkpoint 1"),
    ],
)
def test_a_failing_sink_says_what_it_was_doing(moment: str, words: str) -> None:
    def live() -> None:
        test = ledger(moment).open()
        test.process(["a"])
        test.checkpoint(1)
        test.complete(1)

    with pytest.raises(UserCodeError, match=rf"Totals \(1/2\): {words} raised OSError: the ledger is full"):
        live()


def test_a_failed_commit_is_still_in_the_state_of_its_checkpoint() -> None:
    test = ledger("commit").open()
    test.process(["a"])
    snapshot = test.checkpoint(1)
    with pytest.raises(UserCodeError):
        test.complete(1)
    ledger(restored=snapshot, attempt=2).open()
    assert Ledger.visible == ["a"]


def test_a_sink_without_a_committer_only_writes() -> None:
    test = OperatorUnderTest(SinkOperator(Ledger(has_committer=False))).open()
    test.process(["a"])
    test.checkpoint(1)
    test.complete(1)
    assert Ledger.visible == []
    assert "write" in Ledger.moments


def test_a_sink_function_gets_every_record() -> None:
    seen: list[Any] = Ledger.visible

    class Append(SinkFunction):
        def invoke(self, value: Any) -> None:
            Ledger.visible.append(value)

    OperatorUnderTest(SinkFunctionOperator(Append())).open().process(["a", "b"])
    assert seen == ["a", "b"]


class Told(RichSinkFunction):
    """Keeps what it is told with each record."""

    told: ClassVar[list[Any]] = []

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        subtask = self.get_runtime_context().get_index_of_this_subtask()
        Told.told.append((
            value, subtask, context.timestamp(), context.current_watermark(),
            context.current_processing_time(),
        ))  # fmt: skip


def test_a_sink_function_that_asks_for_the_context_gets_it() -> None:
    test = OperatorUnderTest(SinkFunctionOperator(Told())).open()
    test.operator.process_watermark(7)
    test.now_ms = 99
    test.process(["a", "b"], [8, 9])
    test.process(["c"])
    assert Told.told == [("a", 0, 8, 7, 99), ("b", 0, 9, 7, 99), ("c", 0, None, 7, 99)]
