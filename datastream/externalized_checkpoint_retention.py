"""What happens to checkpoints when a job is cancelled, by PyFlink's import path."""

from __future__ import annotations

from .checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
