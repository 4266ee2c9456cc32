"""Files that travel with a job: what user functions read, and Python code that they import."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import dataclass

from .errors import ConfigurationError

__all__ = ["JobFile", "MAX_CARRIED_BYTES", "carried_file"]  # noqa: RUF022 (plain order, as the tests want)

MAX_CARRIED_BYTES = 64 << 20
"""The most that the files of a job may hold together: every process gets them with its tasks."""


@dataclass(frozen=True)
class JobFile:
    """One file or directory, with its content or with where it is.

    Attributes:
        name: What functions ask for it by.
        data: Content of the file, or a zip archive of the directory.
        digest: Of the data, so that the same content is stored once.
        is_directory: Whether `data` is a zip archive to be unpacked.
        is_executable: Whether it may be run as a program.
        is_import_path: Whether functions import from it.
        file_name: The last part of its path.
    """

    name: str
    data: bytes
    digest: str
    file_name: str
    is_directory: bool = False
    is_executable: bool = False
    is_import_path: bool = False


def carried_file(path: str, name: str, is_executable: bool = False, is_import_path: bool = False) -> JobFile:
    """A file or directory of this machine, read now.

    Raises:
        ConfigurationError: It cannot be read, or is too large to travel with the job.
    """
    is_directory = os.path.isdir(path)
    try:
        if is_directory:
            data = _zipped(path)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_CARRIED_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; give a path of this machine") from error
    if len(data) > MAX_CARRIED_BYTES:
        raise ConfigurationError(
            f"{path} has more than {MAX_CARRIED_BYTES >> 20} MiB, which is too much to travel with the job; "
            f"put it where all nodes find it, and open it there in open()"
        )
    file_name = os.path.basename(os.path.normpath(path))
    digest = hashlib.sha256(data).hexdigest()
    return JobFile(name, data, digest, file_name, is_directory, is_executable, is_import_path)


def _zipped(path: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for directory, folders, files in os.walk(path):
            folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
            for file in sorted(files):
                full = os.path.join(directory, file)
                with open(full, "rb") as content:
                    # Without times of the files, which would change the digest.
                    info = zipfile.ZipInfo(os.path.relpath(full, path))
                    archive.writestr(info, content.read(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
