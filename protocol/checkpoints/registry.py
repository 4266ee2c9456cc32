"""Who refers to which stored file, and which files nobody refers to any more.

Source: the idea of Flink's `SharedStateRegistry`, with two kinds of owner. A *checkpoint* refers to what
its manifest names, or will name. A *subtask* refers to what its last acknowledgement names, whether or
not that checkpoint completed: with increments its next acknowledgement names most of it again. A file
that an owner once let go of is never named by that owner again, so the last reference is the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from ..ids import CheckpointId, SubtaskId

_Owner = CheckpointId | SubtaskId


class SharedStateRegistry:
    """Reference counts of the files in a job's directory; it decides, and deletes nothing itself."""

    def __init__(self) -> None:
        self._files: dict[_Owner, set[str]] = {}
        self._counts: Counter[str] = Counter()
        self._newest: dict[SubtaskId, CheckpointId] = {}
        self._unreferenced: set[str] = set()

    def is_referenced(self, path: str) -> bool:
        """Whether any owner refers to the file."""
        return path in self._counts

    def register_checkpoint(self, checkpoint_id: CheckpointId, paths: Iterable[str]) -> None:
        """A checkpoint, complete or under way, needs these files besides those it needs already."""
        self._add(checkpoint_id, set(paths))

    def release_checkpoint(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is aborted, or its manifest is gone from storage."""
        self._remove(self._files.pop(checkpoint_id, set()))

    def register_subtask(self, subtask: SubtaskId, checkpoint_id: CheckpointId, paths: Iterable[str]) -> None:
        """A subtask acknowledged a checkpoint with these files; they replace those before.

        An acknowledgement that comes after the one of a newer checkpoint replaces nothing: what only it
        names is no longer needed by the subtask.
        """
        new = set(paths)
        if checkpoint_id < self._newest.get(subtask, checkpoint_id):
            self.discard(new)
            return
        self._newest[subtask] = checkpoint_id
        old = self._files.get(subtask, set())
        self._add(subtask, new)
        self._files[subtask] = new
        self._remove(old - new)

    def forget_subtasks(self) -> None:
        """The attempt is over: no subtask of it will acknowledge anything any more."""
        for owner in [owner for owner in self._files if isinstance(owner, SubtaskId)]:
            self._remove(self._files.pop(owner))
        self._newest.clear()

    @property
    def has_unreferenced(self) -> bool:
        """Whether there is something for `take_unreferenced`."""
        return bool(self._unreferenced)

    def discard(self, paths: Iterable[str]) -> None:
        """Files that came with a message nobody waits for; unreferenced unless an owner has them."""
        self._unreferenced.update(path for path in paths if path not in self._counts)

    def take_unreferenced(self) -> list[str]:
        """Files that lost their last reference since the last call, sorted: to be deleted now."""
        taken = sorted(self._unreferenced)
        self._unreferenced.clear()
        return taken

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        assert self._counts == Counter(chain.from_iterable(self._files.values()))
        assert not self._unreferenced & self._counts.keys(), "a file in use is to be deleted"

    def _add(self, owner: _Owner, paths: set[str]) -> None:
        owned = self._files.setdefault(owner, set())
        for path in paths - owned:
            self._counts[path] += 1
            self._unreferenced.discard(path)
        owned |= paths

    def _remove(self, paths: set[str]) -> None:
        for path in paths:
            self._counts[path] -= 1
            if self._counts[path] == 0:
                del self._counts[path]
                self._unreferenced.add(path)
