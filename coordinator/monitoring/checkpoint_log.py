"""What the coordinator logs about checkpoints."""

from __future__ import annotations

import logging

from .statistics import CheckpointOutcome, CheckpointStatistics

logger = logging.getLogger(__name__)


def log_end(ended: CheckpointStatistics) -> None:
    """Log that a checkpoint completed, or why it was aborted."""
    if ended.outcome is CheckpointOutcome.COMPLETED:
        logger.info(
            "Checkpoint %d is complete after %.0f ms: %d bytes of state, %d of them new",
            ended.checkpoint_id,
            ended.duration_ms,
            ended.size_bytes,
            ended.new_bytes,
        )
    else:
        logger.info("Checkpoint %d is aborted: %s", ended.checkpoint_id, ended.reason)
