"""Both processes of a comparison, as children that take one line for each thing to do.

A receiver first prints its address; a sender first takes that line, and prints one when it is ready. Then
each takes `{"size": bytes, "count": messages, "rate": per second or 0}` and sends or receives these messages,
or `"cpu"`. It answers each with the CPU time that it has used so far in seconds.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).parent.parent.parent


class End(Protocol):
    """What a child does."""

    def run(self, size: int, count: int, rate: float) -> None:
        """Send, or receive, messages of `size` bytes; returns when all were sent, or have arrived."""


def serve(end: End) -> None:
    """Do what the lines say until there is none."""
    for line in sys.stdin:
        command = json.loads(line)
        if command != "cpu":
            end.run(**command)
        say(cpu_s())


def say(answer: Any) -> None:
    """Answer a line."""
    print(json.dumps(answer), flush=True)


def cpu_s() -> float:
    """CPU time of this process in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Cost:
    """What one message took, in microseconds: CPU time of both processes, and time."""

    cpu_us: float
    time_us: float


class Child:
    """A process that takes lines."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._command = command

    def ask(self, line: Any) -> None:
        """Write a line."""
        self._in.write(json.dumps(line) + "\n")
        self._in.flush()

    def answer(self) -> Any:
        """The next line of the child. Raises `RuntimeError` if it has ended."""
        line = self._out.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._command)} ended with code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """Have it end."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()


class Pair:
    """A sender and its receiver.

    Args:
        sender: The command of the sending process.
        receiver: The command of the other one.
    """

    def __init__(self, sender: Sequence[str], receiver: Sequence[str]) -> None:
        self._receiver = Child(receiver)
        self._sender = Child(sender)
        try:
            self._sender.ask(self._receiver.answer())
            self._sender.answer()
        except BaseException:
            self.close()
            raise

    def cost(self, size: int, count: int, rate: float = 0) -> Cost:
        """What a message costs, of `count` of `size` bytes, back to back or `rate` per second."""
        both = self._receiver, self._sender
        run = {"size": size, "count": count, "rate": rate}
        before_s = self._cpu_s()
        started_s = time.perf_counter()
        for child in both:
            child.ask(run)
        for child in both:
            child.answer()
        passed_s = time.perf_counter() - started_s
        return Cost((self._cpu_s() - before_s) / count * 1e6, passed_s / count * 1e6)

    def _cpu_s(self) -> float:
        total_s = 0.0
        for child in (self._receiver, self._sender):
            child.ask("cpu")
            total_s += child.answer()
        return total_s

    def close(self) -> None:
        """End both."""
        self._sender.close()
        self._receiver.close()


@contextlib.contextmanager
def opened(commands: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Iterator[list[Pair]]:
    """Pairs of the commands of a sender and a receiver, running."""
    with contextlib.ExitStack() as stack:
        pairs = []
        for sender, receiver in commands:
            pairs.append(Pair(sender, receiver))
            stack.callback(pairs[-1].close)
        yield pairs
