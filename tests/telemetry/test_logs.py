"""Log files of a process: what a line says, how long they grow, and that no secret is in them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tidegate.telemetry import logs
from tidegate.telemetry.logs import LogContext, LogSettings, ProcessLog

from .log_files import log_files

JOB = LogContext("0123abc", "orders")
TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"
logger = logging.getLogger("tidegate.tests")


@contextmanager
def written(directory: Path, **settings: Any) -> Iterator[None]:
    """Lines of this thread go to the file of a process."""
    logger.setLevel(logging.DEBUG)
    logs.enter(None)
    try:
        with closing(ProcessLog(LogSettings(**settings), str(directory), "task", JOB)):
            yield
    finally:
        logs.enter(None)


def lines(directory: Path) -> list[dict[str, Any]]:
    (path,) = log_files(str(directory), JOB.job_id)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_of_json_says_what_its_thread_works_for(tmp_path: Path) -> None:
    task = LogContext("0123abc", "orders", "Map -> Filter", 3, 2)
    with written(tmp_path, is_json=True):
        logger.info("before %s", 'any "task"\n')
        logs.enter(task)
        logger.info("in a task")
        logs.enter(task.within(TRACEPARENT))
        logger.warning("in a checkpoint")
    before, in_task, in_checkpoint = lines(tmp_path)
    assert before["message"] == 'before any "task"\n'
    assert (before["level"], before["logger"], before["role"]) == ("INFO", "tidegate.tests", "task")
    assert (before["job_id"], before["job_name"]) == ("0123abc", "orders")
    assert before["process_id"] == os.getpid()
    assert before["time"].endswith("Z")
    assert "operator" not in before
    assert (in_task["operator"], in_task["subtask_index"], in_task["attempt"]) == ("Map -> Filter", 3, 2)
    assert "trace_id" not in in_task
    assert (in_checkpoint["trace_id"], in_checkpoint["operator"]) == ("a" * 32, "Map -> Filter")


def test_threads_work_for_different_subtasks(tmp_path: Path) -> None:
    def work(index: int) -> None:
        logs.enter(LogContext("0123abc", "orders", "Map", index, 0))
        logger.info("here")

    with written(tmp_path, is_json=True):
        for index in range(2):
            thread = threading.Thread(target=work, args=(index,))
            thread.start()
            thread.join()
        logger.info("outside")
    assert [line.get("subtask_index") for line in lines(tmp_path)] == [0, 1, None]


def test_an_exception_is_part_of_its_line_and_secrets_are_in_none(tmp_path: Path) -> None:
    with written(tmp_path, is_json=True):
        try:
            raise ValueError("no way to postgresql://ada:s3cret@host/db")
        except ValueError:
            logger.exception("It failed with password=s3cret")
    (line,) = lines(tmp_path)
    assert line["exception"].startswith("Traceback")
    assert "ValueError: no way to postgresql://ada:" in line["exception"]
    assert "s3cret" not in json.dumps(line)


def test_a_line_for_people_has_time_level_subtask_and_message(tmp_path: Path) -> None:
    with written(tmp_path):
        logs.enter(LogContext("0123abc", "orders", "Map", 1, 0))
        logger.warning("slow: token=abc")
        logger.debug("not written")
    (path,) = log_files(str(tmp_path), JOB.job_id)
    (line,) = path.read_text("utf-8").splitlines()
    assert line.endswith("Z WARNING tidegate.tests [Map (1), attempt 0] - slow: token=******")


def test_files_are_bounded_and_found_in_order(tmp_path: Path) -> None:
    with written(tmp_path, max_files=2, max_file_bytes=80_000):
        for number in range(6):
            logger.info("%d %s", number, "x" * 100_000)
    files = log_files(str(tmp_path), JOB.job_id)
    name = f"tidegate-0123abc-task-{os.getpid()}.log"
    assert [path.name for path in files] == [f"{name}.2", f"{name}.1", name]
    assert all(path.stat().st_size <= 80_000 for path in files)
    assert files[-1].read_text("utf-8").rstrip().endswith("… (100002 characters)")
    (tmp_path / "tidegate-0123abcd-task-1.log").touch()
    assert log_files(str(tmp_path), JOB.job_id) == files


def test_a_directory_that_cannot_be_made_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with written(tmp_path / "file"):
        logger.info("lost")
    (message,) = (text for text in caplog.messages if "no log file" in text)
    assert "the job goes on without it" in message


def test_a_job_in_the_local_shell_logs_what_its_functions_and_the_coordinator_say(tmp_path: Path) -> None:
    program = f"""
import logging
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

def complain(value):
    logging.getLogger("my.functions").info("saw %s", value)
    return 1 // value

configuration = Configuration()
configuration.set_string("execution.target", "local")
configuration.set_string("env.log.dir", {str(tmp_path)!r})
configuration.set_string("tidegate.log.format", "JSON")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_collection([2, 1, 0]).map(complain).name("Complaints").print()
env.execute("complaining")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    (path,) = tmp_path.iterdir()
    assert path.name.split("-")[2] == "local"
    said = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert {line["job_name"] for line in said} == {"complaining"}
    of_function = [line for line in said if line["logger"] == "my.functions"]
    assert [line["message"] for line in of_function] == ["saw 2", "saw 1", "saw 0"]
    assert "Complaints" in of_function[0]["operator"]
    (failed,) = (line for line in said if line["level"] == "ERROR")
    assert failed["message"].startswith("The job complaining fails: task ")
    assert "operator" not in failed
    (told,) = (line for line in said if line["message"].endswith("failed"))
    assert "ZeroDivisionError" in told["exception"]
    assert said[-1]["message"] == "The job complaining is FAILED"
    # Who looks at standard error still sees what went wrong.
    assert "The job complaining fails" in ended.stderr
    assert "saw 2" not in ended.stderr
