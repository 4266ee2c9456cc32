"""Says what a restore would do with every operator and state of a checkpoint, before anything starts.

Flink finds out when the job has started, and then throws.
"""

from __future__ import annotations

import enum
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..common.errors import TidegateError
from ..common.typeinfo import TypeInformation
from ..operators.base import OperatorContext
from ..operators.chain import load_operator
from ..protocol.handles import OperatorListHandle
from ..protocol.ids import Attempt
from ..protocol.key_groups import key_group_range_of_subtask
from ..protocol.manifest import CheckpointManifest, OperatorManifest
from ..protocol.plan import JobGraph, StreamNode
from ..state.backend import HashMapStateBackend, KeyedStateBackend, KeyedStateBackendParameters
from ..state.evolution import SchemaChangeKind, compare_schemas
from ..state.memory_storage import MemoryCheckpointStorage
from ..state.operator_state import OperatorStateBackend, OperatorStateBackendParameters
from ..state.raw_state import RAW_KEYED, RAW_OPERATOR, RawKeyedState, RawKeyedStateParameters

Schema = Mapping[str, object]


class Outcome(enum.Enum):
    """What becomes of a state."""

    MAPS = "maps"
    """It is restored as it is."""
    EVOLVED = "evolved"
    """It is restored, and its values are converted."""
    INCOMPATIBLE = "incompatible"
    """Its schema changed in a way that cannot be converted: the restore fails."""
    DROPPED = "dropped"
    """Its operator is gone: the restore fails, unless dropping it is allowed."""
    UNUSED = "unused"
    """The operator declares it no more: it is carried along from checkpoint to checkpoint, unread."""
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
                if state.outcome is Outcome.INCOMPATIBLE
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
    nodes = {node.uid: node for node in graph.operators}
    for node in nodes.values():
        checks.append(_checked(node, manifest.operators.get(node.uid), job_parameters))
    for uid, stored in manifest.operators.items():
        if uid not in nodes and stored.has_state:
            checks.append(_dropped(stored, allow_non_restored_state))
    return RestoreCheck(tuple(checks))


def _checked(
    node: StreamNode, stored: OperatorManifest | None, job_parameters: Mapping[str, str]
) -> OperatorCheck:
    check = OperatorCheck(
        node.uid,
        node.name,
        None if stored is None else len(stored.subtasks),
        node.parallelism,
        None if stored is None else stored.max_parallelism,
        node.max_parallelism,
    )
    declared = _declared(node, job_parameters)
    if declared.problem:
        check.notes.append(f"its states are not known: {declared.problem}")
    before = _Stored(stored)
    check.states += _states(before.keyed, declared.keyed, declared.is_complete)
    check.states += _states(before.lists, declared.lists, declared.is_complete)
    if stored is not None and before.keyed and stored.max_parallelism != node.max_parallelism:
        check.problems.append(
            f"its keyed state was written with max parallelism {stored.max_parallelism}, and the program has "
            f"{node.max_parallelism}; keys cannot move between key groups: call "
            f"set_max_parallelism({stored.max_parallelism})"
        )
    return check


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
    stored: Mapping[str, Schema], declared: Mapping[str, Schema], is_complete: bool
) -> list[StateCheck]:
    checks = []
    for name, schema in declared.items():
        before = stored.get(name)
        if before is None:
            checks.append(StateCheck(name, _kind(schema), Outcome.NEW, declared=schema))
            continue
        change = compare_schemas(before, schema)
        outcome = {
            SchemaChangeKind.SAME: Outcome.MAPS,
            SchemaChangeKind.EVOLVED: Outcome.EVOLVED,
            SchemaChangeKind.INCOMPATIBLE: Outcome.INCOMPATIBLE,
        }[change.kind]
        checks.append(StateCheck(name, _kind(schema), outcome, change.text, before, schema))
    for name, schema in stored.items():
        if name in declared:
            continue
        if name in (RAW_KEYED, RAW_OPERATOR.name):
            checks.append(StateCheck(name, _kind(schema), Outcome.MAPS, "its content is not checked", schema))
        elif is_complete:
            text = "not declared by the program; carried along unread"
            checks.append(StateCheck(name, _kind(schema), Outcome.UNUSED, text, schema))
        else:
            checks.append(StateCheck(name, _kind(schema), Outcome.UNKNOWN, "", schema))
    return checks


