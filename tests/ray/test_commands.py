"""The command line over running jobs of a cluster."""

from __future__ import annotations

import json
import os
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from tidegate.console.doctor.cluster import check_cluster
from tidegate.console.main import commands, main
from tidegate.coordinator.control.job_client import JobClient

from . import jobs  # noqa: F401 (the fixture `on_ray` takes it from here)
from .jobs import (
    BY_HAND_MS,
    FileSink,
    Gate,
    configuration,
    counts,
    eventually,
    expected,
    half_way,
    pid_of,
    processes,
    records_in,
    running,
)

pytestmark = pytest.mark.usefixtures("on_ray")
COUNT = 2_000
Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `tidegate … --json`: exit code, document, standard error."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--json"])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), json.loads(captured.out), captured.err

    return run


@pytest.fixture
def name() -> str:
    """Of a job, with characters that mean something to shells, markup and patterns."""
    return f"what [bold]is*this {uuid.uuid4().hex[:8]} ü"


@pytest.fixture
def job(tmp_path: Path, name: str) -> Iterator[JobClient]:
    """A job that waits half way, and takes checkpoints by hand only."""
    settings = configuration(tmp_path, interval_ms=BY_HAND_MS)
    settings.set_string("pipeline.name", name)
    stream = counts(settings, COUNT, Gate(tmp_path), source_parallelism=1)
    with running(stream, FileSink(tmp_path / "out.txt")) as client:
        yield client


def text_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What people see."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    return capsys.readouterr().out


def completed(*words: str, start: str) -> set[str]:
    """What a shell is offered for a word that begins so."""
    complete = ShellComplete(commands, {}, "tidegate", "_TIDEGATE_COMPLETE")
    return {each.value for each in complete.get_completions(list(words), start)}


