"""docs/checkpointing.md: its example prints what it says, and its tables are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tidegate.common.config_options import value_text
from tidegate.common.known_options import known_options

PAGE = (Path(__file__).parents[2] / "docs" / "checkpointing.md").read_text("utf-8")


def test_the_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    program, printed = blocks["python"], blocks[""]
    exec(compile(program, "checkpointing.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_the_settings_are_those_of_the_code_with_their_defaults() -> None:
    rows = re.findall(r"^\| `([\w.-]+\.[\w.-]+)` \| (?:`(.*?)`)? *\|", PAGE, re.MULTILINE)
    known = known_options()
    for key, default in rows:
        option = known[key]
        assert default == ("" if option.default is None else value_text(option.default)), key
    groups = ("execution.checkpointing.", "restart-strategy.", "tidegate.checkpointing.")
    assert {key for key in known if key.startswith(groups)} <= {key for key, _ in rows}


def test_every_older_key_is_named() -> None:
    older = {key for option in known_options().values() for key in option.deprecated_keys}
    elasticity = (Path(__file__).parents[2] / "docs" / "elasticity.md").read_text("utf-8")
    assert {key for key in older if f"`{key}`" not in PAGE + elasticity} == set()
