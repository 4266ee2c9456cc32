"""`tidegate savepoint inspect` and `diff`: look into savepoints, and into checkpoints too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ...state.snapshots.snapshot_diff import SnapshotDiff, StateDiff, diff
from ...state.snapshots.snapshot_pickles import PickledPlace, pickled_places
from ...state.snapshots.snapshot_reader import Snapshot, SnapshotOperator, read_snapshot
from ..output import progress, say, table
from ..text import moment, size
from .command import Command


@click.command(
    cls=Command,
    examples=[
        "tidegate savepoint inspect /savepoints/savepoint-3f2a1c-7",
        "tidegate savepoint inspect s3://bucket/checkpoints/<job id>/chk-12 --json",
    ],
)
@click.option("--verify", is_flag=True, help="Also compare every file with its checksum.")
@click.argument("path")
def inspect(path: str, verify: bool) -> None:
    """List the operators and states of a savepoint or checkpoint.

    It also lists what a restore would unpickle. This command itself unpickles nothing.
    """
    opened = read_snapshot(path)
    if verify:
        with progress("checking files"):
            opened.verify()
    say({**_described(opened), "verified": verify}, lambda: _shown(opened))


@click.command("diff", cls=Command, examples=["tidegate savepoint diff OLD NEW --limit 3"])
@click.option(
    "--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Keys to print for each state."
)
@click.argument("old")
@click.argument("new")
def diff_command(old: str, new: str, limit: int) -> None:
    """Compare the keys of two savepoints or checkpoints.

    It counts and lists the keys that NEW adds, removes and changes compared with OLD.
    """
    compared = diff(old, new)
    states = []
    with progress("comparing", len(compared.states)) as show:
        for number, state in enumerate(compared.states, 1):
            states.append(_Counted(state, limit))
            show(number)
    say(_summary(compared, states), lambda: _compared(compared, states))


def _described(opened: Snapshot) -> dict[str, Any]:
    return {
        "checkpoint_id": opened.checkpoint_id,
        "kind": opened.kind,
        "job_id": opened.job_id,
        "job_name": opened.job_name,
        "triggered_ms": opened.triggered_ms,
        "completed_ms": opened.completed_ms,
        "size_bytes": opened.size_bytes,
        "unpickled_by_a_restore": [
            {
                "operator_uid": place.operator_uid,
                "operator": place.operator_name,
                "state": place.state,
                "what": place.what,
            }
            for place in pickled_places(opened.manifest)
        ],
        "operators": [
            {
                "uid": operator.uid,
                "name": operator.name,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                "states": [
                    {
                        "name": state.name,
                        "kind": state.kind,
                        "schema": state.schema,
                        "stored_rows": state.stored_rows,
                        "size_bytes": state.size_bytes,
                    }
                    for state in operator.states
                ],
            }
            for operator in opened.operators.values()
        ],
    }


def _shown(opened: Snapshot) -> Iterator[Any]:
    yield f"{opened.kind} {opened.checkpoint_id} of job {opened.job_name!r} ({opened.job_id})"
    yield f"completed {moment(opened.completed_ms)}, {size(opened.size_bytes)}"
    for operator in opened.operators.values():
        yield ""
        yield (
            f"{operator.name} (uid {operator.uid}), parallelism {operator.parallelism} of "
            f"{operator.max_parallelism}"
        )
        yield _states(operator)
    yield ""
    yield from _pickles(pickled_places(opened.manifest))


def _pickles(places: list[PickledPlace]) -> Iterator[str]:
    if not places:
        yield "A restore unpickles nothing of it."
        return
    yield "A restore unpickles the following, which can run any code. Restore only what you trust:"
    for place in places:
        yield f"  {place}"


def _states(operator: SnapshotOperator) -> Any:
    if not operator.states:
        return "  no state"
    headings = ["state", "kind", "key", "map key", "value", "ttl", "stored rows", "size"]
    rows: list[list[object]] = []
    for state in operator.states:
        types = [state.schema.get(name, "-") for name in ("key_type", "map_key_type", "value_type", "ttl")]
        rows.append([state.name, state.kind, *types, state.stored_rows, size(state.size_bytes)])
    return table(headings, rows, indent=2)


class _Counted:
    """A state's changes: how many, and the first of them."""

    def __init__(self, state: StateDiff, limit: int) -> None:
        self.state = state
        self.counts = {"added": 0, "removed": 0, "changed": 0}
        self.first: dict[str, list[dict[str, Any]]] = {name: [] for name in self.counts}
        for changes in state.iter_changes():
            for name in self.counts:
                part = getattr(changes, name)
                self.counts[name] += part.num_rows
                missing = limit - len(self.first[name])
                self.first[name] += part.slice(0, max(0, missing)).to_pylist()


def _summary(compared: SnapshotDiff, states: list[_Counted]) -> dict[str, Any]:
    return {
        "operators_added": list(compared.operators_added),
        "operators_removed": list(compared.operators_removed),
        "states": [
            {
                "operator_uid": each.state.operator_uid,
                "state": each.state.state_name,
                "counts": each.counts,
                "first": each.first,
            }
            for each in states
        ],
    }


def _compared(compared: SnapshotDiff, states: list[_Counted]) -> Iterator[Any]:
    for uid in compared.operators_added:
        yield f"operator {uid} is new"
    for uid in compared.operators_removed:
        yield f"operator {uid} is gone"
    rows = [[each.state.operator_uid, each.state.state_name, *each.counts.values()] for each in states]
    yield table(["operator", "state", "added", "removed", "changed"], rows)
    for each in states:
        if any(each.counts.values()):
            yield ""
            yield f"{each.state.operator_uid}/{each.state.state_name}"
            yield from _first_changes(each)


def _first_changes(counted: _Counted) -> Iterator[str]:
    for sign, name in (("+", "added"), ("-", "removed"), ("~", "changed")):
        for row in counted.first[name]:
            yield f"  {sign} " + "  ".join(
                f"{column}={value!r}" for column, value in row.items() if value is not None
            )
        left = counted.counts[name] - len(counted.first[name])
        if left:
            yield f"  {sign} … {left} more"
