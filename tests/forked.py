"""Processes that start at once: forked from one that has imported everything and has no threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Forks:
    """Runs the function that a module serves, each time in a process of its own.

    Args:
        module: Its name; as a program it calls `serve`.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __call__(self, points: str, *arguments: str) -> int:
        """Run it with these fail points; its exit code, negative for a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([points, *arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process that is forked."""
        self._process.communicate()


def serve(run: Callable[..., None]) -> None:
    """For each line of standard input run a function in a process of its own, and print how that ended.

    A line is a JSON list: the fail points, then the arguments.
    """
    for line in sys.stdin:
        points, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            # What the job prints is nobody's answer.
            os.dup2(2, 1)
            os.environ["TIDEGATE_FAILPOINTS"] = points
            status = 1
            try:
                run(*arguments)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
