"""Puts the files of a job on the disk of a task's machine.

    <root>/tidegate-jobs/<job id>/files/<digest>/<file name>

They lie in the job's directory, so they go when it goes.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence

from ..common.job_files import JobFile
from .local_dirs import job_files_dir


def place_files(files: Sequence[JobFile], root: str, job_id: str) -> dict[str, str]:
    """Write what is not there yet, and make import paths importable.

    Returns:
        Where each file or directory is, by its name.
    """
    paths = {file.name: _placed(file, job_files_dir(root, job_id)) for file in files}
    for file in files:
        if file.is_import_path:
            _make_importable(file, paths[file.name])
    return paths


def _placed(file: JobFile, directory: str) -> str:
    home = os.path.join(directory, file.digest)
    path = os.path.join(home, file.file_name)
    if os.path.exists(path):
        return path
    os.makedirs(directory, exist_ok=True)
    # Other processes of this machine may do the same now: whoever renames first has placed it for all.
    scratch = tempfile.mkdtemp(dir=directory)
    try:
        _write(file, os.path.join(scratch, file.file_name))
        os.rename(scratch, home)
    except OSError:
        if not os.path.exists(path):
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _write(file: JobFile, path: str) -> None:
    if file.is_directory:
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
            archive.extractall(path)
            os.makedirs(path, exist_ok=True)
        return
    with open(path, "wb") as target:
        target.write(file.data)
    os.chmod(path, 0o755 if file.is_executable else 0o644)


def _make_importable(file: JobFile, path: str) -> None:
    """A module's directory, a directory of modules, or an archive that Python imports from."""
    entry = os.path.dirname(path) if path.endswith(".py") else path
    if entry not in sys.path:
        sys.path.append(entry)
