"""What holds for every command: help, examples, --json, exit codes, and the page that documents them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tidegate.console.exit_codes import ExitCode
from tidegate.console.main import commands, main

from .drivers import checkpoint_of, driver

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with its words."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(leaves(commands))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def table_of(heading: str) -> list[list[str]]:
    """The rows of the first table behind a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def usage(words: tuple[str, ...], command: click.Command) -> str:
    """`tidegate WORDS ARGUMENTS`, without options."""
    context = click.Context(command)
    pieces = [piece for parameter in command.params for piece in parameter.get_usage_pieces(context)]
    return " ".join(["tidegate", *words, *pieces])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_says_what_it_does_with_examples_that_can_be_typed(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words, "--help")
    assert (code, err) == (0, "")
    assert "Examples:" in out
    assert "--json" in out
    assert max(map(len, out.splitlines())) <= 100
    command = COMMANDS[words]
    for example in getattr(command, "examples", ()):
        typed = shlex.split(re.split(r" >>? ", example)[0])
        assert typed[: len(words) + 1] == ["tidegate", *words]
        # Raises for an option that is not there, or has no value.
        command.make_parser(click.Context(command, **command.context_settings)).parse_args(
            typed[len(words) + 1 :]
        )


@pytest.mark.parametrize("words", [(), ("savepoint",), ("checkpoint",)], ids=" ".join)
def test_what_a_command_does_fits_on_its_line_of_the_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, *words, "--help")
    listed = out.split("Commands:\n")[1].splitlines()
    assert code == 0
    assert max(map(len, listed)) <= 80
    assert [line for line in listed if not line.endswith(".") or line.endswith("..")] == []


def test_the_page_lists_every_command_as_it_is_typed() -> None:
    documented = [row[0].strip("`") for row in table_of("Commands")]
    real = [usage(words, command) for words, command in COMMANDS.items()]
    simple = [re.sub(r"\[ARGUMENTS\]\.\.\.", "[ARGUMENTS]", line) for line in real]
    choices = {"{bash|zsh|fish}": "SHELL", "{exactly-once|at-least-once|unaligned}": "MODE"}
    for found, name in choices.items():
        simple = [line.replace(found, name) for line in simple]
    assert sorted(documented) == sorted(simple)


def test_the_page_says_what_every_command_answers_to_programs() -> None:
    documented = [
        name for row in table_of("For programs: `--json`") for name in re.findall(r"`([a-z ]+)`", row[0])
    ]
    assert sorted(documented) == sorted(" ".join(words) for words in COMMANDS)


def test_the_page_lists_every_exit_code() -> None:
    assert [int(row[0]) for row in table_of("Exit codes")] == [int(code) for code in ExitCode]


NEEDS_CLUSTER = {
    words: command for words, command in COMMANDS.items() if "job" in {p.name for p in command.params}
}


@pytest.mark.parametrize("words", [*NEEDS_CLUSTER, ("list",)], ids=" ".join)
def test_without_a_cluster_a_command_says_so_in_its_document(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"numbers": "2", "mode": "unaligned", "job": "nobody"}
    required = [p.name for p in COMMANDS[words].params if isinstance(p, click.Argument) and p.required]
    arguments = [values[str(name)] for name in required]
    code, out, err = run(capsys, *words, "--json", "--address", "127.0.0.1:1", *arguments)
    error = json.loads(out)["error"]
    assert (code, error["code"], error["reason"]) == (4, 4, "unreachable")
    assert "127.0.0.1:1" in error["message"]
    assert error["message"] in err


def test_a_wrong_command_line_is_told_on_standard_error_with_the_way_to_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "savepoint", "inspect", "--colour")
    assert (code, out) == (2, "")
    assert "Usage: tidegate savepoint inspect" in err
    assert "Try 'tidegate savepoint inspect --help'" in err
    code, out, _ = run(capsys, "savepoint", "inspect", "--json", "--colour")
    assert (code, json.loads(out)["error"]["reason"]) == (2, "usage")
    assert run(capsys, "fly")[0] == 2
    assert run(capsys, "run", "--colour", "driver.py")[0] == 2
    assert run(capsys, "rescale", "job", "many")[0] == 2
    assert run(capsys, "run", "--local", "--detached", __file__)[0] == 2


@pytest.mark.parametrize(
    "command",
    [
        ("savepoint", "inspect", "--colour"),
        ("fly",),
        ("run", "-D", "parallelism.defualt=2", __file__),
        ("run", "/no/such/driver"),
        ("savepoint", "inspect", "/no/such/savepoint"),
        ("list", "--address", "127.0.0.1:1"),
        ("rescale", "job", "Totals", "2", "3"),
        ("console", "--archive", "/no/such/archive"),
        ("console", "--checkpoints", "/no/such/checkpoints"),
    ],
    ids=" ".join,
)
def test_every_error_starts_in_the_same_way(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *command)
    assert (code in (2, 3, 4), out) == (True, "")
    *usage, error = err.splitlines()
    assert error.startswith("tidegate: ")
    assert not [line for line in usage if line.startswith(("tidegate: ", "Error: "))]


