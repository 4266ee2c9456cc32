"""`verify_exactly_once` passes jobs that are right, and finds the bugs it is there to find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing.verify import ExactlyOnceViolation, verify_exactly_once

from .verified_jobs import AppendToFile, CountInAttribute, CountInState, appending, counting

pytestmark = pytest.mark.slow


def test_a_job_with_managed_state_gives_the_same_under_every_seed() -> None:
    report = verify_exactly_once(counting(CountInState()), crashes=2, seeds=6)
    assert report.seeds == 6
    assert report.records == 60
    # Otherwise nothing would have been proved.
    assert report.crashes >= 6
    assert report.checkpoints > 0
    assert report.attempts > report.seeds


def test_state_in_an_instance_attribute_is_found() -> None:
    with pytest.raises(ExactlyOnceViolation, match=r"records lost.*records too many") as raised:
        verify_exactly_once(counting(CountInAttribute()), crashes=2, seeds=10)
    assert f"seeds=[{raised.value.seed}]" in str(raised.value)
    assert "crashes" in str(raised.value)


def test_a_seed_that_failed_fails_again_in_the_same_way() -> None:
    with pytest.raises(ExactlyOnceViolation) as first:
        verify_exactly_once(counting(CountInAttribute()), crashes=2, seeds=10)
    with pytest.raises(ExactlyOnceViolation) as again:
        verify_exactly_once(counting(CountInAttribute()), crashes=2, seeds=[first.value.seed])
    assert str(again.value) == str(first.value)


def test_a_sink_without_transactions_is_found(tmp_path: Path) -> None:
    path = tmp_path / "written"
    with pytest.raises(ExactlyOnceViolation, match="records too many"):
        verify_exactly_once(
            appending(path),
            crashes=2,
            seeds=10,
            output=lambda: path.read_text().splitlines(),
            reset=lambda: path.unlink(missing_ok=True),
        )


def test_what_may_differ_can_be_left_out_of_the_comparison() -> None:
    def last_counts(records: list[Any]) -> dict[Any, int]:
        return dict(Counter(key for key, _ in records))

    verify_exactly_once(counting(CountInState()), crashes=1, seeds=2, compare=last_counts)


def test_a_program_that_executes_itself_is_run_too(tmp_path: Path) -> None:
    path = tmp_path / "written"

    def program() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection(range(20)).add_sink(AppendToFile(path))
        env.execute("mine")

    report = verify_exactly_once(
        program,
        crashes=0,
        seeds=1,
        output=lambda: path.read_text().splitlines(),
        reset=lambda: path.unlink(missing_ok=True),
    )
    assert report.records == 20


def test_an_output_that_depends_on_the_order_is_told_apart_from_a_crash() -> None:
    def merge(env: StreamExecutionEnvironment) -> Any:
        left = env.from_collection([("k", f"l{number}") for number in range(30)])
        right = env.from_collection([("k", f"r{number}") for number in range(30)])
        numbered = CountInState()
        both = left.union(right).key_by(lambda record: record[0]).process(numbered).uid("number")
        return both.map(lambda counted: counted).filter(lambda counted: True)

    # The counts of one key are the same in every order.
    verify_exactly_once(merge, crashes=1, seeds=3)

    def pairs(env: StreamExecutionEnvironment) -> Any:
        left, right = env.from_collection(range(30)), env.from_collection(range(100, 130))
        return left.union(right).key_by(lambda record: 0).reduce(lambda a, b: (a, b)[a > b] * 7 % 1_009)

    # Without a crash there are two orders, and the seed decides between them.
    found = []
    for seed in range(1, 11):
        try:
            verify_exactly_once(pairs, crashes=1, seeds=[seed])
        except ExactlyOnceViolation as violation:
            found.append(str(violation))
    assert any("also differs without any crash" in each for each in found), found


def test_a_job_that_fails_by_itself_says_why() -> None:
    def failing(env: StreamExecutionEnvironment) -> Any:
        return env.from_collection([1, 0]).map(lambda number: 1 // number)

    with pytest.raises(JobExecutionError, match=r"fails without any crash.*ZeroDivisionError"):
        verify_exactly_once(failing)


def test_an_output_that_nobody_can_see_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no output to look at"):
        verify_exactly_once(appending(Path("unused")))
    with pytest.raises(ConfigurationError, match="nothing would be compared"):
        verify_exactly_once(counting(CountInState()), output=list)


def test_a_program_that_executes_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has to execute\(\) one job"):
        verify_exactly_once(lambda: None, output=list)
