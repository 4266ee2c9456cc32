"""The examples in docs/snapshots.md and docs/snapshot-format.md run as printed there."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.console.main import main
from tidegate.state import read_snapshot

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of every block in a page."""
    text = (DOCS / name).read_text("utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's job as a module, in a directory of its own."""
    (tmp_path / "job.py").write_text(blocks("snapshots.md")[0][1], "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import job  # type: ignore[import-not-found]

    yield job
    del sys.modules["job"]


def test_the_guide_prints_what_it_says(job: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (_, *programs) = [text for language, text in blocks("snapshots.md") if language == "python"]
    printed = [text for language, text in blocks("snapshots.md") if language == ""]
    names: dict[str, Any] = {"__name__": "__main__"}
    assert len(programs) == len(printed)
    for program, expected in zip(programs, printed, strict=True):
        exec(compile(program, "snapshots.md", "exec"), names)
        assert capsys.readouterr().out == expected
    for language, text in blocks("snapshots.md"):
        if language == "console":
            for line in text.splitlines():
                words = shlex.split(line.replace("OLD", names["old"]).replace("NEW", names["new"]))
                with pytest.raises(SystemExit) as ended:
                    main(words[2:])
                assert not ended.value.code, line
                assert capsys.readouterr().out


def test_a_checkpoint_is_read_without_tidegate_as_the_format_says(job: Any) -> None:
    names: dict[str, Any] = {}
    for language, program in blocks("snapshot-format.md"):
        if language == "python":
            exec(compile(program, "snapshot-format.md", "exec"), names)
    path = job.main(5)
    frame = names["read_keyed_state"](path, "delays", "total")
    ours = read_snapshot(path).state("delays", "total").to_pandas()
    assert dict(zip(frame["key"], frame["value"], strict=True)) == dict(
        zip(ours["key"], ours["value"], strict=True)
    )
