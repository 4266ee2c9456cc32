"""The examples in docs/savepoints.md run as printed there; those on a cluster run in tests/ray."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tidegate.common.configuration import Configuration
from tidegate.common.options.known_options import check_settings
from tidegate.console.main import main

PAGE = Path(__file__).parents[2] / "docs" / "savepoints.md"


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and text of every block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The page's blocks up to the cluster's, in a directory that holds the page's job as a module."""
    found = blocks(PAGE.read_text("utf-8").partition("## On a cluster")[0])
    (tmp_path / "job.py").write_text(found[0][1], "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield found[1:]
    sys.modules.pop("job", None)


def flattened(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their whole keys."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        nested = (
            flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: str(value)}
        )
        flat.update(nested)
    return flat


def test_the_guide_does_what_it_says(page: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for language, text in page:
        if language == "python":
            exec(compile(text, PAGE.name, "exec"), names)
            printed = capsys.readouterr().out
        elif language == "":
            # Keys come from different key groups, whose order is no promise.
            assert set(text.splitlines()) <= set(printed.splitlines())
        elif language == "yaml":
            check_settings(Configuration.from_dict(flattened(yaml.safe_load(text))))
        else:
            assert language == "console"
            for line in text.splitlines():
                with pytest.raises(SystemExit) as ended:
                    main(shlex.split(line.replace("KEPT", names["kept"]))[2:])
                assert not ended.value.code, line
                assert capsys.readouterr().out
    assert not Path(names["kept"]).exists()
