"""The parallelism that a job was rescaled to, in its directory of checkpoint storage.

    parallelism/<epoch>-<n>   the n-th that the coordinator of an epoch wrote, create-if-absent

The newest of the newest epoch counts: what a coordinator writes that was replaced is not read by those who
have written since. A checkpoint fits any parallelism, so this needs no other bond with it.
"""

from __future__ import annotations

import re

from ...common import failpoints
from ...protocol.checkpoints.control_file import decode_control_file, encode_control_file, old_json
from ...protocol.checkpoints.json_fields import Fields
from ...protocol.scheduling.plan import JobGraph
from ...protocol.scheduling.rescaling import RescaleError, parallelism_of, rescaled
from ...state.storage.checkpoint_storage import CheckpointStorage
from .checkpoint_store import CheckpointStore

_DIRECTORY = "parallelism"
_PLACE = re.compile(r"([1-9][0-9]{0,17})-([1-9][0-9]{0,17})")
_OLD_RECORD = old_json("submitted", "current")
_REMEDY = "Delete the file to run the job with the parallelism that its program has"


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
    before = [path for path, (epoch, _) in _places(storage).items() if epoch <= store.epoch]
    number = max((n for epoch, n in _places(storage).values() if epoch == store.epoch), default=0) + 1
    name = f"{store.epoch}-{number}"
    data = encode_control_file(_DIRECTORY, {"job_id": store.job_id, "name": name}, record)
    storage.create_exclusive(f"{_DIRECTORY}/{name}", data)
    store.needs(_DIRECTORY)
    store.check_fence()
    storage.delete(before)
    failpoints.reach("rescale_done")


def restored_parallelism(store: CheckpointStore, submitted: JobGraph) -> JobGraph:
    """The job as it ran last; as the program has it, where the program was changed since.

    Raises:
        CorruptCheckpointError: The record is damaged.
        CheckpointStorageError: Storage could not be read.
    """
    places = _places(store.storage)
    if not places:
        return submitted
    store.needs(_DIRECTORY)
    newest = max(places, key=lambda path: places[path])
    record = _read(store, newest)
    if record.plain("submitted") != parallelism_of(submitted):
        return submitted
    current = record.child("current")
    try:
        return rescaled(submitted, {uid: current.integer(uid) for uid in record.plain("current")})
    except RescaleError:
        return submitted


def _read(store: CheckpointStore, path: str) -> Fields:
    name, address = path.rpartition("/")[2], f"{store.storage.uri.rstrip('/')}/{path}"
    identity = {"job_id": store.job_id, "name": name}
    data = store.storage.read(path)
    file = decode_control_file(data, address, _DIRECTORY, identity, _REMEDY, _OLD_RECORD)
    return Fields(file.document, address, "")


def _places(storage: CheckpointStorage) -> dict[str, tuple[int, int]]:
    """The epoch and the number of each record, by its path; files with other names are left out."""
    found = {path: _PLACE.fullmatch(path.rpartition("/")[2]) for path in storage.list_files(_DIRECTORY)}
    return {path: (int(match[1]), int(match[2])) for path, match in found.items() if match is not None}
