"""Several coordinators of one job at once, in every order of their storage operations (ADR 009, ADR 059).

Each coordinator runs in a thread of its own and waits before each storage operation until it is told to
go on, so one run is one interleaving. Nothing here depends on how fast a thread is.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest
from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore, FencedError
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import keyed_snapshot

OPERATIONS = 24
"""At least as many as a takeover, or the fence of a restore, needs."""


CLAIMED, RECORDED = 4, 16
"""After how many operations a takeover has claimed its epoch, and at most recorded what it found."""


class Party:
    """Runs `work` one storage operation at a time."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._go: queue.Queue[None] = queue.Queue()
        self._stopped: queue.Queue[BaseException | None] = queue.Queue()
        self._work = work
        self.is_over = False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._go.get()
        error: BaseException | None = None
        try:
            self._work()
        except BaseException as raised:
            error = raised
        self.is_over = True
        self._stopped.put(error)

    def before_operation(self) -> None:
        self._stopped.put(None)
        self._go.get()

    def steps(self, count: int) -> None:
        """Perform up to so many operations."""
        for _ in range(count):
            self.step()

    def step(self) -> None:
        """Perform the operation it waits for, and go on to the next one."""
        if not self.is_over:
            self._go.put(None)
            error = self._stopped.get()
            if error is not None:
                raise error

    def finish(self) -> None:
        while not self.is_over:
            self.step()


class SteppedStorage(MemoryCheckpointStorage):
    """Stops before each operation once it belongs to a party."""

    party: Party | None = None

    def _step(self) -> None:
        if self.party is not None:
            self.party.before_operation()

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._step()
        return super().create_exclusive(path, data)

    def list_files(self, prefix: str) -> list[str]:
        self._step()
        return super().list_files(prefix)

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        self._step()
        return super().write_file(path, data)

    def read(self, path: str) -> bytes:
        # Other files never change, so a read of them may as well come right after the list that names them.
        if path.startswith("completed/"):
            self._step()
        return super().read(path)

    def delete(self, paths: Iterable[str]) -> None:
        self._step()
        super().delete(paths)


class Job:
    """The storage of one job with checkpoint 1 complete, and its coordinator of epoch 1."""

    def __init__(self) -> None:
        self.storage = MemoryCheckpointStorage()
        self.old_storage, self.new_storage = (
            SteppedStorage(self.storage.uri.removeprefix("memory://")) for _ in range(2)
        )
        self.old = CheckpointStore(self.old_storage, JobId("job"), 1)
        self.old.claim()
        self.old.load()
        self.old.complete(self.manifest(1))
        self.new = CheckpointStore(self.new_storage, JobId("job"), 1)
        self.found: int | None = None

    def manifest(self, checkpoint_id: int) -> CheckpointManifest:
        """A checkpoint with a file of its own, which is written by a task."""
        file = self.storage.write_file(f"shared/op/{checkpoint_id}", str(checkpoint_id).encode())
        return manifest(checkpoint_id, file)

    def take_over(self) -> None:
        self.new.claim()
        newest = self.new.load()
        self.found = None if newest is None else newest.checkpoint_id
        self.new.remove_orphans()

    def interleave(self, zombie_work: Callable[[], None], steps: Iterable[int]) -> None:
        """`steps`: after how many operations of the takeover each operation of the zombie comes."""
        zombie, taker = Party(zombie_work), Party(self.take_over)
        self.old_storage.party, self.new_storage.party = zombie, taker
        zombie.step()
        taker.step()
        done = 0
        for position in steps:
            for _ in range(position - done):
                taker.step()
            done = max(done, position)
            zombie.step()
        taker.finish()
        zombie.finish()
        self.old_storage.party = self.new_storage.party = None

    def third(self) -> CheckpointStore:
        """A third coordinator, after everything; what it restores from is whole."""
        opened = CheckpointStore(self.storage, JobId("job"), 1)
        opened.claim()
        newest = opened.load()
        assert newest is not None
        for handle in newest.files():
            self.storage.read_file(handle)
        return opened


def manifest(checkpoint_id: int, file: FileHandle) -> CheckpointManifest:
    snapshot = keyed_snapshot(file, KeyGroupRange(0, 127))
    operators = {"totals": OperatorManifest("totals", "Totals", 128, (snapshot,))}
    kind = SnapshotKind.CHECKPOINT
    return CheckpointManifest("job", "flights", CheckpointId(checkpoint_id), kind, 1, 2, operators)


def positions(count: int) -> Iterator[tuple[int, ...]]:
    return itertools.combinations_with_replacement(range(OPERATIONS), count)


@pytest.mark.slow
def test_a_checkpoint_of_a_zombie_is_found_by_its_successor_or_never_announced() -> None:
    outcomes = set()
    for steps in positions(3):
        job = Job()
        late = job.manifest(2)
        announced = []

        def complete(
            job: Job = job, late: CheckpointManifest = late, announced: list[int] = announced
        ) -> None:
            try:
                job.old.complete(late)
            except FencedError:
                return
            announced.append(2)

        job.interleave(complete, steps)
        outcomes.add((bool(announced), job.found))
        assert job.found == 2 or not announced, f"{steps}: committed, but the job goes on from 1"
        newest = job.third().newest
        assert newest is not None
        assert newest.checkpoint_id == job.found, f"{steps}: the third one starts from elsewhere"
    assert outcomes == {(True, 2), (False, 2), (False, 1)}, "some order was not tried"


