"""Every public name of PyFlink's DataStream API works here, or is listed as absent with an alternative."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tidegate.common.absent_names import ABSENT
from tidegate.common.errors import AbsentNameError

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "coming-from-pyflink.md"


def names() -> dict[str, list[str]]:
    """PyFlink's names, by module below the root package."""
    lines = Path(__file__).with_name("pyflink_names.txt").read_text("utf-8").splitlines()
    parts = (line.split(": ") for line in lines if not line.startswith("#"))
    return {module.removeprefix("pyflink."): names.split() for module, names in parts}


@pytest.mark.parametrize("module", names())
def test_every_name_exists_or_is_listed_as_absent(module: str) -> None:
    found = importlib.import_module(f"tidegate.{module}")
    absent = ABSENT.get(module, {})
    for name in names()[module]:
        if name in absent:
            with pytest.raises(AbsentNameError, match=rf"{name} of PyFlink does not exist in Tidegate; use "):
                getattr(found, name)
        else:
            assert getattr(found, name) is not None


def test_what_is_listed_as_absent_is_a_name_of_pyflink() -> None:
    assert {(module, name) for module, entries in ABSENT.items() for name in entries} <= {
        (module, name) for module, listed in names().items() for name in listed
    }


def test_the_guide_lists_every_absent_name_with_its_alternative() -> None:
    assert absent_table() in GUIDE.read_text("utf-8")


def test_an_import_of_an_absent_name_reports_the_alternative() -> None:
    with pytest.raises(ImportError, match="use PostgresSink"):
        from tidegate.datastream.connectors.jdbc import JdbcSink  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'Absent'"):
        from tidegate.datastream.connectors.jdbc import Absent  # noqa: F401


def absent_table() -> str:
    """The table of the guide. To renew it: `python -m tests.common.test_pyflink_names`."""
    rows = ["| module | names | use |", "|---|---|---|"]
    for module, entries in sorted(ABSENT.items()):
        by_alternative: dict[str, list[str]] = {}
        for name, alternative in sorted(entries.items()):
            by_alternative.setdefault(alternative, []).append(f"`{name}`")
        rows += [f"| `{module}` | {', '.join(each)} | {use} |" for use, each in by_alternative.items()]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(absent_table(), end="")
