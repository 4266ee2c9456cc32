"""Deletes what is the job's in its directory of checkpoint storage. Other files there are the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...protocol.checkpoints.checkpoint_paths import MANIFEST_NAME, is_own, numbers
from ...protocol.checkpoints.handles import FileHandle
from ...state.storage.checkpoint_storage import CheckpointStorage, is_absolute


def delete_files(storage: CheckpointStorage, threads: int, paths: Sequence[str]) -> None:
    """Delete files, several at a time: a remote store takes as long for one as for many at once.

    Args:
        threads: How many at a time.
        paths: From the root of the storage.

    Raises:
        CheckpointStorageError: Storage refuses; some may be deleted.
    """
    threads = min(threads, len(paths))
    if threads <= 1:
        storage.delete(paths)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="tidegate-deletion") as pool:
        parts = [pool.submit(storage.delete, paths[start::threads]) for start in range(threads)]
    for part in parts:
        part.result()


def remove_directory(storage: CheckpointStorage, threads: int, check_fence: Callable[[], None]) -> None:
    """Delete everything of a job that has ended.

    Args:
        storage: The job's own directory.
        threads: How many files are deleted at a time.
        check_fence: Raises when another coordinator took over; called when the files are listed.
    """
    found = [path for path in storage.list_files("") if is_own(path)]
    check_fence()
    manifests = [path for path in found if path.endswith(f"/{MANIFEST_NAME}")]
    epochs = [path for path in found if path.startswith("epochs/")]
    kept_until_later = {*manifests, *epochs}
    delete_files(storage, threads, manifests)
    delete_files(storage, threads, [path for path in found if path not in kept_until_later])
    # Last, and the oldest first: without any, a coordinator that was replaced still finds itself fenced.
    storage.delete(sorted(epochs, key=lambda path: numbers([path])))
    remove_rest(storage)


def remove_rest(storage: CheckpointStorage) -> None:
    """Delete what is left of a job that is removed: late files, half-written ones, and empty directories."""
    found = [*storage.list_files(""), *storage.list_unfinished("")]
    if all(map(is_own, found)):
        storage.delete_all()
    else:
        storage.delete([path for path in found if is_own(path)])


def own_paths(files: Iterable[FileHandle]) -> list[str]:
    """The files in the job's own directory; others are another job's and never deleted."""
    return [file.path for file in files if not file.is_inline and not is_absolute(file.path)]
