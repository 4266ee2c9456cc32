"""One trace per recovery and rescale: from the reason to stop until every subtask runs again."""

from __future__ import annotations

from ...protocol.ids import CheckpointId
from ...telemetry import AttributeValue, Span
from ...telemetry.spans import (
    CANCEL,
    DELAY,
    JOB_ATTEMPT,
    RECOVERY,
    RESTART_CAUSE,
    RESTART_SUBTASKS,
    RESTORED_CHECKPOINT_ID,
)
from .traces import JobTraces


class RestartTraces:
    """The trace of the restart that is under way, if any.

    Call `begin` when it is decided, `stopped` when no subtask of the attempt before runs any more (more
    often does no harm), `deploying` when the next attempt begins, `running` or `failed` at its end. Where a
    restart fails and leads to another one, `begin` ends the first trace as an error.
    """

    def __init__(self, traces: JobTraces) -> None:
        self._traces = traces
        self._root: Span | None = None
        self._began_ns = 0
        self._stopped_ns = 0

    def begin(self, cause: str, began_ns: int, name: str = RECOVERY) -> None:
        """The subtasks are about to be stopped.

        Args:
            cause: Why, in words.
            began_ns: Since when, in nanoseconds since the Unix epoch.
            name: `RECOVERY` or `RESCALE`, see `telemetry.spans`.
        """
        self.failed(cause)
        self._root = self._traces.begin(name, {RESTART_CAUSE: cause}, began_ns)
        self._began_ns, self._stopped_ns = began_ns, 0

    def stopped(self, now_ns: int) -> None:
        """No subtask runs any more."""
        if self._root is not None and not self._stopped_ns:
            self._stopped_ns = now_ns
            self._traces.record(self._root, CANCEL, self._began_ns, {}, now_ns)

    def deploying(
        self, attempt_number: int, subtask_count: int, restored: CheckpointId | None, now_ns: int
    ) -> str | None:
        """The next attempt begins.

        Returns:
            The W3C traceparent for its subtasks; `None` if this is no restart.
        """
        root = self._root
        if root is None:
            return None
        if self._stopped_ns and now_ns > self._stopped_ns:
            self._traces.record(root, DELAY, self._stopped_ns, {}, now_ns)
        about: dict[str, AttributeValue] = {JOB_ATTEMPT: attempt_number, RESTART_SUBTASKS: subtask_count}
        if restored is not None:
            about[RESTORED_CHECKPOINT_ID] = restored
        for name, value in about.items():
            root.set_attribute(name, value)
        return root.context

    def running(self) -> None:
        """Every subtask runs."""
        self._end(None)

    def failed(self, cause: str) -> None:
        """The restart does not come to its end: it failed, or the job ends."""
        self._end(cause)

    def _end(self, error: str | None) -> None:
        if self._root is not None:
            self._traces.end(self._root, error)
            self._root = None
