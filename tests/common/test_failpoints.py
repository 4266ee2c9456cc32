"""Fail points: what arms them, when they fire, and that the documentation names them all."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.common import failpoints
from tidegate.common.errors import CheckpointStorageError, ConfigurationError
from tidegate.common.failpoints import Arming, FailPointError
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def marks() -> Iterator[MemoryCheckpointStorage]:
    yield MemoryCheckpointStorage()
    failpoints.arm(None)


def arm(text: str, marks: MemoryCheckpointStorage, job: str = "job") -> Arming:
    arming = Arming(job, failpoints.parse(text), marks)
    failpoints.arm(arming)
    failpoints.enter(["numbers", "count"], 1)
    return arming


def fired(arming: Arming) -> list[int]:
    return [report.fired for report in failpoints.reports(arming)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("commit_before", "not of the form point:nth:action"),
        ("commit_befor:1:kill", r"there is no point 'commit_befor'; there are restore, .*, spark_stage"),
        ("process:0:kill", "'0' is not a number from 1 on"),
        ("process:x:kill", "'x' is not a number from 1 on"),
        ("process:1:explode", "no action 'explode'; there are kill, raise, sleep=SECONDS, enospc, corrupt"),
        ("process:1:sleep", "no action 'sleep'"),
        ("process:1:sleep=soon", "'soon' is not a number of seconds"),
        ("process:1:sleep=nan", "'nan' is not a number of seconds"),
        ("process:1:corrupt", "no bytes pass at process; corrupt is for upload, before_manifest"),
        ("cleanup@count:1:kill", "reached by the coordinator, which has no operators"),
        ("process@:1:kill", "is not a uid"),
        ("process@count/first:1:kill", "is not a uid, or uid/subtask"),
        ("process:1:raise,send:1", "'send:1' cannot be armed"),
    ],
)
def test_a_malformed_point_is_refused_with_what_there_is(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"TIDEGATE_FAILPOINTS: .*{problem}"):
        failpoints.parse(text)


def test_a_point_is_reached_without_effect_where_nothing_is_armed() -> None:
    failpoints.reach("process")
    assert failpoints.passing("upload", b"data") == b"data"


def test_a_point_fires_at_the_nth_time_and_then_no_more(marks: MemoryCheckpointStorage) -> None:
    arming = arm("process:2:raise", marks)
    failpoints.reach("process")
    failpoints.reach("send")
    assert fired(arming) == [0]
    with pytest.raises(FailPointError, match="fail point process:2:raise"):
        failpoints.reach("process")
    for _ in range(3):
        failpoints.reach("process")
    (report,) = failpoints.reports(arming)
    assert (report.fired, "numbers -> count, subtask 1" in str(report)) == (1, True)


def test_another_process_of_the_job_does_not_fire_again_unless_asked(marks: MemoryCheckpointStorage) -> None:
    for text, expected in (("process:1:raise", 1), ("process:1*:raise", 2)):
        raised = 0
        for _ in range(2):
            arm("", marks)  # a new process has counted nothing
            arming = arm(text, marks, job=text)
            try:
                failpoints.reach("process")
            except FailPointError:
                raised += 1
        assert (raised, fired(arming)) == (expected, [expected])
        marks.delete(marks.list_files(""))


def test_arming_again_for_the_next_attempt_goes_on_counting(marks: MemoryCheckpointStorage) -> None:
    arm("process:2:raise", marks)
    failpoints.reach("process")
    arm("process:2:raise", marks)
    with pytest.raises(FailPointError):
        failpoints.reach("process")


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("process@count:1:raise", True),
        ("process@numbers/1:1:raise", True),
        ("process@count/0:1:raise", False),
        ("process@sink:1:raise", False),
    ],
)
def test_a_point_may_be_meant_for_one_operator_or_subtask(
    text: str, is_meant: bool, marks: MemoryCheckpointStorage
) -> None:
    arming = arm(text, marks)
    try:
        failpoints.reach("process")
    except FailPointError:
        assert is_meant
    assert fired(arming) == [int(is_meant)]


def test_its_error_is_taken_for_one_of_disk_or_storage(marks: MemoryCheckpointStorage) -> None:
    arm("upload:1:enospc", marks)
    with pytest.raises(OSError, match="No space left on device") as caught:
        failpoints.passing("upload", b"data")
    assert isinstance(caught.value, CheckpointStorageError)
    assert caught.value.errno == errno.ENOSPC


def test_corrupt_flips_one_bit_once(marks: MemoryCheckpointStorage) -> None:
    arm("upload:1:corrupt,process:1:sleep=0", marks)
    damaged = failpoints.passing("upload", b"data")
    assert [a ^ b for a, b in zip(damaged, b"data", strict=True)] == [0, 0, 1, 0]
    assert failpoints.passing("upload", b"data") == b"data"


def test_the_documentation_lists_every_point_with_its_meaning() -> None:
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.M))
    assert {name: meaning for name, meaning in listed.items() if name in failpoints.POINTS} == {
        name: point.meaning for name, point in failpoints.POINTS.items()
    }


def test_every_point_is_in_the_code_and_no_other() -> None:
    reached: set[str] = set()
    for path in ROOT.glob("[a-z]*/**/*.py"):
        if path.relative_to(ROOT).parts[0] != "tests":
            reached |= set(re.findall(r'failpoints\.(?:reach|passing)\("(\w+)"', path.read_text("utf-8")))
    assert reached == set(failpoints.POINTS)
