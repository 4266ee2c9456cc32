from __future__ import annotations

from collections.abc import Iterator

import pytest

from .broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that all tests share; each makes topics of its own."""
    started = Broker()
    yield started
    started.stop()
