"""Reports of a task arrive in any order, perhaps twice, and leave in order, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidegate.coordinator.deployment.report_order import ReportOrder
from tidegate.coordinator.result_buffer import ResultBuffer
from tidegate.protocol.ids import Attempt, SubtaskId
from tidegate.protocol.scheduling.execution_graph import build_execution_graph
from tidegate.protocol.task_events import ResultsCollected, TaskFailed

from .fakes import SOURCE, job_spec

SENDER = (Attempt(1), SOURCE)


@given(st.permutations(range(6)), st.lists(st.integers(min_value=0, max_value=5)))
def test_reports_leave_in_order_once(arrivals: list[int], repeated: list[int]) -> None:
    order: ReportOrder[bytes] = ReportOrder(5_000)
    released: list[bytes] = []
    for number in [*arrivals, *repeated]:
        released += order.accept(SENDER, number, str(number).encode())
    assert released == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_senders_do_not_wait_for_each_other() -> None:
    order: ReportOrder[bytes] = ReportOrder(5_000)
    slow, quick = SENDER, (Attempt(1), SubtaskId("other", 0))
    assert order.accept(slow, 1, b"late") == []
    assert order.accept(quick, 0, b"now") == [b"now"]
    assert order.accept(slow, 0, b"first") == [b"first", b"late"]


def look_for(order: ReportOrder, attempt: int, first_s: int, last_s: int) -> TaskFailed | None:
    """Look once in each of these seconds; the first loss that is found."""
    subtasks = build_execution_graph(job_spec().graph).subtasks
    looks = (order.look(Attempt(attempt), subtasks, 1_000 * now_s) for now_s in range(first_s, last_s))
    return next((lost[0] for lost in looks if lost), None)


def test_a_report_that_never_comes_fails_its_subtask_and_names_both_ends() -> None:
    order: ReportOrder[bytes] = ReportOrder(5_000)
    order.accept(SENDER, 1, b"after the lost one")
    assert look_for(order, 1, 1, 6) is None
    lost = look_for(order, 1, 6, 8)
    assert lost is not None
    assert (lost.attempt, lost.subtask, lost.is_recoverable) == (1, SOURCE, True)
    assert "the coordinator did not receive report 0 from Numbers (1/1) within 5000 ms" in lost.cause


def test_the_last_report_of_a_subtask_is_missed_because_heartbeats_count_the_reports() -> None:
    order: ReportOrder[bytes] = ReportOrder(5_000)
    order.accept(SENDER, 0, b"first")
    order.counted(Attempt(1), {SOURCE: 1})
    assert look_for(order, 1, 1, 20) is None
    order.counted(Attempt(1), {SOURCE: 2})
    assert look_for(order, 1, 20, 27) is not None


def test_a_report_of_an_older_attempt_is_not_missed() -> None:
    order: ReportOrder[bytes] = ReportOrder(5_000)
    order.accept(SENDER, 1, b"after the lost one")
    assert look_for(order, 2, 1, 20) is None


def collected(key: str, value: object, attempt: int = 1) -> ResultsCollected:
    return ResultsCollected(Attempt(attempt), SOURCE, key, value, 1)


def test_results_with_a_key_are_taken_once_and_those_without_always() -> None:
    results = ResultBuffer()
    for event in (
        collected("a", 1),
        collected("a", 1),
        collected("b", 3),
        collected("", 4),
        collected("", 4),
    ):
        assert results.add(event)
    assert len(results) == 4
    assert [event.values for event in results.take()] == [1, 3, 4, 4]
    assert not results.add(collected("a", 1)), "the driver has them"
    assert results.take() == []


def test_a_repeated_offer_waits_in_the_name_of_the_attempt_that_made_it() -> None:
    results = ResultBuffer()
    results.add(collected("a", 1, attempt=1))
    results.add(collected("a", 1, attempt=2))
    assert [event.attempt for event in results.waiting] == [2]


def test_results_stay_until_a_driver_far_away_confirms_them() -> None:
    results = ResultBuffer()
    results.add(collected("a", 1))
    assert results.hand_out([])[0] == results.hand_out([])[0] == [collected("a", 1)]
    results.add(collected("b", 2))
    assert results.hand_out(["a", "unknown"]) == ([collected("b", 2)], [collected("a", 1)])
    assert not results.add(collected("a", 1, attempt=2))
    assert len(results) == 1


def test_results_without_a_key_cannot_be_confirmed_and_are_sent_once() -> None:
    results = ResultBuffer()
    results.add(collected("", 1))
    assert results.hand_out([]) == ([collected("", 1)], [collected("", 1)])
    assert results.hand_out([]) == ([], [])


def test_results_have_arrived_until_the_driver_has_them_all() -> None:
    results = ResultBuffer()
    assert not results.arrived.is_set()
    results.add(collected("a", 1))
    results.add(collected("", 2))
    assert results.arrived.is_set()
    results.hand_out([])
    assert results.arrived.is_set(), "one is not confirmed"
    results.hand_out(["a"])
    assert not results.arrived.is_set()
    results.add(collected("a", 1))
    assert not results.arrived.is_set(), "the driver has it"


def test_nobody_waits_for_results_of_a_job_that_is_over() -> None:
    results = ResultBuffer()
    results.add(collected("", 1))
    results.close()
    results.take()
    assert results.arrived.is_set()
