"""What the processes of a job do not import, and that it is there for those who want it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from tidegate.datastream import StreamExecutionEnvironment

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

WEB = ("aiohttp", "grpc", "pydantic", "starlette")
DRIVER = """
import sys
import pyarrow
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

settings = Configuration()
settings.set_string("execution.target", "ray")
settings.set_string("tidegate.slot.cpus", "0.5")
env = StreamExecutionEnvironment.get_execution_environment(settings)
assert list(env.from_collection([1]).map(lambda number: number + 1).execute_and_collect()) == [2]
print([name for name in ("aiohttp", "grpc", "pydantic", "starlette") if name in sys.modules])
import ray
from ray._common.pydantic_compat import BaseModel
print(issubclass(BaseModel, object))
ray.shutdown()
"""


def _look(_: int) -> tuple[list[str], bool]:
    found = [name for name in WEB if name in sys.modules]
    # As Ray Serve does, whose deployments a function may call.
    from pydantic import BaseModel
    from ray._common.pydantic_compat import BaseModel as RaysOwn

    return found, RaysOwn is BaseModel


def test_a_task_imports_no_web_framework_but_can(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1, interval_ms=None)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    assert list(env.from_collection([1]).map(_look).execute_and_collect()) == [([], True)]


@pytest.mark.parametrize("embedded", [True, False])
def test_a_driver_imports_none_either(embedded: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    if not embedded:
        environment["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[]", "True"]
