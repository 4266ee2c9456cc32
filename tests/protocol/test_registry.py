"""Who refers to a file: the registry against a model that keeps every list and compares them all."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tidegate.protocol.checkpoints.registry import SharedStateRegistry
from tidegate.protocol.ids import CheckpointId, SubtaskId

SUBTASKS = [SubtaskId("a", 0), SubtaskId("a", 1)]
KEPT = 2


class RegistryModel(RuleBasedStateMachine):
    """Subtasks with growing and compacted logs; their checkpoints complete, are aborted, or are late."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = SharedStateRegistry()
        self.restart()
        self.file_count = 0
        self.pending: dict[int, dict[SubtaskId, set[str]]] = {}
        self.completed: dict[int, set[str]] = {}
        self.newest_id = 0
        self.exist: set[str] = set()
        """Files in storage that an acknowledgement has named."""

    def restart(self) -> None:
        self.logs: dict[SubtaskId, list[str]] = {subtask: [] for subtask in SUBTASKS}
        self.named: dict[SubtaskId, set[str]] = {subtask: set() for subtask in SUBTASKS}
        self.sent: list[tuple[SubtaskId, int, set[str]]] = []
        """Acknowledgements under way; those of one subtask arrive in their order."""

    @rule()
    def trigger(self) -> None:
        self.newest_id += 1
        self.pending[self.newest_id] = {}

    @precondition(lambda self: self.newest_id)
    @rule(subtask=st.sampled_from(SUBTASKS), keep=st.integers(0, 3))
    def snapshot(self, subtask: SubtaskId, keep: int) -> None:
        """A subtask appends to its log, which may forget its oldest files, and acknowledges."""
        self.file_count += 1
        log = self.logs[subtask]
        log.append(f"{subtask}-{self.file_count}")
        del log[: max(0, len(log) - 1 - keep)]
        self.sent.append((subtask, self.newest_id, set(log)))

    @precondition(lambda self: self.sent)
    @rule(subtask=st.sampled_from(SUBTASKS))
    def acknowledge(self, subtask: SubtaskId) -> None:
        sent = next((message for message in self.sent if message[0] == subtask), None)
        if sent is None:
            return
        self.sent.remove(sent)
        _, checkpoint_id, files = sent
        is_pending = checkpoint_id in self.pending
        if is_pending:
            self.registry.register_checkpoint(CheckpointId(checkpoint_id), files)
            self.pending[checkpoint_id].setdefault(subtask, set()).update(files)
        self.registry.register_subtask(subtask, CheckpointId(checkpoint_id), files)
        self.named[subtask] = files
        self.exist |= files

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        checkpoint_id = data.draw(st.sampled_from(sorted(self.pending)))
        del self.pending[checkpoint_id]
        self.registry.release_checkpoint(CheckpointId(checkpoint_id))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        checkpoint_id = data.draw(st.sampled_from(sorted(self.pending)))
        self.completed[checkpoint_id] = set().union(*self.pending.pop(checkpoint_id).values())
        for older in sorted(self.completed)[:-KEPT]:
            del self.completed[older]
            self.registry.release_checkpoint(CheckpointId(older))

    @precondition(lambda self: self.completed)
    @rule()
    def takeover(self) -> None:
        """A new coordinator knows the manifests and nothing else; orphans are found by listing."""
        self.registry = SharedStateRegistry()
        self.pending = {}
        self.restart()
        for checkpoint_id, files in self.completed.items():
            self.registry.register_checkpoint(CheckpointId(checkpoint_id), files)
        self.exist = {path for path in self.exist if self.registry.is_referenced(path)}

    @rule()
    def attempt_ends(self) -> None:
        for checkpoint_id in list(self.pending):
            del self.pending[checkpoint_id]
            self.registry.release_checkpoint(CheckpointId(checkpoint_id))
        self.registry.forget_subtasks()
        self.restart()

    @rule()
    def collect(self) -> None:
        doomed = set(self.registry.take_unreferenced())
        assert not doomed & self.needed(), "what is needed would be deleted"
        self.exist -= doomed
        assert self.exist == self.needed(), "an orphan is left behind"

    def needed(self) -> set[str]:
        pending = [files for acknowledged in self.pending.values() for files in acknowledged.values()]
        return set().union(*pending, *self.completed.values(), *self.named.values())

    @invariant()
    def counts_are_right(self) -> None:
        self.registry.validate()
        assert all(map(self.registry.is_referenced, self.needed()))


RegistryModel.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestRegistryModel = RegistryModel.TestCase


def test_an_acknowledgement_overtaken_by_a_newer_one_keeps_nothing_alive() -> None:
    registry = SharedStateRegistry()
    registry.register_subtask(SUBTASKS[0], CheckpointId(2), ["base", "second"])
    registry.register_subtask(SUBTASKS[0], CheckpointId(1), ["base", "first"])
    assert registry.take_unreferenced() == ["first"]


def test_files_of_a_foreign_message_go_unless_somebody_has_them() -> None:
    registry = SharedStateRegistry()
    registry.register_checkpoint(CheckpointId(1), ["restored"])
    registry.discard(["restored", "zombie"])
    assert registry.take_unreferenced() == ["zombie"]
    assert registry.take_unreferenced() == []


def test_a_file_named_again_before_it_is_taken_stays() -> None:
    registry = SharedStateRegistry()
    registry.discard(["a"])
    registry.register_subtask(SUBTASKS[0], CheckpointId(1), ["a"])
    assert registry.take_unreferenced() == []
