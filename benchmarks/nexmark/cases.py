"""Nexmark's queries as cases of the harness: their events, their programs for PyFlink, and their check."""

from __future__ import annotations

import pickle
import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..plan import Case

if TYPE_CHECKING:
    from .answers import Answers

HERE = Path(__file__).parent
QUERIES = tuple(sorted((path.stem for path in HERE.glob("queries/q*.py")), key=lambda query: int(query[1:])))
ON_COLUMNS = tuple(query for query in QUERIES if (HERE / "columns" / f"{query}.py").exists())
RECORDS, COLUMNS, PYFLINK = "tidegate records", "tidegate columns", "pyflink"
EVENTS, PEER_EVENTS = 1_000_000, 200_000


def _case(query: str, system: str) -> Case:
    program, events = ("pyflink", PEER_EVENTS) if system == PYFLINK else ("tidegate", EVENTS)
    mode = "columns" if system == COLUMNS else "records"
    return Case(query, f"Nexmark {query}", system, program, events, mode=mode)


NEXMARK = tuple(
    _case(query, system)
    for query in QUERIES
    for system in (RECORDS, COLUMNS, PYFLINK)
    if system != COLUMNS or query in ON_COLUMNS
)


def is_query(workload: str) -> bool:
    """Whether a workload is one of the queries."""
    return workload in QUERIES


def events_file(folder: Path, count: int, mode: str) -> Path:
    """The file with the events in the form that a mode reads, written if it is not there."""
    from . import generator, source

    config = generator.Config(count)
    source.write(folder, config)
    return source.path(folder, config, "arrow" if mode == "columns" else "pickle")


def translated(scratch: Path) -> Path:
    """The queries for PyFlink, as package `nexmark_queries` in a folder: only imports differ."""
    package = scratch / "translated" / "nexmark_queries"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in (HERE / "queries").glob("*.py"):
        text = re.sub(r"^from tidegate\b", "from pyflink", path.read_text(), flags=re.MULTILINE)
        (package / path.name).write_text(text)
    return package.parent


def check(query: str, events: Path, state_dir: str) -> None:
    """Compare all rows that a run has kept with DuckDB's answer.

    Raises:
        WrongResultError: They differ.
    """
    rows = pickle.loads((Path(state_dir) / "results.pickle").read_bytes())
    # Flink drops windows of processing time that are open when the input ends.
    _answers(events.with_suffix(".arrow")).check(query, rows, is_whole=query != "q12")


@cache
def _answers(events: Path) -> Answers:
    from .answers import Answers
    from .source import read_columns

    return Answers(read_columns(events))
