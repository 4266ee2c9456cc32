"""Links between hosts are cut: the job resumes, or restarts with a clear cause, and its output is exact.

`make partitions` does more cuts, and longer ones; see docs/testing.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from . import partitions
from .hosts import HEAD, NODE_A, NODE_B, Hosts, NotPermittedError, connected_hosts, namespaces

LIMIT_S = 420
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
REQUIRED = "TIDEGATE_TEST_NAMESPACES"
"""`required` makes a failure of what is otherwise a skipped test; `.ci/run` sets it for root."""
ANSWERS = "import socket; s = socket.create_server(('', 7)); print(flush=True); s.accept()[0].sendall(b'x')"
ASKS = "import socket; s = socket.create_connection(('{}', 7), 2); s.settimeout(2); print(s.recv(1))"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Hosts without Ray; no namespace stays."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(connected_hosts())
        except NotPermittedError as error:
            if os.environ.get(REQUIRED) == "required":
                raise
            pytest.skip(str(error))
        yield made
    assert not {name for name in namespaces() if name.startswith(made.prefix)}


def asks(hosts: Hosts, asking: str, asked: str) -> bool:
    """Whether a host can ask another one for a byte."""
    server = hosts.command(asked, [sys.executable, "-c", ANSWERS])
    with subprocess.Popen(server, stdout=subprocess.PIPE) as answering:
        assert answering.stdout is not None
        answering.stdout.readline()
        client = [sys.executable, "-c", ASKS.format(hosts.address(asked))]
        done = subprocess.run(hosts.command(asking, client), capture_output=True, text=True, check=False)
        answering.kill()
    assert done.returncode == 0 or "timed out" in done.stderr, done.stderr
    return done.stdout == "b'x'\n"


def test_a_cut_affects_one_pair_of_hosts_and_drops_in_silence(hosts: Hosts) -> None:
    assert asks(hosts, NODE_A, NODE_B)
    hosts.cut((NODE_A, NODE_B))
    assert not asks(hosts, NODE_A, NODE_B)
    assert not asks(hosts, NODE_B, NODE_A)
    assert asks(hosts, HEAD, NODE_A)
    assert asks(hosts, NODE_B, HEAD)
    hosts.heal((NODE_A, NODE_B))
    assert asks(hosts, NODE_B, NODE_A)


def test_nothing_stays_of_hosts_whose_test_failed(hosts: Hosts) -> None:
    with pytest.raises(FailedError) as failed:
        fail_with_a_process()
    with failed.value.process as left:
        assert left.wait() < 0
    assert not {name for name in namespaces() if name.startswith(failed.value.prefix)}


class FailedError(Exception):
    """What a test raised, with what it left."""

    def __init__(self, prefix: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self.prefix = prefix
        self.process = process


def fail_with_a_process() -> None:
    with connected_hosts() as made:
        server = made.command(NODE_A, [sys.executable, "-c", ANSWERS])
        left = subprocess.Popen(server, stdout=subprocess.PIPE)
        assert left.stdout is not None
        left.stdout.readline()
        raise FailedError(made.prefix, left)


def test_a_job_resumes_after_short_cuts_and_restarts_after_one_that_is_too_long(
    hosts: Hosts, tmp_path: Path
) -> None:
    hosts.start_cluster()
    driver = partitions.run_on_head(hosts, tmp_path, *partitions.FAST)
    try:
        output, errors = driver.communicate(timeout=LIMIT_S)
    finally:
        driver.kill()
    assert driver.returncode == 0, output + errors
    *short, timeout = map(json.loads, output.splitlines())
    assert [each["restarts"] for each in short] == [0, 0, 0], short
    assert timeout["restarts"] > 0
    cause = timeout["causes"][0]
    assert "numbers (" in cause, cause
    assert "count -> sink (" in cause, cause
    assert "tidegate.network.reconnect-timeout" in cause, cause
