"""How a job gets from its driver to its coordinator: through the key-value store of Ray's head.

Not as an argument of the actor. Ray keeps arguments of more than 100 KiB in the driver's object store, where
they are lost with the driver, and a coordinator that comes back later could not be made again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray.experimental import internal_kv

_NAMESPACE = "tidegate"
_REMEDY = "Start the job again; with retained checkpoints, from the newest one"


@dataclass(frozen=True)
class HandedOverJob:
    """What a coordinator begins with.

    Attributes:
        spec: What `JobHost` takes.
        processes: What `start_task_actor` takes for each process that the job begins with, by its key, in the
            order in which they are to be started.
        is_resumable: Whether Ray restarts a coordinator that was lost.
    """

    spec: bytes
    processes: Mapping[str, Mapping[str, Any]]
    is_resumable: bool


def hand_over(coordinator: str, job: HandedOverJob) -> None:
    """Leave a job for an actor; called by the driver, before it creates the actor.

    Args:
        coordinator: Name of the actor.
        job: Its job.
    """
    # Here and not above: each task imports this module, as it does the actor's.
    from ..protocol.checkpoints.control_file import encode_control_file

    data = encode_control_file("hand-over", {"coordinator": coordinator}, {}, pickle.dumps(job))
    internal_kv._internal_kv_put(coordinator, data, namespace=_NAMESPACE)


def handed_over(coordinator: str) -> HandedOverJob:
    """The job of an actor, also of one that Ray restarted.

    Raises:
        JobExecutionError: There is none any more.
        CorruptCheckpointError: It is damaged, or that of another actor.
    """
    data = internal_kv._internal_kv_get(coordinator, namespace=_NAMESPACE)
    if data is None:
        from ..common.errors import JobExecutionError

        raise JobExecutionError(f"{coordinator} is over, and forgotten; start the job again")
    from ..protocol.checkpoints.control_file import decode_control_file

    # Nothing is unpickled before checksum and name hold.
    path = f"the entry {coordinator!r} in the key-value store of Ray's head"
    file = decode_control_file(data, path, "hand-over", {"coordinator": coordinator}, _REMEDY)
    job: HandedOverJob = pickle.loads(file.payload)
    return job


def is_handed_over(coordinator: str) -> bool:
    """Whether an actor of this name would find its job."""
    return internal_kv._internal_kv_exists(coordinator, namespace=_NAMESPACE)


def forget(coordinator: str) -> None:
    """Remove the job: no actor of this name will need it any more."""
    internal_kv._internal_kv_del(coordinator, namespace=_NAMESPACE)
