"""`tidegate run` gives a driver program its settings, and runs it as Python would."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.console.main import main
from tidegate.console.settings import settings_of_file

PROGRAM = """
import json, pathlib, sys
from dataclasses import dataclass
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

@dataclass
class Number:
    value: int

if __name__ == "__main__":
    configuration = Configuration()
    {settings}
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_collection([Number(1), Number(2)]).map(lambda number: number.value)
    found = sorted(numbers.execute_and_collect())
    known = dict(env.configuration.to_dict(), argv=sys.argv, found=found, path=sys.path[0])
    pathlib.Path(sys.argv[1]).write_text(json.dumps(known))
"""


class Runner:
    """Runs a program and reads what it wrote."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capsys = capsys
        self.program = directory / "job.py"
        self.error = ""

    def run(self, *options: str, settings: str = "pass", arguments: tuple[str, ...] = ()) -> int:
        self.program.write_text(PROGRAM.format(settings=settings), "utf-8")
        out = str(self.directory / "out.json")
        with pytest.raises(SystemExit) as ended:
            main(["run", *options, str(self.program), out, *arguments])
        self.error = self.capsys.readouterr().err
        return int(ended.value.code or 0)

    @property
    def written(self) -> dict[str, Any]:
        return json.loads((self.directory / "out.json").read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.fixture
def runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(tmp_path, capsys)


LOCAL = ("--conf", "execution.target=local")


def test_the_settings_reach_the_job_and_the_arguments_the_program(runner: Runner) -> None:
    code = runner.run(*LOCAL, "-D", "tidegate.batch.size=7", arguments=("--fast", "-D", "x=1"))
    assert code == 0
    assert runner.written["execution.target"] == "local"
    assert runner.written["tidegate.batch.size"] == "7"
    assert runner.written["argv"][2:] == ["--fast", "-D", "x=1"]
    assert runner.written["path"] == str(runner.directory)
    assert runner.written["found"] == [1, 2]


def test_the_command_line_goes_before_the_file(runner: Runner) -> None:
    file = runner.directory / "config.yaml"
    file.write_text("execution:\n  target: ray\nparallelism.default: 2\n", "utf-8")
    assert runner.run("--conf-file", str(file), *LOCAL) == 0
    assert runner.written["execution.target"] == "local"
    assert runner.written["parallelism.default"] == "2"


def test_the_program_goes_before_the_command_line_and_that_is_said(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    settings = "configuration.set_integer('tidegate.batch.size', 9)"
    with caplog.at_level(logging.WARNING):
        assert runner.run(*LOCAL, "--conf", "tidegate.batch.size=7", settings=settings) == 0
    assert runner.written["tidegate.batch.size"] == "9"
    assert "The program sets tidegate.batch.size to '9'" in caplog.text


def test_the_settings_are_gone_afterwards(runner: Runner) -> None:
    from tidegate.datastream import StreamExecutionEnvironment

    assert runner.run(*LOCAL) == 0
    assert StreamExecutionEnvironment().configuration.key_set() == set()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("parallelism.defalt=2", "did you mean parallelism.default?"),
        ("execution.checkpointing.interval=soon", "'soon', which is not a duration"),
        ("parallelism.default", "'parallelism.default' is not KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_program_starts(
    runner: Runner, setting: str, message: str
) -> None:
    assert runner.run(*LOCAL, "--conf", setting) == 2
    assert message in runner.error
    assert not (runner.directory / "out.json").exists()


def test_a_failing_program_ends_with_its_own_error(runner: Runner) -> None:
    assert runner.run(*LOCAL, settings="sys.exit(7)") == 7
    assert runner.run(*LOCAL, settings="configuration.set_integer('tidegate.batch.size', 0)") == 1
    assert "tidegate.batch.size is 0" in runner.error


def test_a_file_may_be_nested_or_flat_and_holds_every_kind_of_value(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        """
execution:
  checkpointing:
    interval: 10 s
    unaligned: {enabled: true}
  checkpointing.num-retained: 3
restart-strategy.exponential-delay.jitter-factor: 0.5
pipeline.global-job-parameters: {airport: JFK, "run at": "6:00"}
""",
        "utf-8",
    )
    assert settings_of_file(str(file)) == {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.num-retained": "3",
        "restart-strategy.exponential-delay.jitter-factor": "0.5",
        "pipeline.global-job-parameters": "airport:JFK,'run at':'6:00'",
    }
    file.write_text("", "utf-8")
    assert settings_of_file(str(file)) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is not a YAML file"),
        ("- a\n- b", "has to hold a map"),
        ("parallelism:\n  default: [1, 2]", r"parallelism\.default in config\.yaml is \[1, 2\]"),
        ("parallelism.default:", r"parallelism\.default in config\.yaml is None"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content, "utf-8")
    with pytest.raises(ConfigurationError, match=message):
        settings_of_file(str(file))


@pytest.mark.parametrize("name", ["--from-savepoint", "--savepoint", "-s"])
def test_what_a_job_starts_from_and_how_are_options(runner: Runner, name: str) -> None:
    chosen = (name, "/nowhere", "--allow-non-restored-state", "--restore-mode", "no_claim")
    assert runner.run(*LOCAL, *chosen) == 3
    assert "there is no checkpoint at /nowhere" in runner.error
