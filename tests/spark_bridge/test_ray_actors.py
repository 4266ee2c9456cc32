"""What a lost session leaves in Ray is distinguished from what another one uses."""

from __future__ import annotations

import pytest
from tidegate.spark_bridge.ray_actors import left_behind

EXECUTORS = ["raydp-executor-0", "raydp-executor-7"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["job-coordinator", "other"], []),
        # The session before was that of a process that was killed.
        ([*EXECUTORS, "other"], EXECUTORS),
        # It still ends, or is another job's.
        (["RAY_APP_MASTER", *EXECUTORS, "other"], []),
    ],
)
def test_only_actors_of_no_session_are_killed(names: list[str], expected: list[str]) -> None:
    assert left_behind(names) == expected
