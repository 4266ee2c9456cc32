"""Part files of the file sink: their names, and their way from staging to their final place."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..common import failpoints
from ..operators.base import OperatorContext
from .file_errors import FileConnectorError, file_errors

STAGING = ".staging"
"""Below the sink's directory. Readers of Parquet directories pass over names that begin with a dot."""

_NAME = re.compile(r"part-(\d+)-(\d+)-(\d+)-([0-9a-f]{12})\.parquet")


@dataclass(frozen=True, slots=True)
class PartName:
    """Name of one file. No two writers ever make the same: attempts of a job are never reused.

    `owner` tells the sinks of different jobs and operators apart, which may share a directory.
    """

    subtask_index: int
    attempt: int
    sequence_number: int
    owner: str

    def __str__(self) -> str:
        return f"part-{self.subtask_index}-{self.attempt}-{self.sequence_number}-{self.owner}.parquet"

    @staticmethod
    def parse(name: str) -> PartName | None:
        """The name in a file name, `None` if the file is not ours."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        return PartName(int(match[1]), int(match[2]), int(match[3]), match[4])


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A complete, durable file that nobody sees yet."""

    staged_path: str
    final_path: str


@dataclass(slots=True)
class FileTransaction:
    """What one subtask wrote in one epoch; the files get their names when it is prepared."""

    files: list[StagedFile] = field(default_factory=list)


def owner_of(context: OperatorContext) -> str:
    """Twelve hexadecimal digits for one operator of one job."""
    return hashlib.sha256(f"{context.job_id}\0{context.operator_uid}".encode()).hexdigest()[:12]


def publish(staged: Sequence[StagedFile], where: str) -> None:
    """Rename files to their final paths, durably; those that are there already are left alone.

    Raises:
        FileConnectorError: A file is neither staged nor at its final path, or cannot be renamed.
    """
    directories: dict[str, None] = {}
    for number, file in enumerate(staged):
        if number:
            failpoints.reach("commit_mid")
        with file_errors(where, "committing", file.final_path):
            _rename(file, where)
            directories[os.path.dirname(file.final_path)] = None
    for directory in directories:
        with file_errors(where, "committing in", directory):
            sync_directory(directory)


def _rename(file: StagedFile, where: str) -> None:
    try:
        os.rename(file.staged_path, file.final_path)
    except FileNotFoundError as error:
        # Committed before the failure, or at this moment by a task of an attempt that is being fenced.
        if not os.path.exists(file.final_path):
            raise FileConnectorError(
                f"{where}: {file.final_path} cannot be committed: it is not there, and its staged file "
                f"{file.staged_path} is gone. Something outside the job removed it; put the file back at "
                f"either path, or its records are lost"
            ) from error


def remove_left_overs(directory: str, owner: str, attempt: int, where: str) -> None:
    """Delete what earlier attempts of one operator staged and never committed.

    Only when every file that a checkpoint holds has been committed again, by whichever subtask.
    """
    staging = os.path.join(directory, STAGING)
    with file_errors(where, "cleaning", staging):
        parts = [(name, PartName.parse(name)) for name in os.listdir(staging)]
        for name, part in parts:
            if part is not None and part.owner == owner and part.attempt < attempt:
                remove_file(os.path.join(staging, name))


def remove_file(path: str) -> None:
    """Delete a file that may be gone already."""
    try:
        os.remove(path)
    except FileNotFoundError:
        return


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
