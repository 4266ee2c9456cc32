"""Finds files and hands out their parts: once, or again and again in a directory that grows."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from ...common.errors import TidegateError
from ...operators.sources.enumerators import SplitEnumerator, SplitEnumeratorContext
from .errors import FileConnectorError, file_errors
from .formats import FileFormat, FileSplit
from .location import FoundFile, Location

logger = logging.getLogger(__name__)

WHERE = "the file source"
_MISSED_LOOKS = 10
"""A store may be out of reach for a while; after so many looks in a row it is an error."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Where to look for files, and how often.

    Attributes:
        interval_ms: Look again after this time, for ever; `None` for once.
    """

    locations: Sequence[Location]
    file_format: FileFormat
    split_bytes: int
    interval_ms: int | None

    def find(self, known: Set[str]) -> list[FileSplit]:
        """The parts of the files that are not known yet, file by file in the order of their paths."""
        splits: list[FileSplit] = []
        seen: set[str] = set()
        for location in self.locations:
            with file_errors(WHERE, "finding files in", location.text):
                for file in location.files():
                    if file.path not in known and file.path not in seen:
                        seen.add(file.path)
                        splits += self._parts(location, file)
        return splits

    def _parts(self, location: Location, file: FoundFile) -> list[FileSplit]:
        try:
            return self.file_format.split(location.file_system, file.path, file.size_bytes, self.split_bytes)
        except (TidegateError, OSError):
            raise
        except Exception as error:
            raise FileConnectorError(
                f"{WHERE}: {file.path} cannot be read as {self.file_format.suffix}: {error!s:.1000}; "
                f"repair or remove the file, or see whether the source's format is right"
            ) from error


@dataclass(frozen=True, slots=True)
class FilesFound:
    """State of the enumerator: every file that was ever found, and the parts that no reader has.

    `known` is empty before files were looked for, and for good when they are looked for only once.
    """

    has_looked: bool
    known: frozenset[str]
    waiting: tuple[FileSplit, ...]


class FileEnumerator(SplitEnumerator):
    """Gives a part to each reader that asks for one; oldest first."""

    def __init__(
        self, context: SplitEnumeratorContext, discovery: Discovery, found: FilesFound | None = None
    ) -> None:
        self._context = context
        self._discovery = discovery
        self._has_looked = found is not None and found.has_looked
        self._known: set[str] = set() if found is None else set(found.known)
        self._waiting = deque(() if found is None else found.waiting)
        self._idle: list[int] = []
        self._missed_looks = 0

    def start(self) -> None:
        discovery = self._discovery
        if self._has_looked and discovery.interval_ms is None:
            return
        # The set changes only in `_found`, and the next look comes after that.
        self._context.call_async(
            lambda: discovery.find(self._known), self._found, period_ms=discovery.interval_ms
        )

    def _found(self, splits: list[FileSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            self._missed_looks += 1
            if self._discovery.interval_ms is None or self._missed_looks > _MISSED_LOOKS:
                raise error
            logger.warning("%s; looking again in %d ms", error, self._discovery.interval_ms)
            return
        self._missed_looks = 0
        assert splits is not None
        self._has_looked = True
        self._waiting.extend(splits)
        if self._discovery.interval_ms is not None:
            self._known.update(split.path for split in splits)
        self._serve()

    def handle_split_request(self, subtask_id: int) -> None:
        self._idle.append(subtask_id)
        self._serve()

    def _serve(self) -> None:
        while self._idle and self._waiting:
            self._context.assign_split(self._waiting.popleft(), self._idle.pop(0))
        if self._has_looked and self._discovery.interval_ms is None and not self._waiting:
            idle, self._idle = self._idle, []
            for subtask_id in idle:
                self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        # They were begun: first, so that positions do not grow old.
        self._waiting.extendleft(reversed(splits))

    def snapshot_state(self, checkpoint_id: int) -> FilesFound:
        return FilesFound(self._has_looked, frozenset(self._known), tuple(self._waiting))