class _Stored:
    """The schemas of an operator's states in a checkpoint."""

    def __init__(self, stored: OperatorManifest | None) -> None:
        self.keyed: dict[str, Schema] = {}
        self.lists: dict[str, Schema] = {}
        for snapshot in () if stored is None else stored.subtasks:
            self.keyed.update(snapshot.keyed.descriptors)
            self.lists.update(_list_schemas(snapshot.lists))


def _list_schemas(handles: tuple[OperatorListHandle, ...]) -> dict[str, Schema]:
    return {handle.state_name: {**handle.schema, "mode": handle.mode} for handle in handles}


def _kind(schema: Schema) -> str:
    return str(schema.get("mode") or schema.get("kind"))


@dataclass(frozen=True)
class _Declared:
    """What an operator of the program declares."""

    keyed: Mapping[str, Schema]
    lists: Mapping[str, Schema]
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        return not self.problem


def _declared(node: StreamNode, job_parameters: Mapping[str, str]) -> _Declared:
    """Open an operator against empty backends and look at what it declared."""
    try:
        operator = load_operator(node)
        operator.validate()
    except TidegateError as error:
        return _Declared({}, {}, str(error))
    problem = ""
    with tempfile.TemporaryDirectory(prefix="tidegate-check-") as local_dir:
        context = _context(node, local_dir, job_parameters)
        operator.setup(context, lambda batch: None)
        try:
            operator.declare_states()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        keyed = {} if operator.keyed is None else operator.keyed.freeze().persist().descriptors
        lists = _list_schemas(context.operator_state.snapshot().persist())
        try:
            operator.close()
        except Exception as error:
            problem = problem or f"{type(error).__name__}: {error}"
    return _Declared(keyed, lists, problem)


def _context(node: StreamNode, local_dir: str, job_parameters: Mapping[str, str]) -> OperatorContext:
    storage = MemoryCheckpointStorage()
    key_groups = key_group_range_of_subtask(0, node.max_parallelism, node.parallelism)

    def keyed_backend(key_type: TypeInformation | None) -> KeyedStateBackend:
        return HashMapStateBackend().create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid=node.uid,
                operator_name=node.name,
                subtask_index=0,
                attempt=0,
                max_parallelism=node.max_parallelism,
                key_groups=key_groups,
                key_type=key_type,
                local_dir=local_dir,
                storage=storage,
                file_prefix="shared",
            )
        )

    return OperatorContext(
        operator_uid=node.uid,
        operator_name=node.name,
        subtask_index=0,
        parallelism=node.parallelism,
        max_parallelism=node.max_parallelism,
        attempt=Attempt(0),
        attempt_number=0,
        is_checkpointing=True,
        is_restored=False,
        now_ms=lambda: time.time_ns() // 1_000_000,
        create_keyed_backend=keyed_backend,
        operator_state=OperatorStateBackend(
            OperatorStateBackendParameters(node.uid, node.name, 0, 0, storage, "shared")
        ),
        local_dir=local_dir,
        results=_NoResults(),
        job_parameters=job_parameters,
        raw_keyed=RawKeyedState(
            RawKeyedStateParameters(node.uid, node.name, 0, 0, key_groups, storage, "shared")
        ),
    )


class _NoResults:
    """A `ResultPort` that nobody listens to."""

    def offer(self, key: str, values: list[Any]) -> None:
        """Nothing is processed in a check, so nothing is collected."""

    def unconfirmed(self) -> int:
        return 0

    def has_credit(self) -> bool:
        return True
