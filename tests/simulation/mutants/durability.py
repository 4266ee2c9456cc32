"""Bugs in what a write to checkpoint storage leaves on disk, which show when the power fails."""

from __future__ import annotations

from typing import Any

from tidegate.state.storage.durable_files import DurableFiles

from .base import Mutant


def _no_directory(original: Any) -> Any:
    return lambda self, path, made: None


def _manifest_first(original: Any) -> Any:
    """Only what is created exclusively, such as a manifest, is synced."""

    def write(self: DurableFiles, path: str, data: Any) -> None:
        self._is_synced = False
        try:
            original(self, path, data)
        finally:
            self._is_synced = True

    return write


MUTANTS = {
    "directory-not-synced": Mutant(
        "files are synced, but not the directories that name them",
        DurableFiles,
        "_sync_directories",
        _no_directory,
    ),
    "manifest-synced-first": Mutant(
        "a manifest is synced to disk, but not the files that it names",
        DurableFiles,
        "write",
        _manifest_first,
    ),
}
