"""Why old checkpoints wait to be deleted: storage, a thread, or the coordinator's loop."""

from __future__ import annotations

from dataclasses import dataclass

_ADVICE = "give it more CPU, or take checkpoints less often"


@dataclass(slots=True)
class DeletionTimes:
    """When one deletion was handed to a thread, began and ended; in nanoseconds, `None` if not yet.

    The thread that deletes sets the last two, and the coordinator's loop reads them.
    """

    queued_ns: int
    begun_ns: int | None = None
    ended_ns: int | None = None


def deletion_delay(times: DeletionTimes, now_ns: int, load_per_cpu: float) -> str:
    """The cause and the remedy, in words.

    Args:
        times: Of the deletion under way.
        now_ns: The time by the same clock.
        load_per_cpu: Runnable threads of this machine for each of its CPUs, on average.

    Returns:
        Sentences for a warning.
    """
    begun_ns = now_ns if times.begun_ns is None else times.begun_ns
    ended_ns = now_ns if times.ended_ns is None else times.ended_ns
    queued, deleting, heard = begun_ns - times.queued_ns, ended_ns - begun_ns, now_ns - ended_ns
    if times.begun_ns is None or queued > max(deleting, heard):
        return (
            f"The deletion waited {_seconds(queued)} for a thread, so storage is not the cause. The "
            f"coordinator's process has too little CPU, or its other background work takes long: {_ADVICE}"
        )
    if heard > deleting:
        return (
            f"Storage deleted within {_seconds(deleting)}, but the coordinator's loop was busy for "
            f"{_seconds(heard)} since then. Storage is not the cause: {_ADVICE}"
        )
    text = f"The deletion has taken {_seconds(deleting)} so far"
    if load_per_cpu > 1:
        return (
            f"{text}, on a machine with {load_per_cpu:.1f} runnable threads per CPU. Reduce the load of "
            "the machine first; if the warning remains, check the storage, or take checkpoints less often"
        )
    return f"{text}. Storage deletes slowly: check the storage, or take checkpoints less often"


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / 1e9:.1f} s"
