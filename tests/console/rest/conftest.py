"""A console over jobs in every state, on a free port of loopback, for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret

from tests.console.rest.jobs import all_jobs

TOKEN = "only-for-these-tests-0123456789"


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the console answers."""
    jobs = all_jobs(tmp_path_factory.mktemp("archive"))
    settings = ServerSettings(port=0, secret=ConsoleSecret(TOKEN), savepoint_roots=("/allowed",))
    with served(jobs, settings) as found:
        yield found


@pytest.fixture
def reader(address: str) -> Iterator[httpx.Client]:
    """Somebody without a token."""
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def operator(address: str) -> Iterator[httpx.Client]:
    """Somebody with the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        yield client
