"""What the names and the lines of log files say, to those who choose among them."""

from __future__ import annotations

import logging

import pytest
from tidegate.telemetry.logs import (
    JsonFormatter,
    LogContext,
    TextFormatter,
    enter,
    parse_file_name,
    place_of_line,
)


def test_the_name_of_a_log_file_says_whose_it_is() -> None:
    known = parse_file_name("tidegate-3f2a-task-4711.log.2")
    assert known is not None
    assert (known.job_id, known.role, known.process_id, known.age) == ("3f2a", "task", 4711, 2)
    assert parse_file_name("worker-3f2a-01000000-4711.out") is None


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter("task", LogContext("3f2a", "flights"))])
def test_a_line_says_which_subtask_it_is_about(formatter: logging.Formatter) -> None:
    record = logging.LogRecord(
        "test", logging.INFO, "file.py", 1, "hello [x (1), attempt 2] - you", None, None
    )
    enter(LogContext("3f2a", "flights", "Map -> Sink (of all)", 3, 2))
    try:
        line = formatter.format(record)
    finally:
        enter(None)
    assert place_of_line(line) == ("Map -> Sink (of all)", 3)
    assert place_of_line(formatter.format(record)) is None


def test_a_line_of_a_traceback_begins_no_entry() -> None:
    with pytest.raises(ValueError, match="File"):
        place_of_line('  File "driver.py", line 3, in fail')
