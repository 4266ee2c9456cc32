"""A node is lost, a node is drained, the head is lost: the results are exact, and no process stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.runtime.interfaces import interface_addresses

from ..certificates import Authority
from ..free_ports import free_ports
from .jobs import assert_gone

LIMIT_S = 360
pytestmark = pytest.mark.timeout(3 * LIMIT_S)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ray_dir() -> Iterator[str]:
    """A short path for Ray's files: those of its sockets end at 107 characters."""
    path = tempfile.mkdtemp(prefix="tn", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def drive(
    scenario: str, directory: Path, ray_dir: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a scenario of `nodes` in a process of its own, with Ray's processes in its session."""
    return subprocess.run(
        [sys.executable, "-m", "tests.ray.nodes", scenario, str(directory), ray_dir],
        cwd=ROOT,
        # On a busy machine a node takes more than Ray's minute to come up.
        env={**os.environ, "RAY_raylet_start_wait_time_s": "180", **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def assert_nothing_stays(ray_dir: str) -> None:
    """No process of a cluster that had its files there."""
    mine = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and ray_dir in _command_of(entry)
    ]
    assert_gone(mine)


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_a_lost_node_and_a_drained_node(tmp_path: Path, ray_dir: str) -> None:
    done = drive("node_lost_and_node_drained", tmp_path, ray_dir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)


def test_a_coordinator_that_was_stopped_leaves_its_successor_alone(tmp_path: Path, ray_dir: str) -> None:
    done = drive("coordinator_stopped", tmp_path, ray_dir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)


def test_a_silent_node_is_one_failure_and_gets_no_process_again(tmp_path: Path, ray_dir: str) -> None:
    done = drive("node_silent", tmp_path, ray_dir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)


def test_a_coordinator_leaves_a_drained_node_and_its_driver_does_not_notice(
    tmp_path: Path, ray_dir: str
) -> None:
    done = drive("coordinator_drained", tmp_path, ray_dir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)


def test_a_lost_head(tmp_path: Path, ray_dir: str) -> None:
    lost = drive("head_lost", tmp_path, ray_dir)
    assert lost.returncode == 9, lost.stdout + lost.stderr
    assert_gone(map(int, (tmp_path / "processes").read_text().split()))
    assert_nothing_stays(ray_dir)
    done = drive("head_is_back", tmp_path, ray_dir)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)


def test_records_between_nodes_use_tls_where_ray_does(tmp_path: Path, ray_dir: str) -> None:
    addresses = {address for _, address in interface_addresses()}
    files = Authority(tmp_path).files("node", addresses=addresses)
    done = drive(
        "nodes_with_tls",
        tmp_path,
        ray_dir,
        FIRST_PORT=str(free_ports(12)),
        RAY_USE_TLS="1",
        RAY_TLS_SERVER_CERT=files.certificate,
        RAY_TLS_SERVER_KEY=files.key,
        RAY_TLS_CA_CERT=files.authority,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_stays(ray_dir)
