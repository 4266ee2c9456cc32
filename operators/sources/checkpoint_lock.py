"""The checkpoint lock: between a source's own thread and the snapshots of its task.

The task never waits for it. It asks (`try_take`), and as long as it wants the lock no new section
begins in the source's thread: so a thread that takes the lock again at once cannot starve snapshots.
"""

from __future__ import annotations

import threading
from types import TracebackType


class CheckpointLock:
    """Reentrant; used as `with lock:`, or by `acquire` and `release`.

    What a source does while it holds the lock is in a snapshot either as a whole or not at all.
    """

    def __init__(self) -> None:
        self._inner = threading.RLock()
        self._depth = 0
        self._is_wanted = False
        self._is_in_doubt = False
        self._may_go_on = threading.Event()
        self._may_go_on.set()

    def acquire(self) -> None:
        """Wait until no snapshot is being taken or due, then begin a section."""
        self._inner.acquire()
        if not self._depth:
            self._is_in_doubt = False
            if self._is_wanted:
                self._let_task_go_first()
        self._depth += 1

    def release(self) -> None:
        """End a section."""
        self._depth -= 1
        self._inner.release()

    def _let_task_go_first(self) -> None:
        while self._is_wanted:
            self._inner.release()
            self._may_go_on.wait()
            self._inner.acquire()

    # One call for `with`: it is entered for every record.
    __enter__ = acquire

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._depth == 1:
            # Half of the section may be done. Either the function copes with that and goes on, or it
            # fails; until one of the two is seen there must be no snapshot.
            self._is_in_doubt = True
        self._depth -= 1
        self._inner.release()

    # ------------------------------------------------------------ called by the task

    def try_take(self) -> bool:
        """Take the lock for the task; if that is not possible now, no other section begins before it is."""
        self._may_go_on.clear()
        self._is_wanted = True
        if self._inner.acquire(blocking=False):
            if not self._is_in_doubt:
                return True
            self._inner.release()
        if self._is_in_doubt:
            # The thread must be let on: to its next section, or to its end.
            self.stand_aside()
        return False

    def give_back(self) -> None:
        """The task is done with it."""
        self.stand_aside()
        self._inner.release()

    def stand_aside(self) -> None:
        """The task wants the lock no more."""
        self._is_wanted = False
        self._may_go_on.set()

    def thread_ended(self) -> None:
        """No section will follow the one that an exception left."""
        self._is_in_doubt = False
