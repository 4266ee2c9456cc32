"""Whether a coordinator still owns its job: asks storage when the lease requires it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.lease import Lease
from .checkpoint_store import FencedError

logger = logging.getLogger(__name__)

RETRY_MS = 1_000
"""Pause before storage that did not answer is asked again."""


class Ownership:
    """Of one coordinator and one job.

    Args:
        check: Asks storage; raises `FencedError` if another coordinator owns the job.
        lease_ms: How long an answer counts.
        now_ms: The clock.
        superseded: Called once with the cause when another coordinator owns the job.
        is_current: Asks whether the shell still counts this process as the job's coordinator; `None` if it
            does not answer. A successor that is starting has not claimed the job yet.
    """

    def __init__(
        self,
        check: Callable[[], None],
        lease_ms: int,
        now_ms: Callable[[], int],
        superseded: Callable[[str], None] = lambda cause: None,
        is_current: Callable[[], bool | None] = lambda: True,
    ) -> None:
        self._check = check
        self._now_ms = now_ms
        self._superseded = superseded
        self._is_current = is_current
        self._lease = Lease(lease_ms, now_ms())
        self._is_unreachable = False

    @property
    def is_lost(self) -> bool:
        """Whether another coordinator owns the job."""
        return self._lease.is_lost

    def confirm(self, is_final: bool = False) -> bool:
        """Whether the coordinator may act now; asks storage if that is not certain.

        Args:
            is_final: Whether it is about to deploy or to end the job.

        Returns:
            `False` if it is superseded, or if storage does not answer: then ask again in `RETRY_MS`.
        """
        asked_ms = self._now_ms()
        self._lease.awake(asked_ms)
        # Not in each look: without Ray's head that is not answered for a while, and jobs run without it.
        if (is_final or self._lease.is_uncertain) and not self._asked_shell():
            return False
        if self._lease.is_due(asked_ms):
            self._look(asked_ms)
        now_ms = self._now_ms()
        self._lease.awake(now_ms)
        return self._lease.allows(now_ms, is_final)

    def _asked_shell(self) -> bool:
        if self._lease.is_lost:
            return False
        is_current = self._is_current()
        if is_current is False:
            self.lose("the shell has started another coordinator of the job")
        return is_current is True

    def lose(self, cause: str) -> None:
        """Another coordinator owns the job, as some other operation has found out."""
        if not self._lease.is_lost:
            logger.warning("This coordinator is superseded and does nothing more: %s", cause)
            self._lease.lost()
            self._superseded(cause)

    def _look(self, asked_ms: int) -> None:
        try:
            self._check()
        except FencedError as error:
            self.lose(str(error))
        except CheckpointStorageError as error:
            if not self._is_unreachable:
                logger.warning(
                    "Checkpoint storage does not say whether this coordinator owns the job: %s", error
                )
            self._is_unreachable = True
        else:
            self._is_unreachable = False
            self._lease.verified(asked_ms, self._now_ms())
