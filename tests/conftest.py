"""What tests share: one Ray cluster for the whole session, started by the first test that asks."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

# Ray reads these when it is first imported, which test modules may do while they are collected;
# child processes (workers, `ray job submit`) inherit them. Without a token of its own a cluster
# started by a test would write one to ~/.ray/auth_token, and an address in the environment would
# make the tests join somebody's cluster.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
os.environ.pop("RAY_ADDRESS", None)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# On a busy machine a node takes more than Ray's half minute to come up.
os.environ["RAY_raylet_start_wait_time_s"] = "150"  # noqa: SIM112 (the name that Ray reads)

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("tidegate", deadline=None)
hypothesis.settings.load_profile("tidegate")

RAY_CPUS = 4


@dataclass(frozen=True)
class RayCluster:
    """A running Ray of this test session; the driver of the session is connected to it.

    `address` is the GCS address for further drivers, which need the environment of this process for
    its token; `num_cpus` are logical, more than the machine may have.
    """

    address: str
    num_cpus: int
    temp_dir: Path


_STARTS_PROCESSES = {"ray_cluster", "spark_session", "browser"}
"""Fixtures that start Ray, Spark or a browser. Kafka and the others have directories of their own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests that use these fixtures out of `make quick`."""
    for item in items:
        if isinstance(item, pytest.Function) and _STARTS_PROCESSES & {*item.fixturenames}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """One Ray with token authentication, for all tests of the session that need one.

    Tests share it: each uses a namespace or job name of its own and removes the actors it made.
    """
    import ray
    from tidegate.spark_bridge.java import require_java

    # Ray's Java workers, which RayDP needs, take `java` from the PATH that Ray was started with.
    require_java().use()
    # A short path of our own: Ray's sockets lie below it, and their paths end at 107 characters.
    temp_dir = Path(tempfile.mkdtemp(prefix="tg", dir="/tmp"))
    context = ray.init(
        address="local",
        num_cpus=RAY_CPUS,
        object_store_memory=256 * 1024 * 1024,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _temp_dir=str(temp_dir),
        # Ray's workers yield to everything else by default: here to tests that run beside them.
        _system_config={"worker_niceness": 0},
    )
    try:
        yield RayCluster(context.address_info["gcs_address"], RAY_CPUS, temp_dir)
    finally:
        ray.shutdown()
        shutil.rmtree(temp_dir, ignore_errors=True)
