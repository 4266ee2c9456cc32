"""Moves a coordinator off a node that is being drained: it ends, and is started on another node.

The job resumes from its newest checkpoint there, with all of its tasks on nodes that stay. No attempt of the
restart strategy is used up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..common.job_status import JobStatus
from ..protocol.scheduling.relocation import CoordinatorMove, MoveFacts, MoveStep
from .control.job_requests import JobRequests
from .job_coordinator import JobCoordinator

logger = logging.getLogger(__name__)


class CoordinatorRelocation:
    """Of one coordinator.

    Args:
        coordinator: The job.
        must_move: Whether the node is being drained, and another one can take the coordinator.
        leave: Ends this process, so that the shell starts the coordinator elsewhere.
    """

    def __init__(
        self, coordinator: JobCoordinator, must_move: Callable[[], bool], leave: Callable[[], None]
    ) -> None:
        self._coordinator = coordinator
        self._must_move = must_move
        self._leave = leave
        self._move = CoordinatorMove()

    def tick(self) -> bool:
        """Do what is due; whether the coordinator is about to leave, so that nothing else need move."""
        coordinator = self._coordinator
        store, checkpoints = coordinator.store, coordinator.checkpoints
        if store is None or checkpoints is None:
            # A job without checkpoints does not survive its coordinator.
            return False
        newest = None if store.newest is None else store.newest.checkpoint_id
        facts = MoveFacts(self._must_move(), self._is_running and not checkpoints.ending, newest)
        step = self._move.decide(coordinator.now_ms, facts)
        if step is MoveStep.TAKE_CHECKPOINT:
            logger.info("The node of the coordinator is being drained: it takes a checkpoint, and moves")
            JobRequests(coordinator).trigger_checkpoint()
        elif step is MoveStep.LEAVE:
            logger.info("The coordinator leaves its node; the job resumes from checkpoint %s", newest)
            self._leave()
        return self._move.is_moving

    @property
    def _is_running(self) -> bool:
        return self._coordinator.status is JobStatus.RUNNING and self._coordinator.rescaling is None
