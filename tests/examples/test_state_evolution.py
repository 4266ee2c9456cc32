"""The example of schema evolution: version 2 of a job goes on from the checkpoint of version 1."""

from __future__ import annotations

from pathlib import Path

from .programs import output_of


def test_version_2_counts_on_from_the_checkpoint_of_version_1(tmp_path: Path) -> None:
    lines = output_of("state", "evolution.py", tmp_path).splitlines()
    assert sorted(lines[:3]) == ["version 1: / 1", "version 1: / 2", "version 1: /shop 1"]
    assert sorted(lines[3:]) == [
        "version 2: Result(page='/', visits=3, longest_s=35)",
        "version 2: Result(page='/help', visits=1, longest_s=5)",
    ]
