"""Part files of the file sink: their names, and what a transaction knows of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext

STAGING = ".staging"
"""Below the sink's directory. Readers of data sets pass over names that begin with a dot."""

_NAME = re.compile(r".*-(\d+)-(\d+)-(\d+)-([0-9a-f]{12})(\D.*)?")


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """How names of files begin and end.

    Args:
        part_prefix: The beginning; without a slash, and not hidden by a `.` or `_`.
        part_suffix: The end; by default that of the format, as `.parquet`.
    """

    part_prefix: str = "part"
    part_suffix: str | None = None

    def __post_init__(self) -> None:
        if not self.part_prefix or self.part_prefix[0] in "._" or "/" in self.part_prefix:
            raise ConfigurationError(
                f"part_prefix is {self.part_prefix!r}; it must not be empty, begin with . or _, or have a "
                f"slash"
            )
        if self.part_suffix and (self.part_suffix[0].isalnum() or "/" in self.part_suffix):
            raise ConfigurationError(f"part_suffix is {self.part_suffix!r}; it begins with a dot or the like")

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """Begin to say how names are."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """The beginning."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """The end; empty if the format decides."""
        return self.part_suffix or ""


class OutputFileConfigBuilder:
    """Makes an `OutputFileConfig`."""

    def __init__(self) -> None:
        self._prefix = "part"
        self._suffix: str | None = None

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """Let names begin so."""
        self._prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """Let names end so."""
        self._suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """What was said."""
        return OutputFileConfig(self._prefix, self._suffix)


@dataclass(frozen=True, slots=True)
class PartName:
    """Name of one file. No two writers ever make the same: attempts of a job are never reused.

    `owner` tells the sinks of different jobs and operators apart, which may share a directory.
    """

    subtask_index: int
    attempt: int
    sequence_number: int
    owner: str

    def text(self, prefix: str, suffix: str) -> str:
        """The file name."""
        return f"{prefix}-{self.subtask_index}-{self.attempt}-{self.sequence_number}-{self.owner}{suffix}"

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

    @property
    def directory(self) -> str:
        """The output directory of the sink that wrote it; empty for a path without a staging area."""
        return self.staged_path.rpartition(f"/{STAGING}/")[0]


@dataclass(slots=True)
class FileTransaction:
    """What one subtask wrote in one epoch; the files get their names when it is prepared."""

    files: list[StagedFile] = field(default_factory=list)


def owner_of(context: OperatorContext) -> str:
    """Twelve hexadecimal digits for one operator of one job."""
    return hashlib.sha256(f"{context.job_id}\0{context.operator_uid}".encode()).hexdigest()[:12]
