"""The programs in docs/operator-state.md run as printed there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Configuration, Types
from tidegate.datastream import StreamExecutionEnvironment

GUIDE = Path(__file__).parents[2] / "docs" / "operator-state.md"


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_the_programs_of_the_guide_run(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1), ("a", 2), ("b", 3)])
    names: dict[str, Any] = {"stream": stream, "Types": Types, "__name__": "guide"}
    numbering, sums, index = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    exec(compile(numbering, "operator-state.md", "exec"), names)
    numbered = stream.map(names["Numbering"]())
    assert list(numbered.execute_and_collect()) == [(1, ("a", 1)), (2, ("a", 2)), (3, ("b", 3))]
    results = eval(compile(sums.strip(), "operator-state.md", "eval"), names)
    assert list(results.execute_and_collect()) == [("a", 1), ("a", 3), ("b", 3)]
    exec(compile(index, "operator-state.md", "exec"), names)
    stream.key_by(lambda pair: pair[0], Types.STRING()).transform("Index", names["Index"]())
    env.execute()
