"""One attempt to run all subtasks of a job: which of them run, and what clients ask of them."""

from __future__ import annotations

from collections.abc import Callable

from ..common.errors import TidegateError
from ..protocol.checkpoints.manifest import CheckpointManifest
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.scheduling.execution_graph import ExecutionGraph
from ..protocol.scheduling.plan import JobGraph
from ..protocol.task_events import QueryState
from .control.control_requests import StateAnswer, StateQuery
from .control.state_queries import Answer, StateQueries


class JobAttempt:
    """The subtasks of one attempt, from its deployment until the last of them has stopped.

    Args:
        number: Fences the messages of other attempts.
        job: The job with the parallelism of this attempt.
        graph: Its subtasks and channels.
        restored: The checkpoint that it starts from, `None` for none.
        send: Sends a query to a subtask of an attempt.
    """

    def __init__(
        self,
        number: Attempt,
        job: JobGraph,
        graph: ExecutionGraph,
        restored: CheckpointManifest | None,
        send: Callable[[Attempt, SubtaskId, QueryState], None],
    ) -> None:
        self.number = number
        self.graph = graph
        self.restored = restored
        self.queries = StateQueries(job, lambda subtask, query: send(number, subtask, query))
        self.live = set(self.graph.subtasks)
        """Subtasks that are deployed, or about to be, and have not stopped."""
        self._initialized: set[SubtaskId] = set()
        self._finished: set[SubtaskId] = set()

    def not_deployed(self) -> None:
        """No subtask was started."""
        self.live.clear()

    def initialized(self, subtask: SubtaskId) -> bool:
        """A subtask can run; whether all subtasks can."""
        self._initialized.add(subtask)
        return len(self._initialized) == len(self.graph.subtasks)

    def stopped(self, subtask: SubtaskId) -> None:
        """A subtask has failed or was stopped."""
        self.live.discard(subtask)

    def finished(self, subtask: SubtaskId) -> None:
        """A subtask has processed all its input."""
        self._finished.add(subtask)
        self.live.discard(subtask)
        self.queries.fail("the subtask that owns the key has finished", subtask)

    def ask(self, query: StateQuery, answer: Answer) -> None:
        """Ask the subtask that owns a key; `answer` is called once, when it has answered or cannot."""
        try:
            self.queries.ask(query, answer, self._finished)
        except TidegateError as error:
            answer(StateAnswer(b"", str(error)))
