"""`pytest tests/golden --rewrite-golden` writes what the machines answer now into the scripts."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write today's outcomes into the scripts")


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    # With other directories on the command line this conftest comes too late for the parser.
    return bool(request.config.getoption("--rewrite-golden", False))
