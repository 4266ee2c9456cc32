"""The parallelism that a job was rescaled to, in its directory of checkpoint storage.

    parallelism/<epoch>-<n>   the n-th that the coordinator of an epoch wrote, create-if-absent

The newest of the newest epoch counts: what a coordinator writes that was replaced is not read by those who
have written since. A checkpoint fits any parallelism, so this needs no other bond with it.
"""

from __future__ import annotations

import json

from ..common import failpoints
from ..common.errors import CheckpointStorageError
from ..protocol.plan import JobGraph
from ..protocol.rescaling import RescaleError, parallelism_of, rescaled
from .checkpoint_store import CheckpointStore

_DIRECTORY = "parallelism"


def store_parallelism(store: CheckpointStore, submitted: JobGraph, current: JobGraph) -> None:
    """Keep the parallelism for the coordinators to come.

    Args:
        store: The job's checkpoints.
        submitted: The job as the program has it.
        current: The job as it runs.

    Raises:
        FencedError: Another coordinator runs the job now.
        CheckpointStorageError: It could not be written, or nobody knows whether it was.
    """
    failpoints.reach("rescale_store")
    storage = store.storage
    store.check_fence()
    record = {"submitted": parallelism_of(submitted), "current": parallelism_of(current)}
    before = [path for path in storage.list_files(_DIRECTORY) if _place(path)[0] <= store.epoch]
    number = max((n for epoch, n in map(_place, before) if epoch == store.epoch), default=0) + 1
    storage.create_exclusive(f"{_DIRECTORY}/{store.epoch}-{number}", json.dumps(record).encode())
    store.check_fence()
    storage.delete(before)
    failpoints.reach("rescale_done")


def restored_parallelism(store: CheckpointStore, submitted: JobGraph) -> JobGraph:
    """The job as it ran last; as the program has it, where the program was changed since.

    Raises:
        CheckpointStorageError: Storage could not be read.
    """
    found = store.storage.list_files(_DIRECTORY)
    if not found:
        return submitted
    path = max(found, key=_place)
    try:
        record = json.loads(store.storage.read(path))
        if record["submitted"] != parallelism_of(submitted):
            return submitted
        return rescaled(submitted, record["current"])
    except (ValueError, KeyError) as error:
        if isinstance(error, RescaleError):
            return submitted
        raise CheckpointStorageError(
            f"{store.storage.uri}/{path} is damaged ({error}); remove it to start the job with the "
            f"parallelism that its program has"
        ) from error


def _place(path: str) -> tuple[int, int]:
    epoch, _, number = path.rpartition("/")[2].partition("-")
    return int(epoch), int(number)
