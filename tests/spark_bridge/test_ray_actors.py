"""What a lost session leaves in Ray is distinguished from what another one uses."""

from __future__ import annotations

import pytest
from tidegate.spark_bridge.ray_actors import left_behind

OURS, THEIRS = "tidegate-1_SPARK_MASTER", "tidegate-2_SPARK_MASTER"
SHARED = ["RAY_APP_MASTER", "raydp-executor-0", "raydp-executor-7"]


@pytest.mark.parametrize(
    ("names", "ended", "expected"),
    [
        ([], None, []),
        (["job-coordinator", "other"], None, []),
        # The session before was that of a process that was killed.
        ([*SHARED, "other"], None, SHARED),
        # It still ends, or is another job's.
        ([*SHARED, THEIRS], None, []),
        # The session of this process has lost its Java.
        ([*SHARED, OURS], "tidegate-1", [*SHARED, OURS]),
        (SHARED, "tidegate-1", SHARED),
        # Another job has started one since.
        ([*SHARED, OURS, THEIRS], "tidegate-1", [OURS]),
    ],
)
def test_only_actors_of_no_session_are_killed(
    names: list[str], ended: str | None, expected: list[str]
) -> None:
    assert left_behind(names, ended) == expected
