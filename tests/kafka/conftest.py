from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..forked import Forks
from .broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that all tests share; each makes topics of its own."""
    started = Broker()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Runs programs of `examples/` in processes of their own."""
    started = Forks("tests.kafka.example_job")
    yield started
    started.close()
