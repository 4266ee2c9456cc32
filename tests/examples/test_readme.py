"""The first job in the README runs as printed there, and prints what the README says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_first_job_counts_words(ray_cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program = blocks("python")[0]
    assert len(program.splitlines()) <= 18, "the first job has to stay short"
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()

    counts: Counter[str] = Counter()
    for line in printed:
        word, count = line.split()
        assert int(count) == counts[word] + 1, "running counts go up by one"
        counts[word] += 1
    assert counts == Counter(["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"])
