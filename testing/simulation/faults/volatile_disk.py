"""A model of a disk that loses at a power failure what was not synced.

It follows POSIX, not one file system: the content of each file, and each change of a directory, become
durable alone, in any order, and for certain only when they are synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _File:
    content: bytes
    stored: bytes
    """What is certain to be there after a power failure."""


class VolatileDisk:
    """Implements `Disk`. Paths are relative to the root `""`.

    Attributes:
        content: By path, every file as processes see it now. Only the methods change it.
    """

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self._files: dict[str, _File] = {}
        self._directories: set[str] = {""}
        # By directory the names that changed since it was synced, with what they meant before.
        self._changed: dict[str, dict[str, _File | bool]] = {}

    # ------------------------------------------------------------ Disk

    def write(self, path: str, data: bytes | memoryview, is_synced: bool) -> None:
        if os.path.dirname(path) not in self._directories:
            raise FileNotFoundError(path)
        content = bytes(data)
        self._name(path, _File(content, content if is_synced else b""))

    def replace(self, path: str, name: str) -> None:
        file = self._files[path]
        self.unlink(path)
        self._name(name, file)

    def link(self, path: str, name: str) -> None:
        if name in self._files:
            raise FileExistsError(name)
        self._name(name, self._files[path])

    def unlink(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(path)
        self._note(path, self._files.pop(path))
        del self.content[path]

    def make_directories(self, path: str) -> None:
        if path in self._directories:
            return
        self.make_directories(os.path.dirname(path))
        self._note(path, False)
        self._directories.add(path)

    def has_directory(self, path: str) -> bool:
        return path in self._directories

    def sync_directory(self, path: str) -> None:
        self._changed.pop(path, None)

    def _name(self, path: str, file: _File) -> None:
        self._note(path, self._files.get(path, False))
        self._files[path] = file
        self.content[path] = file.content

    def _note(self, path: str, before: _File | bool) -> None:
        changed = self._changed.setdefault(os.path.dirname(path), {})
        changed.setdefault(path, before)

    # ------------------------------------------------------------ what happens to it

    def settle(self) -> None:
        """Make everything durable, as the operating system does after a while."""
        self._changed.clear()
        for file in self._files.values():
            file.stored = file.content

    def fail(self, keeps: Callable[[], bool]) -> list[str]:
        """Lose the power.

        Args:
            keeps: Whether a change that was not synced is durable all the same; asked for each.

        Returns:
            The files that are gone, are back, or have another content.
        """
        seen = dict(self.content)
        for directory in sorted(self._changed):
            for path, before in sorted(self._changed[directory].items()):
                if not keeps():
                    self._revert(path, before)
        for path in sorted(self._files):
            directory = os.path.dirname(path)
            if not self._has_path(directory):
                del self._files[path]
        self._directories = {each for each in self._directories if self._has_path(each)}
        for file in self._files.values():
            if file.stored != file.content and not keeps():
                # A file system may have grown the file before it wrote the content.
                file.content = file.stored
        self.content.clear()
        self.content.update((path, file.content) for path, file in sorted(self._files.items()))
        self.settle()
        return sorted(path for path in {*seen, *self.content} if seen.get(path) != self.content.get(path))

    def _revert(self, path: str, before: _File | bool) -> None:
        if isinstance(before, _File):
            self._files[path] = before
        elif path in self._directories:
            self._directories.discard(path)
        else:
            self._files.pop(path, None)

    def _has_path(self, directory: str) -> bool:
        while directory:
            if directory not in self._directories:
                return False
            directory = os.path.dirname(directory)
        return True
