"""Java for the tests of the room, and the processes they leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tidegate.spark_bridge.session import session_host

from . import jobs


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """The session of this process, as the jobs on the local target share it. It may be replaced."""
    # A session sets what its Java needs, for this process and those it starts.
    before = dict(os.environ)
    lease = session_host().acquire(jobs.SPARK)
    session = lease.session()
    lease.release()
    try:
        yield session
    finally:
        running = jobs.java_processes()
        session_host().stop()
        os.environ.clear()
        os.environ.update(before)
        _gone, alive = psutil.wait_procs(running, timeout=jobs.WAIT_S)
        for log in Path(jobs.SPARK.log_dir).glob(f"*-{os.getpid()}.*"):
            log.unlink()
    assert alive == []
