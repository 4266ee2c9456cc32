"""Runs a program of `examples/` as `__main__`, each time in a process of its own; see `tests.forked`."""

from __future__ import annotations

import os
import runpy
import sys

from tests.forked import serve


def run(output: str, errors: str, directory: str, program: str, *arguments: str) -> None:
    """Run a program with its arguments in its directory; what it prints goes into two files."""
    for descriptor, path in enumerate((output, errors), 1):
        os.dup2(os.open(path, os.O_WRONLY), descriptor)
    os.chdir(directory)
    sys.argv, sys.path[0] = [program, *arguments], directory
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    import tidegate.coordinator.local_executor
    import tidegate.datastream.connectors.file_system  # noqa: F401

    serve(run)
