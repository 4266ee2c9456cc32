"""What a job leaves of itself for the console when it has ended: one document in a directory of all jobs.

It is JSON behind a header line with the format version and the SHA-256 of the body, as a manifest is. It is
written once, under the job's id, and only if there is none: after a crash nobody tells another story.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re

from ...common.errors import CheckpointStorageError, CorruptArchiveError
from ...protocol.checkpoints.json_fields import parse_json
from ...state.storage.checkpoint_storage import CheckpointStorage, open_storage
from .job_details import JobDetails
from .json_dataclasses import from_plain, to_plain

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
_MAGIC = "tidegate-job"
_JOB_ID = re.compile("[0-9a-f]{32}")


def encode_job(details: JobDetails) -> bytes:
    """The document of a job."""
    body = json.dumps(to_plain(details), sort_keys=True, separators=(",", ":")).encode()
    return f"{_MAGIC} {FORMAT_VERSION} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode_job(data: bytes, path: str) -> JobDetails:
    """Read a document that came from `path`.

    Raises:
        CorruptArchiveError: It is not one, of a newer format, or damaged.
    """
    header, _, body = data.partition(b"\n")
    words = header.split()
    if len(words) != 3 or words[0] != _MAGIC.encode():
        raise CorruptArchiveError(f"{path} is not the archive of a job, or its start is damaged; delete it")
    if words[1] != str(FORMAT_VERSION).encode():
        version = words[1][:20].decode("ascii", "replace")
        raise CorruptArchiveError(
            f"{path} has archive format {version}; this release reads format {FORMAT_VERSION}: look at it "
            f"with the release that wrote it"
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise CorruptArchiveError(f"{path} is damaged: its checksum does not match; delete it")
    try:
        return from_plain(JobDetails, parse_json(body))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise CorruptArchiveError(f"{path} does not hold a job as this release knows it: {error}") from error


def archive_job(directory: str, details: JobDetails) -> None:
    """Keep a job that has ended. If storage refuses, that is logged: the job's end stays as it was."""
    try:
        JobArchive(directory).write(details)
    except CheckpointStorageError as error:
        logger.warning("Job %s could not be archived: %s", details.job_id, error)


class JobArchive:
    """A directory with the documents of ended jobs.

    Args:
        directory: A local path or the URL of a file system.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._storage: CheckpointStorage = open_storage(directory)

    def write(self, details: JobDetails) -> bool:
        """Keep a job, unless it is there; `CheckpointStorageError` if storage refuses."""
        return self._storage.create_exclusive(details.job_id, encode_job(details))

    def job_ids(self) -> list[str]:
        """The jobs there are; other files are left alone."""
        return [name for name in self._storage.list_files("") if _JOB_ID.fullmatch(name)]

    def read(self, job_id: str) -> JobDetails:
        """One job.

        Raises:
            CorruptArchiveError: Its document is damaged, or of another job.
            CheckpointStorageError: Storage refuses, or there is none.
        """
        path = f"{self._directory.rstrip('/')}/{job_id}"
        details = decode_job(self._storage.read(job_id), path)
        if details.job_id != job_id:
            raise CorruptArchiveError(
                f"{path} holds the archive of job {details.job_id}; rename or delete it"
            )
        return details
