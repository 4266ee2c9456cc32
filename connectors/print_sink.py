"""A sink that prints, with the prefixes and texts of Flink's `PrintSinkFunction`."""

from __future__ import annotations

import sys
from typing import Any

from ..common.typeinfo import TypeInformation
from ..operators.base import OperatorContext
from ..operators.sinks import Sink, SinkWriter
from .print_text import text_of


class PrintSink(Sink):
    """Prints every record on a line of standard output.

    A line begins with `identifier> ` where an identifier is given, with the number of the subtask, from
    1, where there are several (`2> `), and with `identifier:2> ` where both hold.

    Args:
        identifier: What to put before each record; empty for nothing.
        type_info: The declared type of the records. They are printed as Flink does: `(a,1)`, `+I[a,1]`.
            `None` prints them as `str()` does.
    """

    def __init__(self, identifier: str = "", type_info: TypeInformation | None = None) -> None:
        self._identifier = identifier
        self._type_info = type_info

    def create_writer(self) -> SinkWriter:
        return _PrintWriter(self._identifier, self._type_info)


class _PrintWriter(SinkWriter):
    def __init__(self, identifier: str, type_info: TypeInformation | None) -> None:
        self._text = text_of(type_info)
        self._parts = [identifier] if identifier else []

    def open(self, context: OperatorContext) -> None:
        if context.parallelism > 1:
            self._parts.append(str(context.subtask_index + 1))
        self._prefix = ":".join(self._parts) + "> " if self._parts else ""

    def write_batch(self, values: list[Any]) -> None:
        # One write, so that lines of several subtasks in one process do not mix.
        sys.stdout.write("".join(f"{self._prefix}{self._text(value)}\n" for value in values))
        sys.stdout.flush()
