"""docs/metrics.md and docs/logs.md: the program prints what the page says, and the tables are the code's."""

from __future__ import annotations

import logging
import re

from tidegate.coordinator.monitoring.job_metric_families import JOB_METRICS, TASK_METRICS, WATERMARK_METRICS
from tidegate.coordinator.monitoring.stage_metrics import STAGE_METRICS
from tidegate.telemetry import logs
from tidegate.telemetry.logs import JsonFormatter, LogContext

from .programs import ROOT, code_blocks, output_of

METRICS = (ROOT / "docs" / "metrics.md").read_text("utf-8")
LOGS = (ROOT / "docs" / "logs.md").read_text("utf-8")


def rows(page: str, heading: str) -> dict[str, str]:
    """The rows of a table of two columns below a heading."""
    part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", part, re.MULTILINE))


def test_the_program_prints_what_the_page_says() -> None:
    assert [output_of("guide", "metrics.py")] == code_blocks("metrics.md", "text")


def test_the_page_shows_part_of_the_program() -> None:
    (block,) = code_blocks("metrics.md")
    assert block in (ROOT / "examples/guide/metrics.py").read_text("utf-8")


def test_the_tables_of_metrics_are_those_of_the_code() -> None:
    of_subtasks = {name: text for name, (text, _) in TASK_METRICS.items()} | WATERMARK_METRICS
    assert rows(METRICS, "Of a subtask") == of_subtasks
    assert rows(METRICS, "Of a Spark stage") == {name: text for name, (text, _) in STAGE_METRICS.items()}
    assert rows(METRICS, "Of a job") == JOB_METRICS


def test_every_field_of_a_line_of_json_is_documented() -> None:
    context = LogContext("job", "name", "Map", 0, 1, "a" * 32)
    logs.enter(context)
    record = logging.LogRecord("tidegate", logging.INFO, "file.py", 1, "message", (), None)
    line = JsonFormatter("task", context).format(record)
    logs.enter(None)
    fields = re.findall(r'"(\w+)": ', line)
    documented = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?`) \|", LOGS, re.MULTILINE)))
    assert set(fields) <= set(documented) <= {*fields, "exception"}