def test_a_connected_process_does_not_answer_for_another_cluster(command: Command, ray_cluster: Any) -> None:
    assert command("list", "--address", ray_cluster.address)[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, answer, _ = command("list", "--address", f"127.0.0.1:{other.getsockname()[1]}")
    assert code == 4
    assert f"connected to the cluster at {ray_cluster.address}" in answer["error"]["message"]


def test_a_rescale_that_is_refused_names_what_was_asked_for(
    job: JobClient, name: str, command: Command
) -> None:
    eventually("the job", lambda: job.report().status.name == "RUNNING", job)
    code, answer, _ = command("rescale", name, "nosuch", "3")
    assert code == 1
    message = answer["error"]["message"]
    assert message.startswith("Cannot rescale operator 'nosuch' to parallelism 3: the job has no operator")
    message = command("rescale", name, "64")[1]["error"]["message"]
    assert message.startswith("Cannot rescale the job to parallelism 64: operator 'count'")


def test_a_job_is_watched_and_steered_by_its_name(
    job: JobClient,
    name: str,
    tmp_path: Path,
    command: Command,
    capsys: pytest.CaptureFixture[str],
    ray_cluster: Any,
) -> None:
    job_id, address = str(job.get_job_id()), ray_cluster.address
    eventually("the job", lambda: job.report().status.name == "RUNNING", job)
    code, listed, _ = command("list")
    assert code == 0
    assert {"id": job_id, "name": name, "status": "RUNNING"}.items() <= next(
        each for each in listed["jobs"] if each["id"] == job_id
    ).items()
    assert command("status", job_id[:8])[1]["name"] == name
    assert completed("status", "--address", address, start=name[:10]) >= {name}
    assert completed("status", "--address", address, start=job_id[:8]) == {job_id}
    code, logs, _ = command("logs", name)
    assert code == 4, "this cluster has no dashboard"
    assert "--include-dashboard=true" in logs["error"]["message"]

    code, taken, _ = command("checkpoint", "trigger", name)
    assert (code, taken["id"]) == (0, job_id)
    code, explained, _ = command("checkpoint", "explain", name, str(taken["checkpoint"]))
    assert code == 0
    assert explained["cause"]
    assert sum(step["duration_ms"] for step in explained["steps"]) > 0
    code, history, _ = command("checkpoint", "list", name)
    assert [one["id"] for one in history["checkpoints"]] == [taken["checkpoint"]]
    assert command("checkpoint", "mode", name, "unaligned")[1]["checkpointing_mode"] == "unaligned"
    tasks = command("status", name)[1]["tasks"]
    assert [(task["parallelism"], task["states"]) for task in tasks] == [
        (1, {"RUNNING": 1}),
        (2, {"RUNNING": 2}),
    ]

    def have_processes() -> bool:
        tasks = command("status", name)[1]["tasks"]
        return all(subtask["process_id"] for task in tasks for subtask in task["subtasks"])

    eventually("the first metrics of all subtasks", have_processes, job)
    for words, expected_words in (
        (["list"], ["ID", name, "RUNNING"]),
        (["status", name], ["name", name, "unaligned", "TASK", tasks[0]["name"]]),
        (["checkpoint", "list", name], ["OUTCOME", "COMPLETED"]),
        (["checkpoint", "explain", name], [explained["cause"], "Longest: "]),
    ):
        shown = text_of(capsys, *words)
        assert [word for word in expected_words if word not in shown] == []
    assert command("status", name)[1]["checkpointing_mode"] == "unaligned"

    code, savepoint, _ = command("savepoint", "trigger", name, str(tmp_path / "savepoints"))
    assert code == 0
    assert Path(savepoint["savepoint"], "MANIFEST").exists()
    code, stopped, _ = command("stop", name, "-p", str(tmp_path / "savepoints"), "--type", "native")
    assert (code, stopped["id"]) == (0, job_id)
    assert len(command("savepoint", "list", str(tmp_path / "savepoints"))[1]["savepoints"]) == 2
    assert job_id not in [each["id"] for each in command("list")[1]["jobs"]]
    (ended,) = (each for each in command("list", "--all")[1]["jobs"] if each["id"] == job_id)
    assert (ended["status"], ended["stopped_with"]) == ("FINISHED", stopped["savepoint"])


def test_a_job_is_rescaled_and_cancelled(job: JobClient, name: str, tmp_path: Path, command: Command) -> None:
    half_way_by_hand(job)
    code, rescaled, err = command("rescale", name, "count", "3")
    assert code == 0, err
    assert 3 in rescaled["parallelism"].values()
    code, _, err = command("rescale", name, "no-such-operator", "3")
    assert code == 1
    assert "no-such-operator" in err
    assert command("cancel", name)[1]["status"] == "CANCELED"


def half_way_by_hand(job: JobClient) -> None:
    eventually("the job", lambda: job.report().status.name == "RUNNING", job)
    job.trigger_checkpoint()
    half_way(job)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("logs",),
        ("cancel",),
        ("stop",),
        ("rescale", "2"),
        ("savepoint", "trigger"),
        ("checkpoint", "list"),
        ("checkpoint", "trigger"),
        ("checkpoint", "explain"),
        ("checkpoint", "mode", "unaligned"),
    ],
    ids=" ".join,
)
def test_a_job_that_is_not_there_has_its_own_exit_code(words: tuple[str, ...], command: Command) -> None:
    known = {"rescale", "savepoint", "checkpoint"}
    group = 2 if words[0] in known - {"rescale"} else 1
    code, document, err = command(*words[:group], "no-such-job", *words[group:])
    assert (code, document["error"]["reason"]) == (3, "not_found")
    assert "no job is called 'no-such-job'" in err


def test_what_takes_too_long_has_its_own_exit_code_and_goes_on(
    job: JobClient, name: str, tmp_path: Path, command: Command
) -> None:
    half_way_by_hand(job)
    source = pid_of(processes(job, 3), "numbers")
    # A process that stands still takes no snapshot, however late the first question about it comes.
    os.kill(source, signal.SIGSTOP)
    try:
        code, document, _ = command("savepoint", "trigger", name, str(tmp_path / "sp"), "--timeout", "0.0001")
    finally:
        os.kill(source, signal.SIGCONT)
    assert (code, document["error"]["reason"]) == (7, "timed_out")
    Gate(tmp_path).open()
    job.result()
    assert sorted(records_in(tmp_path / "out.txt")) == sorted(expected(COUNT).elements())


def test_every_node_is_asked_for_its_versions_its_clock_and_the_directory(
    ray_cluster: Any, tmp_path: Path
) -> None:
    findings = list(check_cluster(ray_cluster.address, str(tmp_path)))
    assert [each.severity.value for each in findings] == ["ok", "ok"], findings
    assert "clock" in findings[1].text
    assert list(tmp_path.iterdir()) == []
