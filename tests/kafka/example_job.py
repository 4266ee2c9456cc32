"""Runs a program of `examples/` as `__main__`, each time in a process of its own; see `tests.forked`."""

from __future__ import annotations

import runpy
import sys

from tests.forked import serve


def run(program: str, *arguments: str) -> None:
    """Run a program with its arguments."""
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    import tidegate.coordinator.local_executor
    import tidegate.datastream.connectors.file_system
    import tidegate.datastream.connectors.kafka  # noqa: F401

    serve(run)
