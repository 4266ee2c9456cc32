"""`tidegate plan` and `get_execution_plan`: what a program would run, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Configuration
from tidegate.console.main import main
from tidegate.datastream import CoMapFunction, DataStream, StreamExecutionEnvironment

PROGRAM = """
import sys
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
numbers = env.from_collection([1, 2, 3]).name("Numbers")
totals = numbers.key_by(lambda number: number % 2).sum().uid("totals").set_description(sys.argv[1])
totals.map(str).name("Text").print()
env.execute("Totals")
"""


class Sum(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


@pytest.fixture
def driver(tmp_path: Path) -> str:
    path = tmp_path / "driver.py"
    path.write_text(PROGRAM)
    return str(path)


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_a_driver_program_is_planned_and_not_run(driver: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", driver, "adds up")
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [node["type"] for node in nodes] == ["Source: Numbers", "Sum", "Text", "Sink: Print to Std. Out"]
    assert [node["pact"] for node in nodes] == ["Data Source", "Operator", "Operator", "Data Sink"]
    assert [node["parallelism"] for node in nodes] == [1, 2, 2, 2]
    assert [node["task"] for node in nodes] == [1, 2, 2, 2]
    assert (nodes[1]["uid"], nodes[1]["contents"], nodes[2]["contents"]) == ("totals", "adds up", "Text")
    assert "predecessors" not in nodes[0]
    assert nodes[1]["predecessors"] == [{"id": nodes[0]["id"], "ship_strategy": "HASH", "side": "first"}]
    assert nodes[3]["predecessors"][0]["ship_strategy"] == "FORWARD"


def strategy(spread: Any) -> str:
    env = environment()
    spread(env.from_collection([1])).map(abs).set_parallelism(3).add_sink(print)
    plan = json.loads(env.get_execution_plan())
    return str(plan["nodes"][1]["predecessors"][0]["ship_strategy"])


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (DataStream.rebalance, "REBALANCE"),
        (DataStream.rescale, "RESCALE"),
        (DataStream.shuffle, "SHUFFLE"),
        (DataStream.broadcast, "BROADCAST"),
        (DataStream.global_, "GLOBAL"),
        (lambda stream: stream.partition_custom(lambda key, count: 0, abs), "CUSTOM"),
        (lambda stream: stream.key_by(abs), "HASH"),
        (lambda stream: stream, "REBALANCE"),
    ],
)
def test_the_plan_tells_how_records_travel(spread: Any, expected: str) -> None:
    assert strategy(spread) == expected


def test_two_inputs_have_two_sides() -> None:
    env = environment()
    both = env.from_collection([1]).connect(env.from_collection([2]).rebalance())
    both.map(Sum()).add_sink(print)
    node = json.loads(env.get_execution_plan())["nodes"][2]
    found = [(each["id"], each["ship_strategy"], each["side"]) for each in node["predecessors"]]
    assert found == [(1, "REBALANCE", "first"), (2, "REBALANCE", "second")]


def test_asking_for_the_plan_changes_nothing() -> None:
    env = environment()
    stream = env.from_collection([1, 2])
    stream.add_sink(print)
    first = env.get_execution_plan()
    assert env.get_execution_plan() == first
    assert sorted(stream.map(abs).execute_and_collect()) == [1, 2]


def test_the_tasks_of_the_plan_follow_the_chaining() -> None:
    env = environment().disable_operator_chaining()
    env.from_collection([1]).map(abs).set_parallelism(1).add_sink(print).set_parallelism(1)
    assert [node["task"] for node in json.loads(env.get_execution_plan())["nodes"]] == [1, 2, 3]


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_picture_is_drawn_in_both_formats(
    ending: str, start: bytes, driver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"plan.{ending}"
    run("plan", "--picture", str(path), driver, "x")
    assert capsys.readouterr().out == f"drew 4 operators in {path}\n"
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 5_000


@pytest.mark.parametrize(
    ("path", "message"),
    [("plan.pdf", "neither .svg nor .png"), ("nowhere/plan.svg", "cannot be written")],
)
def test_a_picture_that_cannot_be_drawn_says_why(
    path: str, message: str, driver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--picture", str(tmp_path / path), driver, "x"])
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
