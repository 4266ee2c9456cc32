"""One attempt of a job: which subtasks run, and who answers for their keyed state."""

from __future__ import annotations

from tidegate.coordinator.control.control_requests import StateAnswer, StateQuery
from tidegate.coordinator.job_attempt import JobAttempt
from tidegate.protocol.ids import Attempt, SubtaskId
from tidegate.protocol.scheduling.execution_graph import build_execution_graph
from tidegate.protocol.task_events import QueryState, StateQueried

from .fakes import SOURCE, SUBTASKS, TOTALS, job_graph


class Sent(list[tuple[Attempt, SubtaskId, QueryState]]):
    def send(self, attempt: Attempt, subtask: SubtaskId, query: QueryState) -> None:
        self.append((attempt, subtask, query))


def attempt(sent: Sent) -> JobAttempt:
    job = job_graph()
    return JobAttempt(Attempt(7), job, build_execution_graph(job), None, sent.send)


def test_it_can_run_when_the_last_subtask_is_initialised() -> None:
    tasks = attempt(Sent())
    assert [tasks.initialized(subtask) for subtask in (SOURCE, SOURCE, *TOTALS)] == [
        False,
        False,
        False,
        True,
    ]


def test_subtasks_live_until_they_finish_or_stop() -> None:
    tasks = attempt(Sent())
    assert tasks.live == set(SUBTASKS)
    tasks.finished(SOURCE)
    tasks.stopped(TOTALS[0])
    assert tasks.live == {TOTALS[1]}
    tasks.not_deployed()
    assert not tasks.live


def test_a_query_goes_to_its_subtask_and_ends_with_it() -> None:
    sent = Sent()
    tasks = attempt(sent)
    answers: list[StateAnswer] = []
    for _ in range(2):
        tasks.ask(StateQuery("totals", "total", 1), answers.append)
    (number, owner, query), _ = sent
    assert number == 7
    tasks.queries.answered(StateQueried(Attempt(7), owner, query.query_id, b"5", ""))
    assert answers == [StateAnswer(b"5", "")]
    tasks.finished(owner)
    tasks.ask(StateQuery("totals", "total", 1), answers.append)
    assert [answer.is_final for answer in answers] == [True, False, True]
    assert "has finished; ask with consistency='checkpoint'" in answers[-1].error
