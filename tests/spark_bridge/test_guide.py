"""The examples of the pages on Spark run as printed there, and print what the pages say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "spark.md"


def test_a_job_goes_on_with_state_that_spark_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = runpy.run_path(str(ROOT / "examples/spark/change_state.py"))
    program["main"](tmp_path)
    page = (ROOT / "docs/guide/state-processor.md").read_text("utf-8")
    source, printed, *_ = re.findall(r"^```(?:python)?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == printed
    assert source in (ROOT / "examples/spark/change_state.py").read_text("utf-8")


def test_the_example_of_the_guide_prints_what_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program, printed, *_ = blocks
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "__main__"})
    # Java writes to the same descriptors: what it has to say belongs into its log.
    assert capfd.readouterr() == (printed, "")
