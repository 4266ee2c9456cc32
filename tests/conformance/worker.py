"""Runs tests of one rewritten module in this process and prints what became of each.

Started by `run.py`, with the module's file and the names of the tests; prints one JSON line when a test
starts and one when it ends, so that the parent sees which one hangs.
"""

from __future__ import annotations

import json
import os
import sys
import time
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stand_ins
from rewriting import JvmRules, rewritten
from tidegate.datastream.settings.default_settings import default_settings


def load(path: Path, name: str) -> types.ModuleType:
    """The rewritten module. User functions in it are pickled by value, as those of a main program."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    tree = rewritten(path.read_text(encoding="utf-8"), str(path))
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


class _Result(unittest.TestResult):
    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome: dict[str, Any] = {"status": "passed", "why": ""}
        self.started_s = time.monotonic()
        say({"starts": test_name(test)})

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.outcome = {"status": "skipped", "why": reason}

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.outcome = {"status": "failed", "why": why(err)}
        if not isinstance(test, unittest.TestCase):
            # setUpClass failed, so no test of its class starts.
            say({"class": str(test), **self.outcome})

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.outcome = {"status": "failed", "why": why(err)}

    def stopTest(self, test: unittest.TestCase) -> None:
        duration_s = round(time.monotonic() - self.started_s, 2)
        say({"ends": test_name(test), "duration_s": duration_s, **self.outcome})
        super().stopTest(test)


def test_name(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"


def why(err: Any) -> str:
    """One line: the first line of the error, or the last one of what made a job fail."""
    error = err[1]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return f"{type(error).__name__}: {first}"[:300]


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), file=sys.__stdout__, flush=True)


def tests_of(module: types.ModuleType) -> Iterator[type[unittest.TestCase]]:
    """The test cases that the module defines, each one's tests by `unittest`'s rule."""
    for candidate in vars(module).values():
        is_case = isinstance(candidate, type) and issubclass(candidate, unittest.TestCase)
        if is_case and candidate.__module__ == module.__name__:
            yield candidate


def listed(module: types.ModuleType, rules: JvmRules) -> Iterator[dict[str, Any]]:
    """Every test with the reason why it cannot run, or None."""
    for case in tests_of(module):
        for name in unittest.TestLoader().getTestCaseNames(case):
            bases = [base.__name__ for base in case.__mro__]
            skipped = getattr(getattr(case, name), "__unittest_skip_why__", None)
            reason = f"PyFlink skips it: {skipped}" if skipped else rules.reason(bases, name)
            yield {"test": f"{case.__name__}.{name}", "reason": reason}


def main() -> None:
    path, *names = sys.argv[1:]
    # What tests print must not come between the lines for the parent.
    sys.stdout = sys.stderr
    with default_settings(stand_ins.local_settings()):
        module = load(Path(path), "conformance_suite")
        if names:
            unittest.TestLoader().loadTestsFromNames(names, module).run(_Result())
        else:
            tree = rewritten(Path(path).read_text(encoding="utf-8"), path)
            for entry in listed(module, JvmRules(tree)):
                say(entry)
    say({"done": True})
    # Threads of a job that hangs must not keep the process.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
