"""Questions from the driver about live keyed state, on their way to tasks and back."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...common.errors import StateError
from ...protocol.ids import SubtaskId
from ...protocol.key_groups import subtask_of_key_group
from ...protocol.scheduling.plan import JobGraph
from ...protocol.task_events import QueryState, StateQueried
from ...state.serializers.key_hashing import key_group_of
from .control_requests import StateAnswer, StateQuery

Answer = Callable[[StateAnswer], None]


class StateQueries:
    """Queries that wait for their task; lives on the coordinator's thread.

    Args:
        graph: tells which subtask has which keys.
        send: mails a query to a subtask of the current attempt.
    """

    def __init__(self, graph: JobGraph, send: Callable[[SubtaskId, QueryState], None]) -> None:
        self._graph = graph
        self._send = send
        self._waiting: dict[int, tuple[SubtaskId, Answer]] = {}
        self._next_id = 0

    def ask(self, query: StateQuery, answer: Answer, finished: Collection[SubtaskId]) -> None:
        """Mail a query to the task that owns its key.

        Args:
            finished: subtasks that run no more.

        Raises:
            StateError: no operator has the uid, or the task has finished.
            KeyTypeError: the key has no deterministic encoding.
        """
        subtask = self._owner(query)
        if subtask in finished:
            raise StateError(
                f"the subtask of operator {query.operator_uid!r} that owns the key has finished; ask with "
                f"consistency='checkpoint'"
            )
        self._next_id += 1
        self._waiting[self._next_id] = (subtask, answer)
        self._send(
            subtask,
            QueryState(self._next_id, query.operator_uid, query.state_name, query.key, query.namespace),
        )

    def answered(self, event: StateQueried) -> None:
        """A task answered."""
        waiting = self._waiting.pop(event.query_id, None)
        if waiting is not None:
            waiting[1](StateAnswer(event.value, event.error))

    def fail(self, reason: str, subtask: SubtaskId | None = None) -> None:
        """Nobody will answer what waits, or what waits for one subtask: it may be asked again."""
        lost = [number for number, (asked, _) in self._waiting.items() if subtask in (None, asked)]
        for number in lost:
            _, answer = self._waiting.pop(number)
            answer(StateAnswer(b"", reason, is_final=False))

    def _owner(self, query: StateQuery) -> SubtaskId:
        for task in self._graph.tasks:
            for node in task.nodes:
                if node.uid == query.operator_uid:
                    group = key_group_of(query.key, node.max_parallelism)
                    index = subtask_of_key_group(group, node.max_parallelism, node.parallelism)
                    return SubtaskId(task.task_id, index)
        there = ", ".join(f"{node.uid} ({node.name})" for node in self._graph.operators)
        raise StateError(f"the job has no operator with uid {query.operator_uid!r}; there is: {there}")
