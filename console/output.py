"""Prints results on standard output, as JSON or for people, and everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from .commands.command import is_json
from .exit_codes import ExitCode
from .text import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_UNBOUNDED = 100_000
"""Columns where no terminal sets a bound: a program that reads lines must find them whole."""
_STYLES = {
    "RUNNING": "green",
    "FINISHED": "blue",
    "COMPLETED": "green",
    "ABORTED": "red",
    "FAILED": "red",
    "FAILING": "red",
    "CANCELED": "yellow",
    "RESTARTING": "yellow",
    "CREATED": "yellow",
    "ok": "green",
    "warning": "yellow",
    "error": "red",
}


def say(document: Mapping[str, Any], text: Callable[[], Iterable[RenderableType]]) -> None:
    """Print the result of a command.

    Args:
        document: It for programs.
        text: It for people, as lines and tables; called only when it is asked for.
    """
    if is_json():
        click.echo(printable_json(json.dumps(document, indent=2, default=str, ensure_ascii=False)))
        return
    console = _console(sys.stdout)
    with console.capture() as shown:
        for part in text():
            console.print(printable(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
    # Tables fill their last column with blanks.
    click.echo("\n".join(line.rstrip() for line in shown.get().splitlines()))


def error_document(message: str, code: int, kind: str) -> dict[str, Any]:
    """An error for programs: the exit code, its name, and the class of the error."""
    known = code in set(ExitCode)
    return {
        "code": int(code),
        "reason": ExitCode(code).name.lower() if known else "",
        "kind": kind,
        "message": message,
    }


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(printable(text), err=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], indent: int = 0) -> RenderableType:
    """Rows under headings in capitals; numbers to the right, known states in colour."""
    from rich.padding import Padding
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    texts = [list(row) for row in rows]
    for number, heading in enumerate(headings):
        is_number = bool(texts) and all(isinstance(row[number], (int, float)) for row in texts)
        shown.add_column(
            heading.upper(), justify="right" if is_number else "left", overflow="fold", no_wrap=is_number
        )
    for row in texts:
        shown.add_row(*map(_cell, row))
    return Padding(shown, (0, 0, 0, indent)) if indent else shown


def pairs(rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; pairs without a value are left out."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in rows:
        if value not in (None, ""):
            shown.add_row(name, _cell(value))
    return shown


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal's standard error while something takes long; nothing elsewhere.

    Args:
        what: Happens meanwhile.
        total: Of the numbers that the function in the answer is told, `None` where nobody knows.
    """
    console = _console(sys.stderr)
    if not console.is_terminal:
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = [TextColumn("{task.description}"), BarColumn(30), TaskProgressColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _cell(value: object) -> Any:
    from rich.text import Text

    text = "" if value is None else printable(str(value))
    # As text, so that brackets in a name are no markup.
    return Text(text, _STYLES.get(text, ""))


def _console(stream: IO[str]) -> Console:
    from rich.console import Console

    is_terminal = stream.isatty()
    return Console(file=stream, width=None if is_terminal else _UNBOUNDED, highlight=False, markup=False)
