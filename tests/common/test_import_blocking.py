"""A library can be kept from importing what it would only look at, and nobody else sees it."""

from __future__ import annotations

import importlib
import sys
import threading

import pytest
from tidegate.common.import_blocking import blocked_imports, stubbed_import

# Nothing here imports it, and nothing is lost when it is imported anew.
ABSENT = "wave"


@pytest.fixture(autouse=True)
def not_imported() -> None:
    sys.modules.pop(ABSENT, None)


def test_a_hidden_package_cannot_be_imported_until_it_is_hidden_no_more() -> None:
    with blocked_imports(ABSENT):
        with pytest.raises(ModuleNotFoundError, match="wave"):
            importlib.import_module(ABSENT)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{ABSENT}.below")
        assert importlib.import_module("json")
    assert importlib.import_module(ABSENT).__name__ == ABSENT


def test_other_threads_import_it_meanwhile() -> None:
    found: list[str] = []
    with blocked_imports(ABSENT):
        other = threading.Thread(target=lambda: found.append(importlib.import_module(ABSENT).__name__))
        other.start()
        other.join()
    assert found == [ABSENT]


def test_what_is_imported_already_stays_with_all_below_it() -> None:
    sys.modules.pop("xml.sax.saxutils", None)
    importlib.import_module("xml")
    with blocked_imports("xml"):
        assert importlib.import_module("xml.sax.saxutils").escape("<") == "&lt;"


def test_an_error_within_leaves_nothing_hidden() -> None:
    with pytest.raises(ValueError, match="within"), blocked_imports(ABSENT):
        raise ValueError("within")
    assert importlib.import_module(ABSENT).__name__ == ABSENT


def test_a_stubbed_module_is_not_run_and_not_kept() -> None:
    with stubbed_import(ABSENT):
        assert not hasattr(importlib.import_module(ABSENT), "open")
    assert hasattr(importlib.import_module(ABSENT), "open")


def test_a_module_that_is_there_stays_the_same() -> None:
    module = importlib.import_module(ABSENT)
    with stubbed_import(ABSENT):
        assert importlib.import_module(ABSENT) is module
    assert sys.modules[ABSENT] is module
