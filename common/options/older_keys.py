"""Keys that Flink or Tidegate used before, and what replaces each.

An older key with the same meaning is read as its option is (`ConfigOption.deprecated_keys`). What is listed
here cannot be: the meaning changed, Tidegate has no such setting, or the key is not one of Flink.
"""

from __future__ import annotations

__all__ = ["FIXED_BEFORE", "REPLACED"]

_RETENTION = "set execution.checkpointing.externalized-checkpoint-retention to RETAIN_ON_CANCELLATION"
_BUFFER = "Tidegate writes each file of a checkpoint at once, so there is no write buffer to size; remove it"
_PARTIAL = "a restored task always has all of its state; remove it"

FIXED_BEFORE = {
    "state.backend.changelog.enabled": "state.changelog.enabled",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.checkpoints.create-subdir": "execution.checkpointing.create-subdir",
}
"""Flink's older keys of settings that have one value here, and what they are called now."""

REPLACED = {
    "alignment.max_buffered_bytes": "use tidegate.checkpointing.alignment.max-size",
    "enableExternalizedCheckpoints": _RETENTION,
    "enable_externalized_checkpoints": _RETENTION,
    "execution-retries.default": (
        "set restart-strategy.type to fixed-delay, and restart-strategy.fixed-delay.attempts"
    ),
    "execution-retries.delay": (
        "set restart-strategy.type to fixed-delay, and restart-strategy.fixed-delay.delay"
    ),
    "execution.checkpointing.approximate-local-recovery": _PARTIAL,
    "execution.checkpointing.recover-without-channel-state.checkpoint-id": (
        "execution.state-recovery.ignore-unclaimed-state drops records in flight that have no place"
    ),
    "execution.checkpointing.write-buffer-size": _BUFFER,
    "state.backend.fs.write-buffer-size": _BUFFER,
    "state.storage.fs.write-buffer-size": _BUFFER,
}
"""What to do instead, by key."""