def test_no_id_is_given_by_two_coordinators() -> None:
    for steps in positions(2):
        job = Job()
        reserved = []

        def reserve(job: Job = job, reserved: list[int] = reserved) -> None:
            try:
                job.old.reserve(257)
            except FencedError:
                return
            reserved.append(512)

        job.interleave(reserve, steps)
        assert job.new.first_free_id() > max(reserved, default=256)


def test_a_zombie_deletes_nothing_of_its_successor() -> None:
    for steps in positions(2):
        job = Job()

        def remove_orphans(job: Job = job) -> None:
            try:
                job.old.remove_orphans()
            except FencedError:
                return

        original = job.take_over

        def take_over_and_run(job: Job = job, original: Callable[[], None] = original) -> None:
            original()
            job.new.complete(job.manifest(job.new.first_free_id()))

        job.take_over = take_over_and_run  # type: ignore[method-assign]
        job.interleave(remove_orphans, steps)
        newest = job.third().newest
        assert newest is not None
        assert newest.checkpoint_id == 257


def test_a_zombie_that_ends_its_job_leaves_the_successors_files_alone() -> None:
    job = Job()
    job.take_over()
    before = job.storage.list_files("")
    for remove in (job.old.remove_all, job.old.remove_orphans):
        with pytest.raises(FencedError, match="epoch 1 is fenced"):
            remove()
    assert job.storage.list_files("") == before


def test_a_late_manifest_is_withdrawn_when_the_takeover_is_decided() -> None:
    job = Job()
    job.take_over()
    with pytest.raises(FencedError):
        job.old.complete(job.manifest(2))
    assert job.storage.list_files("chk-2") == []


def test_every_order_is_tried() -> None:
    job = Job()
    taker = Party(job.take_over)
    job.new_storage.party = taker
    taker.step()
    taker.steps(OPERATIONS)
    assert taker.is_over, "a takeover has more operations than there are positions"


def test_a_coordinator_that_dies_in_a_completion_leaves_a_job_that_can_be_resumed() -> None:
    """After any of its operations: the manifest comes before the record of it."""
    found = []
    for operations in range(5):
        job = Job()
        dying = Party(lambda job=job: job.old.complete(job.manifest(2)))  # type: ignore[misc]
        job.old_storage.party = dying
        dying.steps(operations)
        job.take_over()
        found.append(job.found)
    assert found == [1, 1, 2, 2, 2]


class Three:
    """A coordinator that completes checkpoint 2, its successor, and the successor of that."""

    def __init__(self) -> None:
        self.job = Job()
        self.late = self.job.manifest(2)
        self.restored: dict[int, int | None] = {}
        """What each takeover that was not fenced restored, by its epoch."""
        self.announced = False
        storages = [self.job.old_storage, self.job.new_storage, SteppedStorage(self.job.new_storage.uri[9:])]
        works = [self._complete, lambda: self._take_over(storages[1]), lambda: self._take_over(storages[2])]
        self.parties = [Party(work) for work in works]
        for storage, party in zip(storages, self.parties, strict=True):
            storage.party = party
            party.step()

    def _complete(self) -> None:
        try:
            self.job.old.complete(self.late)
        except FencedError:
            return
        self.announced = True

    def _take_over(self, storage: SteppedStorage) -> None:
        store = CheckpointStore(storage, JobId("job"), 1)
        epoch = store.claim()
        try:
            newest = store.load()
        except FencedError:
            return
        self.restored[epoch] = None if newest is None else newest.checkpoint_id

    def run(self, first: int, second: int, late: tuple[int, ...]) -> None:
        """The first takeover pauses after so many operations, the second starts and pauses, and so on.

        Args:
            late: After which of these parts come the manifest of the completion, the look, and the rest.
        """
        zombie, one, two = self.parties
        parts = (lambda: one.steps(first), lambda: two.steps(second), one.finish, two.finish)
        for number, part in enumerate(parts):
            part()
            for after, operations in zip(late, (1, 3, OPERATIONS), strict=True):
                if after == number:
                    zombie.steps(operations)


@pytest.mark.slow
def test_of_three_coordinators_all_that_restore_agree_which_checkpoint_is_the_newest() -> None:
    outcomes = set()
    for first, second in itertools.product(range(CLAIMED - 1, RECORDED), range(CLAIMED, RECORDED)):
        for late in itertools.combinations_with_replacement(range(4), 3):
            three = Three()
            three.run(first, second, late)
            newest = three.job.third().newest
            assert newest is not None
            outcomes.add((three.announced, newest.checkpoint_id))
            used = {*three.restored.values(), *([2] if three.announced else [])}
            assert used <= {newest.checkpoint_id}, f"{first}, {second}, {late}: {used} were used"
    assert outcomes == {(True, 2), (False, 2), (False, 1)}, "some order was not tried"