@pytest.mark.parametrize("option", ["--archive", "--checkpoints"])
def test_a_console_over_a_directory_that_does_not_exist_is_an_error(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "console", option, "/no/such/place")
    assert (code, out) == (2, "")
    assert "/no/such/place is not a directory" in err


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stored")
    return Path(checkpoint_of(directory, driver(directory / "job.py")))


def test_savepoints_and_checkpoints_below_a_directory_are_listed_with_damaged_ones(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "all"
    shutil.copytree(stored.parent, root / "one")
    shutil.copytree(stored.parent, root / "two")
    damaged = next((root / "two").rglob("MANIFEST"))
    damaged.write_bytes(damaged.read_bytes()[:-3])
    code, out, _ = run(capsys, "savepoint", "list", "--json", str(root))
    whole, broken = json.loads(out)["savepoints"]
    assert code == 0
    assert (whole["job_name"], whole["kind"], whole["problem"]) == ("flights", "final", None)
    assert whole["path"] == str(root / "one" / stored.name)
    assert "damaged" in broken["problem"]
    code, out, _ = run(capsys, "savepoint", "list", str(root))
    assert out.splitlines()[0].split() == ["KIND", "ID", "JOB", "COMPLETED", "SIZE", "PATH"]
    assert str(root / "one" / stored.name) in out
    assert run(capsys, "savepoint", "inspect", str(damaged))[0] == 1


def test_every_file_is_compared_with_its_checksum_on_request(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "savepoint", "inspect", "--verify", "--json", str(stored))
    assert (code, json.loads(out)["verified"]) == (0, True)


@pytest.mark.parametrize(
    "command", [("inspect",), ("diff", "/nowhere"), ("dispose",), ("list",)], ids=lambda command: command[0]
)
def test_a_savepoint_that_is_not_there_has_its_own_exit_code(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "savepoint", *command, str(tmp_path / "none"), "--json")
    assert (code, json.loads(out)["error"]["reason"]) == (3, "not_found")
    assert err.startswith("tidegate: there is no")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "null bytes"),
        (b"\xff\xfe\xff", "SyntaxError"),
        (b"env.execute(", "SyntaxError"),
    ],
)
def test_a_driver_that_is_no_python_is_an_error(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "driver"
    program.write_bytes(content)
    for command in ("run", "plan"):
        code, out, err = run(capsys, command, str(program))
        assert (code, out) == (1, "")
        assert message in err
        assert "runpy" not in err, "frames of the command itself help nobody"


def test_what_a_driver_raises_and_prints_goes_to_standard_error_beside_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "driver.py"
    program.write_text("print('hello')\ndef fail():\n    raise ValueError('no such airport')\nfail()\n")
    code, out, err = run(capsys, "run", "--json", str(program))
    document = json.loads(out)
    assert (code, document["jobs"]) == (1, [])
    assert document["error"]["message"] == "no such airport"
    assert err.startswith("hello\nTraceback")
    assert "in fail\n" in err
    code, out, _ = run(capsys, "plan", str(program))
    assert (code, out) == (1, "")


def test_a_finished_run_tells_its_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "run", "--json", driver(tmp_path / "job.py"), str(tmp_path))
    (job,) = json.loads(out)["jobs"]
    assert code == 0
    assert (job["name"], job["status"], job["restarts"]) == ("flights", "FINISHED", 0)
    code, out, err = run(capsys, "run", driver(tmp_path / "job.py"), str(tmp_path))
    assert (code, out) == (0, "")
    said = r"job 'flights' \([0-9a-f]{32}\) is FINISHED after [0-9.]+ s: 1 checkpoint, 0 restarts"
    assert re.fullmatch(said, err.splitlines()[-1])


def test_a_failed_job_has_its_own_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = driver(tmp_path / "job.py", open="raise OSError('no network here')")
    # Without restarts the first failure is the last.
    options = ("-D", "restart-strategy.type=none")
    code, _, err = run(capsys, "run", *options, program, str(tmp_path))
    assert code == 5
    assert "no network here" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0
    assert f"_TIDEGATE_COMPLETE={shell}_complete" in out


def completed(line: str, words: int) -> list[str]:
    """What bash is offered for a line."""
    environment = {"_TIDEGATE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(words)}
    done = subprocess.run(
        [sys.executable, "-c", "from tidegate.console.main import main; main()"],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return [offer.partition(",")[2] for offer in done.stdout.split()]


@pytest.mark.slow
def test_commands_are_completed_and_a_cluster_that_is_away_offers_no_jobs() -> None:
    assert completed("tidegate savepoint ", 2) == sorted(
        ["trigger", "list", "check", "inspect", "diff", "dispose"]
    )
    assert completed("tidegate status --address 127.0.0.1:1 ", 4) == []


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_a_command_without_a_word(stored: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.console", "savepoint", "inspect", str(stored)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_waits_for_a_silent_cluster_at_once() -> None:
    with socket.create_server(("", 0)) as server:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tidegate.console",
                "list",
                "--address",
                f"127.0.0.1:{server.getsockname()[1]}",
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            server.accept()[0].close()
            # The second one to come is Ray itself, at the address of this machine; it is left waiting.
            with server.accept()[0]:
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out) == (-signal.SIGINT, b"")
