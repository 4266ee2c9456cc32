"""Local directories of operators: one per attempt, and none left behind by earlier ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import urllib.parse


def local_dir(root: str, job_id: str, uid: str, subtask_index: int, attempt: int) -> str:
    """Path of one operator's local files in one attempt; created by whoever needs it."""
    return os.path.join(root, job_id, f"{as_file_name(uid)}-{subtask_index}", str(attempt))


def as_file_name(uid: str) -> str:
    """A uid may hold anything; a file name may not be `..` or hold a slash."""
    return "op-" + urllib.parse.quote(uid, safe="")


def remove_older_attempts(path: str) -> None:
    """Delete what a killed process of an earlier attempt left beside `path`."""
    parent, attempt = os.path.split(path)
    if not os.path.isdir(parent):
        return
    for name in os.listdir(parent):
        if name.isdigit() and int(name) < int(attempt):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def remove_if_empty(path: str) -> None:
    """Delete the directories of an attempt, a subtask and a job that nothing is left in."""
    for _ in range(3):
        # Not empty, or gone already: both are fine.
        with contextlib.suppress(OSError):
            os.rmdir(path)
        path = os.path.dirname(path)
