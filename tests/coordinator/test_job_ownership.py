"""Whether a coordinator owns its job, and what it then does with the job's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.coordinator.checkpoints.ownership import RETRY_MS
from tidegate.coordinator.job_ownership import JobOwnership
from tidegate.coordinator.spec import JobSpec
from tidegate.protocol.checkpoints.trigger import NEVER_MS
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import job_spec


class Owner:
    """One coordinator's ownership, with what it reported."""

    def __init__(
        self,
        storage: MemoryCheckpointStorage,
        spec: JobSpec | None = None,
        is_current: Callable[[], bool | None] = lambda: True,
    ) -> None:
        self.superseded: list[str] = []
        self.reported: list[Any] = []
        self.time_ms = 1_000
        self.ownership = JobOwnership(
            spec or job_spec(),
            storage,
            lambda: self.time_ms,
            self.superseded.append,
            is_current,
            self.reported.append,
            self.reported.append,
        )


def test_each_claim_supersedes_the_one_before() -> None:
    storage = MemoryCheckpointStorage()
    first, second = Owner(storage), Owner(storage)
    assert first.ownership.store is None
    assert first.ownership.claim() == 0
    assert first.ownership.may_act(is_final=True)
    assert second.ownership.claim() == 1
    first.time_ms += job_spec().settings.lease_ms + 1
    assert not first.ownership.may_act(is_final=True)
    assert len(first.superseded) == 1
    assert first.ownership.is_superseded
    assert second.ownership.may_act(is_final=True)
    assert not second.superseded


def test_a_job_without_checkpoints_has_no_other_owner() -> None:
    owner = Owner(MemoryCheckpointStorage(), job_spec(trigger=None, checkpoint_dir=None))
    assert owner.ownership.claim() == 0
    assert owner.ownership.store is None
    assert owner.ownership.may_act(is_final=True)
    assert owner.ownership.stopped_with == ""


def test_the_end_is_tried_again_while_the_shell_does_not_answer() -> None:
    answers: list[bool | None] = [None, True]
    owner = Owner(MemoryCheckpointStorage(), is_current=lambda: answers.pop(0))
    owner.ownership.claim()
    assert not owner.ownership.may_end()
    assert owner.ownership.next_due_ms() == owner.time_ms + RETRY_MS
    assert owner.ownership.may_end()
    assert owner.ownership.next_due_ms() == NEVER_MS


def test_a_fenced_job_may_end_but_a_sweep_leaves_its_files() -> None:
    storage = MemoryCheckpointStorage()
    owner = Owner(storage)
    owner.ownership.claim()
    owner.ownership.is_fenced = True
    assert owner.ownership.may_end()
    owner.ownership.sweep()
    assert storage.sub("job").list_files("")


def test_what_is_to_be_removed_is_announced_before() -> None:
    storage = MemoryCheckpointStorage()
    owner = Owner(storage)
    owner.ownership.claim()
    owner.ownership.clean_up(keep_checkpoints=False)
    assert owner.reported == [False]
    assert storage.sub("job").list_files("") == []
