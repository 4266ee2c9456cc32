"""What a job brings along: files, Python code, requirements; and what only a Java job could bring."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from ..common.errors import ConfigurationError
from ..common.job_files import MAX_CARRIED_BYTES, JobFile, carried_file
from ..coordinator.spec import PythonEnvironment
from ..state.storage.checkpoint_storage import absolute_address


class Dependencies:
    """The part of an environment that gathers what travels with its jobs."""

    def __init__(self) -> None:
        self._python_files: list[str] = []
        self._cached_files: dict[str, tuple[str, bool]] = {}
        self._python = PythonEnvironment()

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Give functions a file or directory: `runtime_context.get_distributed_cache().get_file(name)`.

        Args:
            file_path: On this machine; read when the job is executed. All files of a job may hold 64 MiB.
            name: What functions ask for it by.
            executable: Whether it may be run as a program.
        """
        path = _local_path(file_path)
        known = self._cached_files.setdefault(name, (path, executable))
        if known != (path, executable):
            raise ConfigurationError(
                f"the name {name!r} stands for {known[0]} already; register {file_path} under another"
            )

    def add_python_file(self, file_path: str) -> None:
        """Let functions import from a module (.py), a directory of modules or packages, a zip or a wheel.

        It can be imported in the driver, too, and travels to every process of the job.
        """
        path = _local_path(file_path)
        if not os.path.exists(path):
            raise ConfigurationError(f"add_python_file(): {path} does not exist")
        if path not in self._python_files:
            self._python_files.append(path)
        entry = os.path.dirname(os.path.abspath(path)) if path.endswith(".py") else os.path.abspath(path)
        if entry not in sys.path:
            sys.path.append(entry)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Let Ray install packages for the job's processes (`pip` in its runtime environment).

        Args:
            requirements_file_path: A file as pip reads it with `-r`.
            requirements_cache_dir: Directory of the packages, found by every node; then nothing is
                downloaded.
        """
        path = _local_path(requirements_file_path)
        packages = (
            None if requirements_cache_dir is None else absolute_address(_local_path(requirements_cache_dir))
        )
        self._python = self._python.with_requirements(_requirements(path), packages)

    def set_python_executable(self, python_exec: str) -> None:
        """Let Ray run the job's processes with this Python, found at the same path on every node.

        A name without a slash is looked for in the PATH of each node. A relative path that exists here starts
        from the working directory of the driver.
        """
        if os.sep in python_exec and os.path.exists(python_exec):
            python_exec = absolute_address(python_exec)
        self._python = self._python.with_executable(python_exec)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> NoReturn:
        """Not here: tasks of several jobs may share a working directory, where archives would be unpacked."""
        raise ConfigurationError(
            f"add_python_archive({archive_path!r}): unpack it and call register_cached_file(directory, "
            f"name); functions find it with runtime_context.get_distributed_cache().get_file(name). For a "
            f"virtual environment use set_python_requirements() or set_python_executable()"
        )

    def add_jars(self, *jars_path: str) -> NoReturn:
        """Not here: there is no Java virtual machine."""
        raise ConfigurationError(_no_java("add_jars()"))

    def add_classpaths(self, *classpaths: str) -> NoReturn:
        """Not here: there is no Java virtual machine."""
        raise ConfigurationError(_no_java("add_classpaths()"))

    def create_input(self, input_format: Any, type_info: Any = None) -> NoReturn:
        """Not here: input formats are Java."""
        raise ConfigurationError(_no_java("create_input()"))

    def carried_files(self) -> tuple[JobFile, ...]:
        """The files of a job that is executed now.

        Raises:
            ConfigurationError: One cannot be read, or they are too large.
        """
        files = [carried_file(path, name, is_run) for name, (path, is_run) in self._cached_files.items()]
        files += [carried_file(path, f"python file {path}", False, True) for path in self._python_files]
        size = sum(len(file.data) for file in files)
        if size > MAX_CARRIED_BYTES:
            raise ConfigurationError(
                f"the files of the job have {size >> 20} MiB together, more than the "
                f"{MAX_CARRIED_BYTES >> 20} that can travel with it; put large ones where all nodes find them"
            )
        return tuple(files)

    def python_environment(self) -> PythonEnvironment:
        """What the job's processes are to be started with."""
        return self._python


def check_local_python(python: PythonEnvironment) -> None:
    """Raise `ConfigurationError` where this process is not what the job asks for: it runs the local job."""
    if python.executable is not None and not _is_this_python(python.executable):
        raise ConfigurationError(
            f"a local job runs in this process, whose Python is {sys.executable} and not "
            f"{python.executable}; start the program with that one, or set execution.target: ray"
        )
    missing = [line for line in python.requirements if not _is_met(line)]
    if missing:
        raise ConfigurationError(
            f"a local job runs in this process, which lacks {', '.join(missing)}; install what is missing "
            f"with pip, or set execution.target: ray"
        )


def _is_this_python(executable: str) -> bool:
    return os.path.realpath(executable) == os.path.realpath(sys.executable)


def _is_met(line: str) -> bool:
    from importlib import metadata

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            return True
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except (InvalidRequirement, metadata.PackageNotFoundError):
        return False


def _requirements(path: str) -> Iterable[str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split(" #")[0].strip() for line in file]
    except OSError as error:
        raise ConfigurationError(f"set_python_requirements(): {path} cannot be read: {error}") from error
    return [line for line in lines if line and not line.startswith("#")]


def _local_path(path: str) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigurationError(f"a path is text, not {path!r}")
    text = os.fspath(path).removeprefix("file://")
    if "://" in text:
        raise ConfigurationError(
            f"{path} is not on this machine; functions can read it themselves, with fsspec, in open()"
        )
    return text


def _no_java(call: str) -> str:
    return (
        f"{call} is for Java code, and Tidegate runs without a Java virtual machine. For sources and sinks "
        f"use from_source() and sink_to() with those of tidegate.datastream.connectors or your own; for "
        f"files use FileSource"
    )
