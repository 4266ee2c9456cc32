"""Completed checkpoints of one job in checkpoint storage.

Layout below the job's directory:

    epochs/<n>           claimed by the n-th coordinator of the job, or by a job that starts from a
                         checkpoint of this one (ADR 063), create-if-absent
    continued/<job id>   a job that started from a checkpoint of this one has completed one of its own,
                         or removes that one, which it claimed
    ids/<n>              ids up to n may have been given; holds the epoch of who may give the last of them
    accepted/<n>         which checkpoints of earlier coordinators the n-th one found, see ADR 009
    completed/<n>        the newest checkpoint that the n-th coordinator completed, see ADR 059
    chk-<id>/MANIFEST    written last; its presence means the checkpoint exists
    shared/<uid>/…       files of state, referred to by manifests (small ones are in the manifests)

Nothing that a manifest refers to is ever deleted: every file is classified first, deleted after. What is
named otherwise is not the job's: it is ignored and stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from ...common import failpoints
from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.checkpoint_paths import check_place, manifest_path, numbers, stored_ids
from ...protocol.checkpoints.handles import FileHandle
from ...protocol.checkpoints.manifest import CheckpointManifest, decode_manifest, encode_manifest
from ...protocol.checkpoints.registry import SharedStateRegistry
from ...protocol.checkpoints.restorers import Restorers, RestoringJob
from ...protocol.checkpoints.takeover import Completion, counts
from ...protocol.ids import CheckpointId, JobId, SubtaskId
from ...protocol.job_takeover import TakeoverStep
from ...state.storage.checkpoint_storage import CheckpointStorage
from ..restore.claim_mode import ClaimedCheckpoint
from ..takeover_execution import TakeoverExecution
from .coordinator_epochs import Epochs, check_not_restored
from .id_blocks import IdBlocks
from .job_directory import delete_files, own_paths, remove_directory, remove_rest
from .takeover_records import TakeoverRecords, incomplete


class FencedError(CheckpointStorageError):
    """Another coordinator of the same job has taken over; this one must stop."""


@dataclass(frozen=True)
class Garbage:
    """What nobody needs any more. The manifests go first: one with missing files must not seem to exist."""

    manifests: tuple[str, ...]
    files: tuple[str, ...]
    claimed: ClaimedCheckpoint | None = None
    """What the job was started from, if it owns that and needs it no more."""
    checkpoint_count: int = 0
    """Of how many checkpoints this is all, without those that were tried to delete before."""


class CheckpointStore:
    """The completed checkpoints of one job, newest last.

    All methods but `delete` belong to the coordinator's thread.

    Args:
        storage: The job's own directory.
        job_id: The job.
        num_retained: How many completed checkpoints to keep.
        deleting_threads: How many files are deleted at a time.
    """

    def __init__(
        self, storage: CheckpointStorage, job_id: JobId, num_retained: int, deleting_threads: int = 1
    ) -> None:
        self._storage = storage
        self.job_id = job_id
        self._takeovers = TakeoverRecords(storage, job_id)
        self._num_retained = num_retained
        self._deleting_threads = deleting_threads
        self._retained: dict[CheckpointId, CheckpointManifest] = {}
        self._uncertain: dict[CheckpointId, CheckpointManifest] = {}
        self._registry = SharedStateRegistry()
        self._not_deleted: deque[Garbage] = deque()
        self._condemned: set[str] = set()
        self._aborted_count = 0
        self._ids = IdBlocks(storage, job_id, self._takeovers)
        self._claimed: ClaimedCheckpoint | None = None
        self._needed: set[str] = set()
        self._is_removing = self._is_removed = False
        self._epochs = Epochs(storage, job_id)
        self.epoch = 0
        self.restorers: Restorers = ()
        """The jobs that had started from a checkpoint of this one when it was claimed."""
        self.before_first: Callable[[], None] = lambda: None
        """Called before the first checkpoint of the job comes to exist."""
        self.fenced = ""
        """Why this coordinator is fenced, once that is known; empty until then."""
        self.has_successor = False
        """Whether it is fenced by a newer claim, and not because everything of the job is gone."""

    @property
    def storage(self) -> CheckpointStorage:
        """The job's directory."""
        return self._storage

    @property
    def probe(self) -> str:
        """A file of this coordinator, for the tasks to see that they share its directory."""
        return f"epochs/{self.epoch}"

    # ------------------------------------------------------------ taking over

    def claim(self, restoring: RestoringJob | None = None, ignores_damage: bool = False) -> int:
        """Become the job's coordinator, or end the job; returns the epoch, higher than any before.

        Args:
            restoring: The job that ends this one, as it starts from a checkpoint of it.
            ignores_damage: See `Epochs.claim`.
        """
        self.epoch, self.restorers = self._epochs.claim(restoring, ignores_damage)
        return self.epoch

    @property
    def is_new(self) -> bool:
        """Whether no coordinator of this job may have given an id yet."""
        return not self._storage.list_files("ids") and not self.stored_ids()

    def give_ids_above(self, checkpoint_id: int) -> None:
        """The job starts from the checkpoint of another one: its ids go on from there, as in Flink.

        Functions may keep what they are to commit by checkpoint id, and commit all up to a completed one.
        """
        self._ids.above = checkpoint_id

    def first_free_id(self) -> int:
        """An id above every one that any coordinator of this job may have given."""
        return self._ids.first_free(self.epoch)

    def reserve(self, checkpoint_id: int) -> None:
        """Make durable that ids up to at least `checkpoint_id` are used.

        Raises:
            FencedError: Another coordinator gives these ids.
        """
        if not self._ids.reserve(checkpoint_id, self.epoch):
            raise self._fence(f"the coordinator of epoch {self.epoch} is fenced: its ids are taken")

    def load(self) -> CheckpointManifest | None:
        """Read all completed checkpoints, record which ones count, and return the newest.

        A damaged newest checkpoint is an error and not a step back: sinks may have committed it. A
        damaged older one is an error too, since what it refers to could not be told from orphans.

        Raises:
            CorruptCheckpointError: A manifest is damaged, the newest one is missing, or a record of which
                checkpoints there are is damaged.
            RestoredElsewhereError: Another job has started from a checkpoint of this one.
            FencedError: Another coordinator took over in the meantime.
        """
        check_not_restored(self.restorers)
        self.accept(self._read_manifest)
        return self.newest

    def accept(self, read: Callable[[CheckpointId], None] = lambda checkpoint_id: None) -> list[CheckpointId]:
        """Record which checkpoints of the coordinators before this one count; returns them, oldest first.

        Args:
            read: Called for each before it is recorded.

        Raises:
            CorruptCheckpointError: The newest one is missing, or a record of which there are is damaged.
            FencedError: Another coordinator took over in the meantime.
        """
        takeover = TakeoverExecution(
            self._storage, self._takeovers, self.epoch, self.first_free_id, read, self.check_fence
        ).perform()
        if takeover.loss is not None:
            left = takeover.loss.newest_left
            newest_left = "none" if left is None else self.directory_of(left)
            raise incomplete(f"{self._storage.uri}/{takeover.loss.path}", self.job_id, newest_left)
        if takeover.state is TakeoverStep.FENCED:
            raise self._fence(f"accepted/{self.epoch} exists already: the job is claimed twice")
        return takeover.accepted

    def _read_manifest(self, checkpoint_id: CheckpointId) -> None:
        path = manifest_path(checkpoint_id)
        place = f"{self._storage.uri}/{path}"
        manifest = decode_manifest(self._storage.read(path), place)
        check_place(manifest, place, checkpoint_id, self.job_id)
        self._registry.register_checkpoint(checkpoint_id, own_paths(manifest.files()))
        self._retained[checkpoint_id] = manifest

    # ------------------------------------------------------------ completed checkpoints

    @property
    def newest(self) -> CheckpointManifest | None:
        """The newest completed checkpoint."""
        return self._retained[max(self._retained)] if self._retained else None

    @property
    def retained(self) -> list[CheckpointManifest]:
        """The retained checkpoints, oldest first."""
        return [self._retained[checkpoint_id] for checkpoint_id in sorted(self._retained)]

    def needs(self, directory: str) -> None:
        """A directory without whose files later coordinators must not resume the job."""
        self._needed.add(directory)

    def directory_of(self, checkpoint_id: CheckpointId) -> str:
        """Address of a checkpoint, as `execution.state-recovery.path` takes it."""
        return f"{self._storage.uri.rstrip('/')}/chk-{checkpoint_id}"

    def complete(self, manifest: CheckpointManifest) -> None:
        """Make a checkpoint exist.

        Raises:
            FencedError: Another coordinator took over; nobody may be told of this checkpoint.
            CheckpointStorageError: The manifest could not be written, or nobody knows whether it was.
        """
        checkpoint_id, data = manifest.checkpoint_id, encode_manifest(manifest)
        path = manifest_path(checkpoint_id)
        self._registry.register_checkpoint(checkpoint_id, own_paths(manifest.files()))
        # Until storage has answered, the manifest may exist, and its files must.
        self._uncertain[checkpoint_id] = manifest
        if not self._retained:
            self.before_first()
        written = bytes(failpoints.passing("before_manifest", data))
        if not self._storage.create_exclusive(path, written):
            raise self._fence(f"{path} exists already: another coordinator completed it")
        failpoints.reach("after_manifest")
        # After the manifest, never before: a newer coordinator claims first and looks for manifests then,
        # so either it finds this one, or its claim is found here.
        try:
            self.check_fence()
        except FencedError:
            with suppress(CheckpointStorageError):
                self._withdraw(checkpoint_id)
            raise
        # After the fence: what is recorded counts for every later coordinator. Before the checkpoint is
        # announced: what sinks commit must be recorded in a second place.
        self._record_completed(checkpoint_id)
        self._retained[checkpoint_id] = self._uncertain.pop(checkpoint_id)

    def _record_completed(self, checkpoint_id: CheckpointId) -> None:
        needs = frozenset(self._needed)
        self._takeovers.record_completed(Completion(self.epoch, checkpoint_id, needs))

    def resolve_uncertain(self) -> None:
        """Find out which failed checkpoints exist after all, before the job goes back to the newest one.

        Otherwise a later coordinator might find one whose transactions have been thrown away since.

        Raises:
            FencedError: Another coordinator took over; it judges by itself.
            CheckpointStorageError: Storage refuses; nothing has changed.
        """
        if not self._uncertain:
            return
        stored = set(self.stored_ids())
        # After the list, as in `complete`: a newer coordinator that is not there yet will find them too.
        self.check_fence()
        found = stored.intersection(self._uncertain)
        if found:
            self._record_completed(max(found))
        for checkpoint_id, manifest in self._uncertain.items():
            if checkpoint_id in stored:
                self._retained[checkpoint_id] = manifest
            else:
                self._registry.release_checkpoint(checkpoint_id)
        self._uncertain.clear()

    def _withdraw(self, checkpoint_id: CheckpointId) -> None:
        """Remove a manifest of our own that came too late, if it is certain that it did."""
        if not self._storage.list_files("epochs"):
            # The job has ended, and everything else of it is removed.
            self._storage.delete([manifest_path(checkpoint_id)])
            return
        takeover = self._takeovers.find(self.epoch + 1)
        if takeover is None or counts(checkpoint_id, [takeover]):
            return
        # A coordinator that claimed before it could see that record may judge otherwise.
        if max(numbers(self._storage.list_files("epochs")), default=0) == takeover.epoch:
            self._storage.delete([manifest_path(checkpoint_id)])

    def check_fence(self, retries: bool = True) -> None:
        """Raise `FencedError` if another coordinator has claimed the job, and perhaps ended it since."""
        found = numbers((self._storage if retries else self._storage.unretried).list_files("epochs"))
        if not found:
            # The job has ended and is removed, perhaps before this coordinator recorded its last checkpoint.
            self._takeovers.forget_completed(self.epoch)
        newest = max(found, default=0)
        if self.epoch not in found or newest > self.epoch:
            cause = f"coordinator of epoch {self.epoch} is fenced: {self._epochs.claimant(newest)}"
            raise self._fence(cause, has_successor=newest > self.epoch)

    def _fence(self, cause: str, has_successor: bool = True) -> FencedError:
        # Kept: callers that only warn of errors of storage would otherwise continue. Where this coordinator
        # itself removes its epoch, a deletion in another thread no longer finds it.
        if not self._is_removing:
            self.fenced, self.has_successor = cause, has_successor
        return FencedError(cause)

    def owns(self, claimed: ClaimedCheckpoint | None) -> None:
        """The job was started from this, if anything, and removes it as the oldest of its checkpoints."""
        self._claimed = claimed

    # ------------------------------------------------------------ files of acknowledgements

    def register_acknowledgement(
        self, subtask: SubtaskId, checkpoint_id: CheckpointId, files: Iterable[FileHandle], is_pending: bool
    ) -> None:
        """A subtask stored these files; its next acknowledgement may refer to them again.

        Args:
            is_pending: Whether the checkpoint is under way, so that it needs them too.
        """
        paths = own_paths(files)
        if is_pending:
            self._registry.register_checkpoint(checkpoint_id, paths)
        self._registry.register_subtask(subtask, checkpoint_id, paths)

    def discard_files(self, files: Iterable[FileHandle]) -> None:
        """Files of an acknowledgement that is not of the current attempt."""
        self._registry.discard(own_paths(files))

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint will not complete: it needs its files no more, unless its manifest may exist."""
        if checkpoint_id not in self._uncertain:
            self._registry.release_checkpoint(checkpoint_id)
            self._aborted_count += self._registry.has_unreferenced

    def is_uncertain(self, checkpoint_id: CheckpointId) -> bool:
        """Whether nobody knows if the manifest of a checkpoint was written."""
        return checkpoint_id in self._uncertain

    def release(self, checkpoint_id: CheckpointId) -> None:
        """A savepoint is complete: it has copies of the files that it needed until now."""
        self._registry.release_checkpoint(checkpoint_id)

    # ------------------------------------------------------------ deletion

    @property
    def excess_count(self) -> int:
        """How many checkpoints `take_garbage` would take."""
        return len(self._excess()) + self._aborted_count

    def _excess(self) -> list[CheckpointId]:
        newest = max(self._retained, default=CheckpointId(0))
        excess = sorted(self._retained)[: -self._num_retained]
        return excess + sorted(uncertain for uncertain in self._uncertain if uncertain < newest)

    def _condemn_excess(self) -> list[str]:
        """Let go of checkpoints beyond the number to keep; their manifests are still to be deleted."""
        excess = self._excess()
        for checkpoint_id in excess:
            self._retained.pop(checkpoint_id, None)
            self._uncertain.pop(checkpoint_id, None)
            self._registry.release_checkpoint(checkpoint_id)
        manifests = [manifest_path(checkpoint_id) for checkpoint_id in excess]
        self._condemned.update(manifests)
        return manifests

    def take_garbage(self) -> Garbage | None:
        """Classify what nobody needs any more: checkpoints beyond the number to keep, and files.

        Returns:
            What `delete` is to remove, which may happen in another thread; `None` if there is nothing.
        """
        manifests = self._condemn_excess()
        count, self._aborted_count = len(manifests) + self._aborted_count, 0
        claimed = self._claimed if len(self._retained) >= self._num_retained else None
        files = self._registry.take_unreferenced()
        while self._not_deleted:
            again = self._not_deleted.popleft()
            manifests += again.manifests
            files += again.files
        garbage = Garbage(tuple(manifests), tuple(files), claimed, count)
        return garbage if manifests or files or claimed else None

    def delete(self, garbage: Garbage) -> None:
        """Remove what was classified; what cannot be removed is taken again the next time.

        Raises:
            FencedError: Another coordinator or job took over, and may need these files.
        """
        self.check_fence()
        try:
            failpoints.reach("cleanup")
            delete_files(self._storage, self._deleting_threads, garbage.manifests)
            self._condemned.difference_update(garbage.manifests)
            delete_files(self._storage, self._deleting_threads, garbage.files)
            if garbage.claimed is not None:
                garbage.claimed.remove()
                self._claimed = None
        except CheckpointStorageError:
            self._not_deleted.append(garbage)
            raise

    def remove_orphans(self) -> list[str]:
        """Delete what no checkpoint needs, now that the job has ended, and checkpoints beyond those to keep.

        Returns:
            The files of state among it.

        Raises:
            FencedError: Another coordinator took over, and its tasks may have written files.
        """
        check_not_restored(self.restorers)
        self._condemn_excess()
        # A coordinator that was replaced may have written more since this one looked: they do not count, and
        # nobody will look again.
        known = {*self._retained, *self._uncertain}
        late = {manifest_path(each) for each in self.stored_ids() if each not in known}
        garbage = self._orphans()
        delete_files(self._storage, self._deleting_threads, sorted(late.union(garbage.manifests)))
        delete_files(self._storage, self._deleting_threads, garbage.files)
        if self._claimed is not None and len(self._retained) >= self._num_retained:
            self._claimed.remove()
        return list(garbage.files)

    def find_orphans(self) -> None:
        """Classify files of state that no checkpoint refers to as garbage; only while no task runs.

        They may be deleted when tasks run again: names of files hold the attempt, so none comes back.

        Raises:
            FencedError: Another coordinator took over, and its tasks may have written files.
        """
        garbage = self._orphans()
        if garbage.files:
            self._not_deleted.append(garbage)

    def _orphans(self) -> Garbage:
        self._registry.forget_subtasks()
        self._registry.take_unreferenced()
        found = self._storage.list_files("shared")
        unfinished = self._storage.list_unfinished("shared")
        # After the list, never before: what is in the list was there before anybody else claimed.
        self.check_fence()
        orphans = [path for path in found if not self._registry.is_referenced(path)] + unfinished
        # Classified, but perhaps not deleted yet: a manifest must never outlive its files.
        return Garbage(tuple(sorted(self._condemned.copy())), tuple(orphans))

    def remove_all(self) -> None:
        """Delete everything of this job; for jobs that do not keep their checkpoints.

        Raises:
            FencedError: Another coordinator took over, and everything is its own.
        """
        check_not_restored(self.restorers)
        remove_directory(self._storage, self._deleting_threads, self._begin_removal)
        self._is_removed = True
        self._retained.clear()
        if self._claimed is not None:
            self._claimed.remove()

    def _begin_removal(self) -> None:
        self.check_fence()
        self._is_removing = True

    def sweep(self, keep_checkpoints: bool) -> None:
        """All processes of the job have ended: remove what they wrote since the job ended.

        Raises:
            FencedError: Another coordinator took over.
        """
        if keep_checkpoints:
            self.remove_orphans()
        elif self._is_removed:
            remove_rest(self._storage)
        else:
            # It was tried when the job ended, and storage refused.
            self.remove_all()

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        self._registry.validate()
        for manifest in self._retained.values():
            for path in own_paths(manifest.files()):
                assert self._registry.is_referenced(path), f"{path} of a retained checkpoint is not"

    def stored_ids(self) -> list[CheckpointId]:
        """Ids of all checkpoints that have a manifest, whether they count or not, oldest first."""
        return stored_ids(self._storage.list_files(""))
