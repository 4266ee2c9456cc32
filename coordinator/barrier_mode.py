"""How the barriers of a job are handled, which may be changed while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.errors import ConfigurationError
from ..protocol.checkpoints.control_file import decode_control_file, encode_control_file, old_json
from ..protocol.checkpoints.json_fields import Fields
from ..protocol.checkpoints.trigger import TriggerPolicy
from ..protocol.elements import CheckpointingMode
from ..protocol.ids import JobId
from ..state.storage.checkpoint_storage import CheckpointStorage, check_exclusive

_PATH = "mode/MODE"
_OLD_MODE = old_json("mode", "aligned_timeout_ms")
_REMEDY = (
    "It holds the checkpointing mode that was set while the job ran. Set the mode that you want in the "
    "program, and start a new job from the newest checkpoint with execution.state-recovery.path"
)


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


def store_mode(storage: CheckpointStorage, job_id: JobId, mode: BarrierMode, existing: str) -> None:
    """Store a change for later coordinators, in the job's directory.

    Args:
        existing: The path of a file in the storage.

    Raises:
        ConfigurationError: The change is to exactly-once, which this storage does not allow.
    """
    if mode.mode is CheckpointingMode.EXACTLY_ONCE:
        check_exclusive(storage, existing)
    document = {"mode": mode.mode.value, "aligned_timeout_ms": mode.aligned_timeout_ms}
    storage.write_file(_PATH, encode_control_file("mode", {"job_id": job_id}, document))


def stored_mode(storage: CheckpointStorage, job_id: JobId) -> BarrierMode | None:
    """The mode that was set while an earlier coordinator ran the job, if any was.

    Raises:
        CorruptCheckpointError: The file is damaged.
    """
    if _PATH not in storage.list_files("mode"):
        return None
    path = f"{storage.uri.rstrip('/')}/{_PATH}"
    data = storage.read(_PATH)
    file = decode_control_file(data, path, "mode", {"job_id": job_id}, _REMEDY, _OLD_MODE)
    fields = Fields(file.document, path, "")
    mode = CheckpointingMode(fields.one_of("mode", [mode.value for mode in CheckpointingMode]))
    has_timeout = file.document.get("aligned_timeout_ms") is not None
    return BarrierMode(mode, fields.integer("aligned_timeout_ms") if has_timeout else None)
