"""The examples of the pages on Spark run as printed there, and print what the pages say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from tidegate.console.main import main as command_line

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "spark.md"


def test_a_job_goes_on_with_state_that_spark_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples/spark/change_state.py"
    program = runpy.run_path(str(path))
    program["main"](tmp_path)
    page = (ROOT / "docs/guide/state-processor.md").read_text("utf-8")
    source, printed, *_ = re.findall(r"^```(?:python)?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == printed
    assert source in path.read_text("utf-8")
    # The command that people ask before they start a job says of Spark's savepoint that it would be restored.
    (written,) = (tmp_path / "changed").rglob("MANIFEST")
    with pytest.raises(SystemExit) as ended:
        command_line(["savepoint", "check", "--json", str(written.parent), str(path), str(tmp_path)])
    checked = json.loads(capsys.readouterr().out)
    assert (ended.value.code, checked["would_restore"]) == (0, True)
    states = {operator["uid"]: operator["states"] for operator in checked["operators"]}
    assert [(state["name"], state["outcome"]) for state in states["points"]] == [("points", "maps")]


def test_the_example_of_the_guide_prints_what_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program, printed, *_ = blocks
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "__main__"})
    # Java writes to the same descriptors: what it has to say belongs into its log.
    assert capfd.readouterr() == (printed, "")
