"""What a driver does with its job when it gets SIGINT or SIGTERM while it waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

TIMEOUT_S = 120
PROGRAM = """
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

configuration = Configuration.from_dict({settings!r})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
numbers.uid("numbers").map(lambda number: number or print("running", flush=True)).uid("told").add_sink(repr)
env.execute("endless")
print("the program goes on")
"""


def settings(directory: Path, action: str) -> dict[str, str]:
    return {
        "execution.target": "local",
        "tidegate.batch.size": "10",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "tidegate.on-stop-signal": action,
    }


def run_endless(directory: Path, action: str, on_number: Callable[[int], Any]) -> int | str | None:
    """Run an endless job in this thread; the code of the `SystemExit` that ends it."""
    configuration = Configuration.from_dict(settings(directory, action))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = NumberSequenceSource(0, 10**12)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(on_number).uid("told").add_sink(lambda number: None).uid("sink")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(SystemExit) as ended:
        env.execute("endless")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    return ended.value.code


def signalled_at(*numbers: int) -> Callable[[int], None]:
    """Sends SIGTERM to this process, and so to this thread, at these records."""

    def told(number: int) -> None:
        if number in numbers:
            signal.raise_signal(signal.SIGTERM)

    return told


def test_sigterm_cancels_and_ends_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_endless(tmp_path, "cancel", signalled_at(25)) == 143
    assert capsys.readouterr().err.endswith("is CANCELED\n")
    assert not (tmp_path / "savepoints").exists()


def test_a_savepoint_is_taken_and_its_path_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_endless(tmp_path, "stop-with-savepoint", signalled_at(25)) == 143
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    assert f"stopped with savepoint {savepoint}\n" in capsys.readouterr().err
    assert (savepoint / "MANIFEST").exists()


def test_a_second_signal_cancels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Both come within one record, so that no savepoint can begin between them.
    def told(number: int) -> None:
        if number == 25:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)

    assert run_endless(tmp_path, "stop-with-savepoint", told) == 143
    said = capsys.readouterr().err
    assert said.index("stops with a savepoint") < said.index("is CANCELLING")


@pytest.mark.parametrize(("action", "signals"), [("stop-with-savepoint", 3), ("cancel", 2)])
def test_the_last_signal_ends_the_program_whatever_the_job_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str, signals: int
) -> None:
    def stuck(number: int) -> None:
        for _ in range(signals):
            signal.raise_signal(signal.SIGTERM)
        pytest.fail("the last one should have ended this")

    assert run_endless(tmp_path, action, stuck) == 143
    assert "goes on without its driver" in capsys.readouterr().err


def test_a_failed_savepoint_lets_the_job_go_on_until_the_next_signal(tmp_path: Path) -> None:
    (tmp_path / "savepoints").mkdir()
    (tmp_path / "savepoints" / "stranger").touch()
    said = str(tmp_path / "said")

    def told(number: int) -> None:
        if number == 25 or (number > 25 and "goes on: " in Path(said).read_text()):
            signal.raise_signal(signal.SIGTERM)

    with open(said, "w") as file, redirect_stderr(file):
        assert run_endless(tmp_path, "stop-with-savepoint", told) == 143
    lines = Path(said).read_text()
    assert "holds more than savepoints" in lines
    assert lines.endswith("is CANCELED\n")


def test_outside_the_main_thread_signals_are_left_alone(tmp_path: Path) -> None:
    configuration = Configuration.from_dict(settings(tmp_path, "cancel"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, 2]).add_sink(lambda number: None)
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=env.execute)
    thread.start()
    thread.join(TIMEOUT_S)
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_in_a_program_ends_it_as_python_would_once_the_job_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM.format(settings=settings(tmp_path, "stop-with-savepoint")))
    process = subprocess.Popen(
        [sys.executable, "job.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (-signal.SIGINT, "")
    assert "stopped with savepoint" in err
    assert err.endswith("KeyboardInterrupt\n")


def test_an_embedded_ray_cannot_go_on_without_its_driver(tmp_path: Path) -> None:
    # In a process of its own: this one may be connected to a Ray by another test.
    chosen = {"execution.attached": "false", "execution.target": "ray"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(settings=settings(tmp_path, "cancel") | chosen)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "its Ray is embedded in its driver; set RAY_ADDRESS" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"tidegate.on-stop-signal": "detach"}, "the job cannot go on without its driver"),
        ({"execution.attached": "false"}, "the job cannot go on without its driver"),
        ({"tidegate.on-stop-signal": "stop-with-savepoint"}, "takes no checkpoints"),
        (
            {
                "tidegate.on-stop-signal": "stop-with-savepoint",
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.dir": "memory://stop-signals",
            },
            "no place for savepoints",
        ),
        ({"tidegate.on-stop-signal": "panic"}, "not one of cancel, stop-with-savepoint, detach"),
    ],
)
def test_what_a_job_could_not_do_is_refused_before_it_starts(chosen: dict[str, str], message: str) -> None:
    configuration = Configuration.from_dict({"execution.target": "local", **chosen})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).add_sink(lambda number: None)
    with pytest.raises(ConfigurationError, match=message):
        env.execute()
