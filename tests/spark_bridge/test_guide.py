"""The example in docs/spark.md runs as printed there, and prints what the guide says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_example_of_the_guide_prints_what_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program, printed, *_ = blocks
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "__main__"})
    # Java writes to the same descriptors: what it has to say belongs into its log.
    assert capfd.readouterr() == (printed, "")
