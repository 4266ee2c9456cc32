"""`JobTakeover` against a model: coordinators that take over, complete checkpoints and stop in any order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.protocol.checkpoints.checkpoint_paths import manifest_path
from tidegate.protocol.checkpoints.takeover import Completion, Takeover
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.job_takeover import (
    TAKEOVER_TRANSITIONS,
    JobTakeover,
    TakeoverEvent,
    TakeoverStep,
)
from tidegate.protocol.life_cycle import InvalidTransition

Table = Mapping[tuple[TakeoverStep, TakeoverEvent], TakeoverStep]
COORDINATORS = 4
ENDS = (TakeoverStep.DONE, TakeoverStep.FENCED, TakeoverStep.INCOMPLETE)


class Storage:
    """The job's directory, and which checkpoints tasks were notified of."""

    def __init__(self) -> None:
        self.epoch = 0
        self.given_id = 0
        self.takeovers: dict[int, Takeover] = {}
        self.completions: dict[int, Completion] = {}
        self.manifests: set[CheckpointId] = set()
        self.notified: set[CheckpointId] = set()


class Coordinator:
    """Each `step` reads or writes storage once, as a coordinator may be stopped between any two of these."""

    def __init__(self, storage: Storage, table: Table = TAKEOVER_TRANSITIONS) -> None:
        self._storage = storage
        storage.epoch += 1
        self.epoch = storage.epoch
        self.takeover = JobTakeover(self.epoch)
        self.takeover._table = table
        self.is_fenced = False
        self._next_id = 0
        self._completing = itertools.cycle([self._write, self._verify, self._notify])

    def step(self) -> None:
        if self.is_fenced:
            return
        if self.takeover.state in ENDS:
            assert self.takeover.state is not TakeoverStep.INCOMPLETE, "nothing was lost"
            next(self._completing)()
            return
        self._take_over()

    def _take_over(self) -> None:
        storage, takeover = self._storage, self.takeover
        steps: dict[TakeoverStep, Callable[[], None]] = {
            TakeoverStep.FIND_FIRST_ID: self._find_first_id,
            TakeoverStep.READ_COMPLETIONS: lambda: takeover.read_completions(storage.completions.values()),
            TakeoverStep.READ_TAKEOVERS: lambda: takeover.read_takeovers(storage.takeovers.values()),
            TakeoverStep.LIST_FILES: lambda: takeover.listed(map(manifest_path, storage.manifests)),
            TakeoverStep.READ_TAKEOVERS_AGAIN: lambda: takeover.read_takeovers(storage.takeovers.values()),
            TakeoverStep.READ_MANIFESTS: self._read_manifests,
            TakeoverStep.RECORD: self._record,
            TakeoverStep.CHECK_FENCE: lambda: self._verified(self._owns),
            TakeoverStep.VERIFY_LOSS: lambda: self._verified(takeover.done),
            TakeoverStep.DELETE_LATE: self._delete_late,
        }
        steps[takeover.state]()

    def _find_first_id(self) -> None:
        self._next_id = self._storage.given_id + 1
        self._storage.given_id += 10
        self.takeover.found_first_id(self._next_id)

    def _read_manifests(self) -> None:
        if self._storage.manifests.issuperset(self.takeover.accepted):
            self.takeover.done()
        else:
            # A newer coordinator deleted one: reading it raises.
            self._verified(self._miss)

    def _miss(self) -> None:
        raise AssertionError("a checkpoint that counts is gone")

    def _record(self) -> None:
        is_new = self.epoch not in self._storage.takeovers
        self._storage.takeovers.setdefault(self.epoch, self.takeover.record)
        self.takeover.recorded(is_new)

    def _owns(self) -> None:
        missing = self._storage.notified - set(self.takeover.accepted)
        assert not missing, f"tasks have committed {missing}, but coordinator {self.epoch} ignores it"
        self.takeover.done()

    def _delete_late(self) -> None:
        deleted = self._storage.notified.intersection(self.takeover.late)
        assert not deleted, f"tasks have committed {deleted}, but coordinator {self.epoch} deletes it"
        self._storage.manifests.difference_update(self.takeover.late)
        self.takeover.done()

    def _verified(self, then: Callable[[], None]) -> None:
        self.is_fenced = self._storage.epoch > self.epoch
        if not self.is_fenced:
            then()

    # ------------------------------------------------------------ completing a checkpoint (ADR 009, 059)

    def _write(self) -> None:
        self._storage.manifests.add(CheckpointId(self._next_id))

    def _verify(self) -> None:
        self._verified(lambda: None)

    def _notify(self) -> None:
        checkpoint_id = CheckpointId(self._next_id)
        self._storage.completions[self.epoch] = Completion(self.epoch, checkpoint_id)
        self._storage.notified.add(checkpoint_id)
        self._next_id += 1


def run(choices: list[int], table: Table = TAKEOVER_TRANSITIONS) -> None:
    """Let coordinators take steps: 0 starts another one, any other number lets that one go on."""
    storage = Storage()
    coordinators = [Coordinator(storage, table)]
    for choice in choices:
        if choice == 0 and len(coordinators) < COORDINATORS:
            coordinators.append(Coordinator(storage, table))
        elif choice <= len(coordinators):
            coordinators[choice - 1].step()


steps = st.lists(st.integers(0, COORDINATORS), min_size=10, max_size=90)


@settings(max_examples=300)
@given(steps)
def test_whatever_was_committed_is_found_and_stays(choices: list[int]) -> None:
    run(choices)


def reordered(*changes: tuple[tuple[TakeoverStep, TakeoverEvent], TakeoverStep]) -> Table:
    return {**TAKEOVER_TRANSITIONS, **dict(changes)}


STEP, DONE = TakeoverStep, TakeoverEvent.SUCCEEDED
LISTED_FIRST = reordered(
    ((STEP.FIND_FIRST_ID, DONE), STEP.LIST_FILES),
    ((STEP.LIST_FILES, DONE), STEP.READ_COMPLETIONS),
    ((STEP.READ_TAKEOVERS, DONE), STEP.READ_TAKEOVERS_AGAIN),
)
UNFENCED = reordered(((STEP.RECORD, DONE), STEP.DELETE_LATE))


def drawn(seed: int) -> list[int]:
    """The first coordinator takes over, then anything happens."""
    random = Random(seed)
    return [*[1] * 10, *(random.randrange(COORDINATORS + 1) for _ in range(80))]


@pytest.mark.parametrize(
    ("table", "seed"), [(LISTED_FIRST, 6354), (UNFENCED, 13503)], ids=["listed-first", "unfenced"]
)
def test_a_wrong_order_of_steps_is_found(table: Table, seed: int) -> None:
    run(drawn(seed))
    with pytest.raises(AssertionError, match=r"nothing was lost|is gone"):
        run(drawn(seed), table)


@pytest.mark.parametrize(("step", "event"), list(itertools.product(TakeoverStep, TakeoverEvent)))
def test_a_transition_happens_as_listed_or_raises(step: TakeoverStep, event: TakeoverEvent) -> None:
    takeover = JobTakeover(1)
    takeover.state = step
    target = TAKEOVER_TRANSITIONS.get((step, event))
    if target is not None:
        assert takeover.handle(event) is target
        return
    with pytest.raises(InvalidTransition):
        takeover.handle(event)


def test_every_step_leads_to_an_end() -> None:
    for step in set(TakeoverStep) - set(ENDS):
        following = {target for (before, _), target in TAKEOVER_TRANSITIONS.items() if before is step}
        assert following, step
    assert not any(step in ENDS for step, _ in TAKEOVER_TRANSITIONS)
