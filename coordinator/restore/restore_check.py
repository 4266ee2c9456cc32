"""Says what a restore would do with every operator and state of a checkpoint, before anything starts.

Flink finds out when the job has started, and then throws.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ...protocol.scheduling.plan import JobGraph, StreamNode
from ...state.claims import SETTING, is_marked, without_mark
from ...state.evolution import SchemaChangeKind, compare_schemas
from ...state.keyed.raw_state import RAW_KEYED, RAW_OPERATOR
from .declared_states import DeclaredStates, Schema, declared_states, list_schemas
from .restore import stored_operator


class Outcome(enum.Enum):
    """What becomes of a state."""

    MAPS = "maps"
    """It is restored as it is."""
    RENAMED = "renamed"
    """It is restored under another name, perhaps converted too."""
    EVOLVED = "evolved"
    """It is restored, and its values are converted."""
    INCOMPATIBLE = "incompatible"
    """Its schema changed in a way that cannot be converted: the restore fails."""
    DROPPED = "dropped"
    """Its operator is gone: the restore fails, unless dropping it is allowed."""
    UNUSED = "unused"
    """The operator does not declare it: it stays in each checkpoint, unread."""
    UNCLAIMED = "unclaimed"
    """The operator declared it in `open()` before and does not now: the restore fails, unless allowed."""
    NEW = "new"
    """The checkpoint does not have it: it starts empty."""
    UNKNOWN = "unknown"
    """The operator could not be opened here, so it is not known what it declares."""


@dataclass(frozen=True)
class StateCheck:
    """One state of one operator.

    Attributes:
        kind: `value`, `list`, `map`… for keyed state; `even-split`, `union` or `broadcast`.
        text: what changes or why it does not fit; may be empty.
        stored, declared: its schemas in the checkpoint and in the program, `None` where it is not there.
    """

    name: str
    kind: str
    outcome: Outcome
    text: str = ""
    stored: Schema | None = None
    declared: Schema | None = None


@dataclass
class OperatorCheck:
    """One operator of the checkpoint, of the program, or of both.

    Attributes:
        stored_parallelism, parallelism: in the checkpoint and in the program, `None` where it is not there.
        stored_max_parallelism, max_parallelism: its numbers of key groups.
        problems: what makes the restore fail, apart from single states.
        notes: what else there is to know.
    """

    uid: str
    name: str
    stored_parallelism: int | None
    parallelism: int | None
    stored_max_parallelism: int | None
    max_parallelism: int | None
    states: list[StateCheck] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RestoreCheck:
    """The outcome of a check; `problems` is empty exactly when the restore would succeed."""

    operators: tuple[OperatorCheck, ...]

    @property
    def problems(self) -> list[str]:
        """Everything that makes the restore fail."""
        found = []
        for operator in self.operators:
            where = f"operator {operator.name!r} (uid {operator.uid})"
            found += [f"{where}: {problem}" for problem in operator.problems]
            found += [
                f"{where}, state {state.name!r}: {state.text}"
                for state in operator.states
                if state.outcome in (Outcome.INCOMPATIBLE, Outcome.UNCLAIMED)
            ]
        return found


def check_restore_of(
    graph: JobGraph,
    manifest: CheckpointManifest,
    allow_non_restored_state: bool,
    job_parameters: Mapping[str, str],
) -> RestoreCheck:
    """Compare a job with a checkpoint. Opens every operator once in this process, without any data.

    Sources and sinks are not opened: what they keep is known. An `open()` that raises is reported, and
    the check goes on.
    """
    checks = []
    claimed = {uid for node in graph.operators for uid in (node.uid, *node.previous_uids)}
    for node in graph.operators:
        stored = stored_operator(node, manifest)
        checks.append(_checked(node, stored, job_parameters, allow_non_restored_state))
    for uid, stored in manifest.operators.items():
        if uid not in claimed and stored.has_state:
            checks.append(_dropped(stored, allow_non_restored_state))
    return RestoreCheck(tuple(checks))


def _checked(
    node: StreamNode,
    stored: OperatorManifest | None,
    job_parameters: Mapping[str, str],
    allow_non_restored_state: bool,
) -> OperatorCheck:
    check = OperatorCheck(
        node.uid,
        node.name,
        None if stored is None else len(stored.subtasks),
        node.parallelism,
        None if stored is None else stored.max_parallelism,
        node.max_parallelism,
    )
    declared = declared_states(node, job_parameters)
    if declared.problem:
        check.notes.append(f"its states are not known: {declared.problem}")
    if stored is not None and stored.uid != node.uid:
        check.notes.append(f"its state is that of its previous uid {stored.uid}")
    before = _Stored(stored)
    check.states += _states(before.keyed, declared.keyed, declared)
    check.states += _states(before.lists, declared.lists, declared)
    if not allow_non_restored_state:
        check.states = [_refused(state, before) for state in check.states]
    if stored is not None and before.keyed and stored.max_parallelism != node.max_parallelism:
        check.problems.append(
            f"its keyed state was written with max parallelism {stored.max_parallelism}, and the program has "
            f"{node.max_parallelism}; keys cannot move between key groups: call "
            f"set_max_parallelism({stored.max_parallelism})"
        )
    return check


def _refused(state: StateCheck, stored: _Stored) -> StateCheck:
    """A state that the program does not declare, if the restore may not ignore it."""
    if state.outcome is not Outcome.UNUSED or state.name not in stored.claimed & stored.filled:
        return state
    text = (
        f"not declared by the program in open(). Declare it; or, if it was renamed, call renamed_from(…) on "
        f"its descriptor; or allow that with {SETTING}: true"
    )
    return replace(state, outcome=Outcome.UNCLAIMED, text=text)


def _dropped(stored: OperatorManifest, is_allowed: bool) -> OperatorCheck:
    check = OperatorCheck(stored.uid, stored.name, len(stored.subtasks), None, stored.max_parallelism, None)
    before = _Stored(stored)
    check.states = [
        StateCheck(name, _kind(schema), Outcome.DROPPED, "", schema)
        for name, schema in (before.keyed | before.lists).items()
    ]
    if is_allowed:
        check.notes.append("the program has no such operator; its state is dropped, as allowed")
    else:
        check.problems.append(
            "the program has no such operator, so its state would be lost. Give the operator its old uid() "
            "again, or drop this state with execution.state-recovery.ignore-unclaimed-state: true"
        )
    return check


def _states(
    stored: Mapping[str, Schema], now: Mapping[str, Schema], declared: DeclaredStates
) -> list[StateCheck]:
    checks = []
    found = set()
    for name, schema in now.items():
        names = (name, *declared.previous_names.get(name, ()))
        before = next((each for each in names if each in stored), None)
        if before is None:
            checks.append(StateCheck(name, _kind(schema), Outcome.NEW, declared=schema))
        else:
            found.add(before)
            checks.append(_compared(name, before, stored[before], schema))
    for name, schema in stored.items():
        if name in found:
            continue
        if name in (RAW_KEYED, RAW_OPERATOR.name):
            checks.append(StateCheck(name, _kind(schema), Outcome.MAPS, "its content is not checked", schema))
        elif declared.problem:
            checks.append(StateCheck(name, _kind(schema), Outcome.UNKNOWN, "", schema))
        else:
            text = "not declared by the program; kept in checkpoints, unread"
            checks.append(StateCheck(name, _kind(schema), Outcome.UNUSED, text, schema))
    return checks


def _compared(name: str, stored_name: str, stored: Schema, declared: Schema) -> StateCheck:
    change = compare_schemas(stored, declared)
    outcome, text = _OUTCOMES[change.kind], change.text
    if stored_name != name and outcome is not Outcome.INCOMPATIBLE:
        outcome = Outcome.RENAMED
        text = "; ".join(part for part in (f"was {stored_name!r}", text) if part)
    return StateCheck(name, _kind(declared), outcome, text, stored, declared)


_OUTCOMES = {
    SchemaChangeKind.SAME: Outcome.MAPS,
    SchemaChangeKind.EVOLVED: Outcome.EVOLVED,
    SchemaChangeKind.INCOMPATIBLE: Outcome.INCOMPATIBLE,
}


class _Stored:
    """The schemas of an operator's states in a checkpoint."""

    def __init__(self, stored: OperatorManifest | None) -> None:
        self.keyed: dict[str, Schema] = {}
        self.lists: dict[str, Schema] = {}
        self.filled: set[str] = set()
        # Declared in `open()` by the program that stored them.
        self.claimed: set[str] = set()
        for snapshot in () if stored is None else stored.subtasks:
            self.filled.update(each.state_name for each in snapshot.keyed.segments if each.entry_count)
            self.filled.update(each.state_name for each in snapshot.lists if each.item_count)
            keyed: Mapping[str, Schema] = snapshot.keyed.descriptors
            for known, found in ((self.keyed, keyed), (self.lists, list_schemas(snapshot.lists))):
                known.update({name: without_mark(schema) for name, schema in found.items()})
                self.claimed.update(name for name, schema in found.items() if is_marked(schema))


def _kind(schema: Schema) -> str:
    return str(schema.get("mode") or schema.get("kind"))
