"""What every test with Ray relies on: the session's cluster asks for the session's token."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ray

# A driver with a wrong token would retry for twenty seconds; this asks the same server only once.
ASK_GCS = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def ask_gcs(address: str, token: str) -> subprocess.CompletedProcess[str]:
    """Another process turns to the cluster with `token`."""
    return subprocess.run(
        [sys.executable, "-c", ASK_GCS, address],
        env={**os.environ, "RAY_AUTH_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_task_runs_on_the_cluster_and_sees_tidegate(ray_cluster: Any) -> None:
    @ray.remote(num_cpus=0)
    def version() -> str:
        import tidegate

        return tidegate.__version__

    import tidegate

    assert ray.get(version.remote(), timeout=60) == tidegate.__version__


def test_the_cluster_answers_those_with_its_token_only(ray_cluster: Any) -> None:
    assert ask_gcs(ray_cluster.address, os.environ["RAY_AUTH_TOKEN"]).returncode == 0
    stranger = ask_gcs(ray_cluster.address, "0" * 64)
    assert stranger.returncode != 0
    assert "AuthenticationError" in stranger.stderr
