"""How the barriers of a job are handled, which may be changed while it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..common.errors import ConfigurationError
from ..protocol.elements import CheckpointingMode
from ..protocol.trigger import TriggerPolicy
from ..state.storage import CheckpointStorage, check_exclusive

_PATH = "mode/MODE"


@dataclass(frozen=True)
class BarrierMode:
    """What every barrier says.

    Attributes:
        mode: Whether tasks align.
        aligned_timeout_ms: How long a barrier tries to align before it overtakes: 0 overtakes at once,
            `None` never overtakes.
    """

    mode: CheckpointingMode
    aligned_timeout_ms: int | None = None

    def check(self, policy: TriggerPolicy) -> None:
        """Raise `ConfigurationError` if a job with this policy cannot work so."""
        if self.aligned_timeout_ms is None:
            return
        if self.mode is not CheckpointingMode.EXACTLY_ONCE:
            raise ConfigurationError(
                "unaligned checkpoints need exactly-once; at-least-once never aligns, so there is nothing "
                "to overtake"
            )
        if policy.max_concurrent > 1:
            raise ConfigurationError(
                f"unaligned checkpoints need one at a time, but the job was started with "
                f"execution.checkpointing.max-concurrent-checkpoints: {policy.max_concurrent}"
            )

    def __str__(self) -> str:
        return self.mode.value if self.aligned_timeout_ms is None else "unaligned"


def store_mode(storage: CheckpointStorage, mode: BarrierMode, existing: str) -> None:
    """Keep a change for later coordinators.

    Args:
        existing: The path of a file in the storage.

    Raises:
        ConfigurationError: The change is to exactly-once, which this storage does not allow.
    """
    if mode.mode is CheckpointingMode.EXACTLY_ONCE:
        check_exclusive(storage, existing)
    record = {"mode": mode.mode.value, "aligned_timeout_ms": mode.aligned_timeout_ms}
    storage.write_file(_PATH, json.dumps(record).encode())


def stored_mode(storage: CheckpointStorage) -> BarrierMode | None:
    """What a coordinator before was told, if anything."""
    if _PATH not in storage.list_files("mode"):
        return None
    record = json.loads(storage.read(_PATH))
    return BarrierMode(CheckpointingMode(record["mode"]), record["aligned_timeout_ms"])
