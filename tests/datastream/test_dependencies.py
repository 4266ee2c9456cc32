"""Files, code and requirements that travel with a job, and what has no place without Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.job_files import carried_file
from tidegate.coordinator.spec import PythonEnvironment
from tidegate.datastream import MapFunction, RuntimeContext
from tidegate.runtime.job_files import place_files

from .jobs import environment


class Lookup(MapFunction):
    """Reads a registered file, or a file in a registered directory."""

    def __init__(self, name: str, inside: str = "") -> None:
        self.name = name
        self.inside = inside

    def open(self, runtime_context: RuntimeContext) -> None:
        path = Path(runtime_context.get_distributed_cache().get_file(self.name))
        self.content = (path / self.inside if self.inside else path).read_text()

    def map(self, value: Any) -> Any:
        return value, self.content


def test_a_registered_file_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("1.5")
    env = environment(options={"tidegate.local-dir": str(tmp_path / "local")})
    env.register_cached_file(str(tmp_path / "rates.txt"), "rates")
    env.register_cached_file(str(tmp_path / "rates.txt"), "rates")
    assert list(env.from_collection([1]).map(Lookup("rates")).execute_and_collect()) == [(1, "1.5")]


def test_a_registered_directory_keeps_its_shape(tmp_path: Path) -> None:
    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "model" / "deep" / "weights").write_text("w")
    env = environment()
    env.register_cached_file(f"file://{tmp_path / 'model'}", "model")
    results = env.from_collection([1]).map(Lookup("model", "deep/weights")).execute_and_collect()
    assert list(results) == [(1, "w")]


def test_an_executable_file_may_be_run(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho made it\n")
    files = [carried_file(str(tmp_path / "tool"), "tool", is_executable=True)]
    paths = place_files(files, str(tmp_path / "local"), "job")
    assert place_files(files, str(tmp_path / "local"), "job") == paths
    assert subprocess.run([paths["tool"]], capture_output=True, text=True).stdout == "made it\n"


def test_a_name_that_was_not_registered_lists_those_that_were(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    env = environment()
    env.register_cached_file(str(tmp_path / "a"), "a")
    with pytest.raises(
        JobExecutionError, match=r"no file was registered as 'b', but a; call register_cached_file"
    ):
        list(env.from_collection([1]).map(Lookup("b")).execute_and_collect())


def add_two(value: int) -> Any:
    from tidegate_test_added_module import add_two as added

    return added(value)


def test_functions_import_from_an_added_python_file(tmp_path: Path) -> None:
    (tmp_path / "tidegate_test_added_module.py").write_text("def add_two(value):\n    return value + 2\n")
    env = environment()
    env.add_python_file(str(tmp_path / "tidegate_test_added_module.py"))
    assert list(env.from_collection([1, 2]).map(add_two).execute_and_collect()) == [3, 4]


def test_another_process_imports_from_added_directories_and_files(tmp_path: Path) -> None:
    (tmp_path / "code" / "some_package").mkdir(parents=True)
    (tmp_path / "code" / "some_package" / "__init__.py").write_text("answer = 42\n")
    (tmp_path / "single.py").write_text("answer = 43\n")
    program = (
        "import sys; from tidegate.runtime.job_files import place_files; "
        "from tidegate.common.job_files import carried_file; "
        "files = [carried_file(path, path, False, True) for path in sys.argv[2:]]; "
        "place_files(files, sys.argv[1], 'job'); "
        "import single, some_package; print(single.answer, some_package.answer, single.__file__)"
    )
    paths = [str(tmp_path / "code"), str(tmp_path / "single.py")]
    command = [sys.executable, "-c", program, str(tmp_path / "local"), *paths]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"43 42 {tmp_path / 'local'}")


def test_a_local_job_says_which_requirements_are_not_met(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "# what the job needs\nnumpy>=1.26  # arrays\nno-such-package==1\nlmdb<0.1\nold; python_version<'3'\n"
    )
    env = environment()
    env.set_python_requirements(str(tmp_path / "requirements.txt"))
    env.from_collection([1]).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"which lacks no-such-package==1, lmdb<0\.1; install"):
        env.execute()


def test_a_local_job_runs_on_the_python_of_the_driver() -> None:
    env = environment()
    env.set_python_executable(sys.executable)
    assert list(env.from_collection([1]).execute_and_collect()) == [1]
    env.set_python_executable("/opt/python")
    env.from_collection([1]).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"and not /opt/python; start the program with that one"):
        env.execute()


def test_requirements_and_python_become_a_runtime_environment_of_ray() -> None:
    python = PythonEnvironment().with_requirements(["a==1"], "/wheels").with_executable("/opt/python")
    assert python.runtime_env() == {
        "pip": {"packages": ["a==1"], "pip_install_options": ["--no-index", "--find-links=/wheels"]},
        "py_executable": "/opt/python",
    }
    assert PythonEnvironment().runtime_env() == {}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda env: env.add_jars("file:///a.jar"), r"add_jars\(\) is for Java code.*from_source"),
        (lambda env: env.add_classpaths("file:///a"), r"add_classpaths\(\) is for Java code"),
        (lambda env: env.create_input(None), r"create_input\(\) is for Java code.*FileSource"),
        (lambda env: env.add_python_archive("venv.zip"), r"call register_cached_file\(directory, name\)"),
        (lambda env: env.add_python_file("/nonexistent/a.py"), r"/nonexistent/a.py does not exist"),
        (lambda env: env.set_python_requirements("/nonexistent"), r"/nonexistent cannot be read"),
        (lambda env: env.register_cached_file("s3://bucket/a", "a"), r"with fsspec, in open\(\)"),
        (lambda env: env.register_cached_file(3, "a"), r"a path is text, not 3"),
    ],
)
def test_what_cannot_travel_says_what_to_write_instead(write: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write(environment())


def test_files_that_cannot_be_read_or_are_too_large_stop_the_job_at_once(tmp_path: Path) -> None:
    env = environment()
    env.register_cached_file(str(tmp_path / "a"), "a")
    with pytest.raises(ConfigurationError, match="the name 'a' stands for"):
        env.register_cached_file(str(tmp_path / "b"), "a")
    env.from_collection([1]).add_sink(print)
    with pytest.raises(ConfigurationError, match=r"/a cannot be read"):
        env.execute()
    with (tmp_path / "a").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(ConfigurationError, match="more than 64 MiB"):
        env.execute()
