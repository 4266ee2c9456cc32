"""Fixtures for pytest: installed with Tidegate, there is nothing to switch on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..datastream import StreamExecutionEnvironment


@pytest.fixture
def tidegate_env(tmp_path: Path) -> StreamExecutionEnvironment:
    """An environment whose jobs run in the test's own process, with checkpoints under `tmp_path`.

    Parallelism is 1, a failing job is not started again, and checkpoints are off until the test calls
    `enable_checkpointing`.
    """
    # Here and not above: tests that do not use it must not pay for it.
    from ..common import Configuration
    from ..datastream import StreamExecutionEnvironment

    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.dir", (tmp_path / "checkpoints").as_uri())
    configuration.set_string("restart-strategy.type", "none")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env
