"""What is to be known of keyed state on local disk: too little memory, and a file that was cut short."""

from __future__ import annotations

from ...state.lmdb_backend import LmdbStateBackend
from ..spec import JobSettings

LEAST_MEMORY_BYTES = 1 << 20


def memory_warning(settings: JobSettings) -> str | None:
    """What to warn of if the memory in front of LMDB is so small that most records wait for the disk."""
    backend = settings.state_backend
    if not isinstance(backend, LmdbStateBackend) or backend.memory_size_bytes >= LEAST_MEMORY_BYTES:
        return None
    return (
        f"tidegate.state.lmdb.memory is {backend.memory_size_bytes:,} bytes for each operator and subtask. "
        f"With less than {LEAST_MEMORY_BYTES >> 20} MiB nearly every batch of records waits until state is "
        f"written to local disk; set 64 MiB or more"
    )


def local_state_hint(settings: JobSettings) -> str:
    """What else to look at when a task's process died; empty without state in LMDB.

    A map of a file that was cut short ends the process by SIGBUS, before anything in it can say why.
    """
    if not isinstance(settings.state_backend, LmdbStateBackend):
        return ""
    return (
        f". If its log ends with 'Fatal Python error: Bus error', its file of local state (data.mdb in "
        f"{settings.local_dir}, tidegate.local-dir) was truncated by another program, or its disk is broken"
    )
