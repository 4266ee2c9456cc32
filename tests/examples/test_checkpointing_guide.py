"""docs/checkpointing.md: its example prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "checkpointing.md").read_text("utf-8")


def test_the_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    program, printed = blocks["python"], blocks[""]
    exec(compile(program, "checkpointing.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed
