"""Answers questions about the live state of a task."""

from __future__ import annotations

from ..operators.chain import OperatorChain
from ..protocol.task_events import QueryState, StateQueried
from ..state.serializers.pickling import dumps
from .ports import TaskDeployment


def answer_query(deployment: TaskDeployment, chain: OperatorChain, query: QueryState) -> StateQueried:
    """The value of one key. Asked between two batches, it is one that some prefix of the input led to."""
    value, problem = b"", None
    try:
        value = dumps(chain.query(query.operator_uid, query.state_name, query.key, query.namespace))
    except Exception as error:
        # A question from outside must never fail the task.
        problem = str(error)
    return StateQueried(deployment.attempt, deployment.subtask_id, query.query_id, value, problem)
