"""The records of claims: what earlier releases wrote, damage, and which restorers are kept."""

from __future__ import annotations

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.coordinator.checkpoints.coordinator_epochs import Epochs
from tidegate.protocol.checkpoints.restorers import RestoringJob, StoredJob, histories, with_restorer
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .test_restore_fence import Root

A, B, C = (RestoringJob(name, f"memory://root/{name}") for name in "abc")


@pytest.mark.parametrize("content", [b"", b"0123456789abcdef0123456789abcdef"])
def test_a_claim_of_an_earlier_release_names_no_job(content: bytes) -> None:
    storage = MemoryCheckpointStorage()
    storage.write_file("epochs/1", content)
    epochs = Epochs(storage, "job")
    assert epochs.restorers(1) == ()
    assert epochs.claim(A) == (2, ())
    assert epochs.claim(None) == (3, (A,))
    assert epochs.restorers(3) == (A,)


def test_damage_stops_a_search_for_the_latest_but_not_a_restore_by_name() -> None:
    root = Root()
    old = root.start("old")
    old.checkpoint()
    path = f"old/epochs/{Epochs(root.storage.sub('old'), 'old').newest}"
    data = root.storage.read(path)
    root.storage.write_file(path, data.replace(b"token", b"tokem", 1))
    with pytest.raises(CorruptCheckpointError, match=f"{path} is damaged"):
        root.start("new", root.latest)
    assert root.start("new", f"{old.directory}/chk-1").restored_id == 1
    old.checkpoint()
    assert old.committed() == [1]


def test_restorers_before_the_last_one_that_continued_are_left_out() -> None:
    assert with_restorer((), A, set()) == (A,)
    assert with_restorer((A, B), C, set()) == (A, B, C)
    assert with_restorer((A, B), C, {"b"}) == (B, C)
    assert with_restorer((A, B), A, {"b"}) == (B, A)


def test_a_history_begins_with_the_job_that_no_other_one_names() -> None:
    jobs = {each.directory: StoredJob(frozenset()) for each in (A, B, C)}
    jobs[A.directory] = StoredJob(frozenset(), (B,))
    assert histories(jobs) == [(A.directory,), (C.directory,)]


def test_jobs_that_one_job_ended_begin_one_history() -> None:
    jobs = {each.directory: StoredJob(frozenset(), (C,)) for each in (A, B)}
    assert histories(jobs) == [(A.directory, B.directory)]
    # C took no checkpoints: its jobs have nothing in common.
    aside = StoredJob(frozenset(), (RestoringJob("c", ""),))
    assert histories({A.directory: aside, B.directory: aside}) == [(A.directory,), (B.directory,)]


def test_a_job_that_was_restored_into_another_place_is_not_followed() -> None:
    """What a record names may be any address; only directories next to it are opened."""
    root = Root()
    old = root.start("old")
    old.checkpoint()
    Epochs(root.storage.sub("old"), "old").claim(RestoringJob("moved", "file:///elsewhere/moved"))
    with pytest.raises(CheckpointStorageError, match=r"in another place.*latest:file:///elsewhere/moved"):
        root.start("new", root.latest)
